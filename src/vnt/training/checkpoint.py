"""The state of a run on disk: tensors as safetensors, the rest as JSON, each written whole or not at all.

A state is two files, ``state-00001200.safetensors`` and ``state-00001200.json``. The second holds the checksum of the
first and is written last, so a state that has its JSON is complete; the last two are kept. Nothing is unpickled.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vnt.files import atomic_write
from vnt.tensors import read_tensors, write_tensors

KEPT = 2


@dataclass(frozen=True)
class State:
    """What a run goes on from: step number ``step`` is the next to be taken.

    Attributes:
        step: steps taken so far.
        tensors: of the model, the average and the optimizer, under "model.", "average." and "optimizer.".
        rest: what else the loop wants to remember, ready for JSON.
    """

    step: int
    tensors: Mapping[str, Tensor]
    rest: Mapping[str, Any]


def save_state(folder: Path, state: State) -> None:
    """Write a state, then remove all but the last `KEPT`."""
    tensors = folder / f"state-{state.step:08d}.safetensors"
    write_tensors(tensors, state.tensors)
    digest = _digest(tensors)
    with atomic_write(tensors.with_suffix(".json")) as path:
        about = {"step": state.step, "sha256": digest, "rest": dict(state.rest)}
        path.write_text(json.dumps(about | {"seal": _seal(about)}, indent=1) + "\n")
    for old in sorted(folder.glob("state-*.json"))[:-KEPT]:
        old.unlink()
    complete = {path.stem for path in folder.glob("state-*.json")}
    for orphan in folder.glob("state-*.safetensors"):
        if orphan.stem not in complete:
            orphan.unlink()


def load_state(folder: Path, *, step: int | None = None) -> State | None:
    """The newest state, or the one after ``step`` steps; None where there is none yet.

    A state that is truncated or was tampered with is refused; the message names the one before it, if any.
    """
    found = sorted(folder.glob("state-*.json"))
    if step is not None:
        found = [path for path in found if path.stem == f"state-{step:08d}"]
        if not found:
            raise FileNotFoundError(f"{folder}: no state after {step} steps")
    if not found:
        return None
    path = found[-1]
    try:
        about = json.loads(path.read_text())
        if about.pop("seal") != _seal(about) or path.stem != f"state-{about['step']:08d}":
            raise ValueError("its JSON was changed")
        tensors = path.with_suffix(".safetensors")
        if _digest(tensors) != about["sha256"]:
            raise ValueError("its checksum is wrong")
        return State(about["step"], read_tensors(tensors), about["rest"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        older = [int(other.stem.split("-")[1]) for other in found[:-1]]
        offer = f"; resume from the one before with --from-step {older[-1]}" if older else "; there is no earlier one"
        raise ValueError(f"{path}: this checkpoint is damaged ({error}){offer}") from error


def forget_after(folder: Path, step: int) -> None:
    """Remove states that lie ahead of where a run goes on: it will write them again."""
    for path in folder.glob("state-*"):
        if path.stem > f"state-{step:08d}":
            path.unlink()


def pack(model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """All tensors of a run by name; the optimizer's under the names of the weights they belong to."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"average.{name}": value for name, value in average.state_dict().items()}
    for parameter, values in optimizer.state.items():
        tensors |= {f"optimizer.{key}.{names[parameter]}": torch.as_tensor(value) for key, value in values.items()}
    return tensors


def unpack(state: State, folder: Path, model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put the tensors of `pack` back where they were; ``folder`` is named where they do not fit."""
    try:
        _unpack(state.tensors, model, average, optimizer)
    except RuntimeError as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"{folder}: the state after {state.step} steps does not fit the model ({message})") from error


def _unpack(
    tensors: Mapping[str, Tensor], model: nn.Module, average: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    for prefix, module in (("model.", model), ("average.", average)):
        part = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        module.load_state_dict(part)
    parameters, fused = dict(model.named_parameters()), bool(optimizer.defaults.get("fused"))
    for full_name, value in tensors.items():
        if full_name.startswith("optimizer."):
            _, key, name = full_name.split(".", 2)
            parameter = parameters[name]
            # AdamW counts its steps on the CPU unless it is fused.
            optimizer.state[parameter][key] = value.to(parameter.device) if key != "step" or fused else value


def _seal(about: Mapping[str, Any]) -> str:
    """A checksum of what the JSON says."""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
