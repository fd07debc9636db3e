"""State dicts as other programs leave them: read without unpickling objects, wrappers and prefixes taken off."""

import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vnt.files import require_file
from vnt.tensors import read_tensors

State = Mapping[str, Tensor]

WRAPPERS = ("model_state_dict", "state_dict", "model")
"""Under which training loops keep the weights, beside the epoch and the optimiser."""

MOST_WRAPPED = 8
"""Wrappers inside one another; a file may also say that it holds itself."""

PREFIXES = ("module.", "_orig_mod.", "model.")
"""What `DataParallel`, `torch.compile` and a model inside another put before every name."""

_SCALAR = np.float64(0).__reduce__()[0]
NUMBERS: list[Any] = [
    *((_SCALAR, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("float64", "float32", "int64")),
]
"""NumPy's numbers, which are numbers and no code: Deng et al.'s program keeps its accuracies as such."""


def read_state(source: Path | str | Mapping[str, Any], part: str = "") -> dict[str, Tensor]:
    """The tensors of a file (.pt, .pth, .t7, .safetensors) or of a state dict, by their bare names.

    Args:
        source: a path, or what `torch.load` or ``state_dict()`` gave.
        part: only what lies under this name, without it: "encoder.layers.0.0".
    """
    content = source if isinstance(source, Mapping) else _load(require_file(source))
    where = "" if isinstance(source, Mapping) else f"{source}: "
    for _ in range(MOST_WRAPPED):
        if isinstance(content, Mapping) and (inner := next((key for key in WRAPPERS if _holds(content, key)), None)):
            content = content[inner]
    if not isinstance(content, Mapping) or not content:
        what = "is empty" if isinstance(content, Mapping) else f"is a {type(content).__name__}"
        raise ValueError(f"{where}not a state dict, which has tensors by name: this {what}")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            kind = f"{name!r} is a {type(value).__name__}"
            raise ValueError(f"{where}not a state dict, which has tensors by name: {kind}")
    state: dict[str, Tensor] = dict(content)
    while prefix := next((prefix for prefix in PREFIXES if all(name.startswith(prefix) for name in state)), None):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    if part:
        state = {name.removeprefix(f"{part}."): x for name, x in state.items() if name.startswith(f"{part}.")}
        if not state:
            raise ValueError(f"{where}nothing in it lies under {part!r}")
    for name, value in state.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise ValueError(f"{where}{name} has values that are not finite: the training that wrote it had diverged")
    return state


def fill(model: nn.Module, weights: State) -> nn.Module:
    """The model with these weights, in evaluation mode; float64 stays, anything shorter becomes float32."""
    is_double = any(value.dtype == torch.float64 for value in weights.values())
    model.to(torch.float64 if is_double else torch.float32).load_state_dict(weights)
    return model.eval()


def some(names: Iterable[str]) -> str:
    """A few of the names, to know a state dict by.

    >>> some(["a.weight", "a.bias"])
    'it has a.weight, a.bias'
    """
    names = list(names)
    return "it has " + ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _holds(content: Mapping[str, Any], key: str) -> bool:
    return isinstance(content.get(key), Mapping)


def _load(path: Path) -> Any:
    """What a file holds, as long as that is tensors, numbers, words and containers of them."""
    if path.suffix == ".safetensors":
        return read_tensors(path)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(NUMBERS):
            warnings.simplefilter("ignore")  # of what the file may be; the error says it
            return torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # of as many kinds as there are damaged files
        found = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", str(error))
        if found:
            raise ValueError(
                f"{path}: holds a {found[1]}, an object that loading would have to run code for: save "
                "model.state_dict() alone, with torch.save"
            ) from error
        raise ValueError(f"{path}: not a file of weights that torch.save wrote ({type(error).__name__})") from error
