"""From a model to a file that runs without vnt."""

import contextlib
import copy
import importlib.util
import io
import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from vnt.export.checks import Check, check, require_sound
from vnt.export.signature import Signature, signature_of
from vnt.files import atomic_write

Precision = Literal["float32", "float16"]
NEEDED = ("onnx", "onnxscript", "onnxruntime")
"""Packages that make and run ONNX files."""


class _Named(nn.Module):
    """The model with its inputs by position, and results in float32 whatever it computes in."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]):
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(inputs[0], **dict(zip(self.names[1:], inputs[1:], strict=True))).float()


def export(
    model: nn.Module,
    path: Path | str,
    *,
    about: Mapping[str, Any] | None = None,
    precision: Precision = "float32",
    mask: bool = False,
    say: Callable[[str], None] = lambda words: None,
) -> list[Check]:
    """Write a model to a file, ``.onnx`` or ``.pt2``, with any number of clouds and of points.

    Before anything is written, the artefact is run on clouds of several sizes: its results must be the model's, and
    its symmetry must be no worse than the model's. It is a ValueError where they are not.

    Args:
        model: one of ours, on the CPU.
        path: the file; its ending says which kind.
        about: what ``config.json`` says (`vnt.models.saving.read_about`): class names and the like go into the file.
        precision: that it computes in; inputs and results are float32.
        mask: whether it takes a mask, for clouds of different sizes in one batch.
        say: hears what happens.

    Returns:
        What was measured, one `Check` for each size.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise ValueError(f"{path}: must end in .onnx (ONNX) or .pt2 (torch.export)")
    if path.suffix == ".onnx" and (missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]):
        raise ModuleNotFoundError(f"ONNX needs {', '.join(missing)}: pip install 'vnt[onnx]'")
    model = copy.deepcopy(model).float().eval()
    signature = signature_of(model, mask=mask)
    named = _Named(model, signature.names)
    lowered = named if precision == "float32" else _Named(copy.deepcopy(model).half(), signature.names)
    say("tracing the model")
    program = _trace(lowered, signature)
    facts = {"vnt": json.dumps(dict(about or {})), "inputs": json.dumps(signature.names)}
    with tempfile.TemporaryDirectory() as folder:
        if path.suffix == ".onnx":
            made = Path(folder) / "model.onnx"
            _write_onnx(program, signature, facts, made)
            run = onnx_runner(made)
        else:
            made = Path(folder) / "model.pt2"
            torch.export.save(program, made, extra_files=facts)
            run = torch.export.load(made).module()
        say("checking what it computes, and its symmetry")
        with torch.no_grad():
            checks = check(named, run, signature)
        require_sound(checks, precision)
        with atomic_write(path) as target:
            target.write_bytes(made.read_bytes())
    return checks


def _trace(model: _Named, signature: Signature) -> ExportedProgram:
    """One graph for any number of clouds and points."""
    items, tokens = Dim("items", max=2**20), Dim("tokens", max=2**24)
    free = {0: items, 1: tokens}
    example = signature.random(2, signature.least_tokens + 3)
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(model, example, dynamic_shapes=(tuple(free for _ in example),))
    except Exception as error:  # of as many kinds as there are reasons
        words = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(
            f"torch.export finds no one graph of a {type(model.model).__name__} for any number of items and tokens: "
            f"{words[:300]}"
        ) from error


def _write_onnx(program: ExportedProgram, signature: Signature, facts: Mapping[str, str], path: Path) -> None:
    with _quiet():
        made = torch.onnx.export(
            program,
            dynamo=True,
            verbose=False,
            input_names=list(signature.names),
            output_names=[signature.output],
        )
    assert made is not None
    made.model.metadata_props.update(facts)
    made.save(path)


def onnx_runner(path: Path) -> Callable[..., Tensor]:
    """An ONNX file as a function of tensors, run by ONNX Runtime on as many threads as torch uses."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.force_spinning_stop", "1")  # or its threads slow down whoever is next
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]

    def run(*inputs: Tensor) -> Tensor:
        given = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run(None, given)[0])

    return run


@contextlib.contextmanager
def _quiet():
    """Without what the exporters print about packages that they do not need, and of graphs that they cannot make."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.fx")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    nowhere = io.StringIO()
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
