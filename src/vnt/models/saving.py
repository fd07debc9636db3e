"""A model as a folder: ``model.safetensors`` with its weights, ``config.json`` with all that is needed to use them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from vnt.files import atomic_write
from vnt.models.kinds import ModelConfig, build_model, model_from_dict, model_to_dict
from vnt.tensors import read_tensors, write_tensors
from vnt.version import __version__

FORMAT = 1
"""Of ``config.json``. A program refuses files of a later format than it knows."""


PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Models that come with the library, by the names of their folders."""


def model_folder(model: Path | str) -> Path:
    """Where a model lies: a folder, the weights in it, or the name of one that comes with the library."""
    path = Path(model)
    if path.name == "model.safetensors":
        return path.parent
    bundled = PRETRAINED / path
    return bundled if not path.exists() and len(path.parts) == 1 and bundled.is_dir() else path


def write_about(folder: Path, config: ModelConfig, about: Mapping[str, Any]) -> None:
    """Write ``config.json``: the model's config, and what else belongs to it (class names, how it was trained)."""
    content = {"format": FORMAT, "vnt": __version__, "model": model_to_dict(config), **about}
    with atomic_write(folder / "config.json") as path:
        path.write_text(json.dumps(content, indent=2) + "\n")


def read_about(model: Path | str) -> dict[str, Any]:
    """What ``config.json`` says."""
    path = model_folder(model) / "config.json"
    if not path.exists():
        known = ", ".join(sorted(folder.name for folder in PRETRAINED.iterdir() if folder.is_dir()))
        raise FileNotFoundError(
            f"{path}: no such file; a model is a folder with config.json and model.safetensors, or one of {known}"
        )
    try:
        about = json.loads(path.read_text())
        written = about["format"]
        model_kind = about["model"]["kind"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not the config of a model ({error})") from error
    if not isinstance(written, int) or written > FORMAT:
        raise ValueError(
            f"{path}: written by a newer vnt ({about.get('vnt')}, format {written}), this one reads up to {FORMAT}: "
            f"upgrade vnt to use this {model_kind}"
        )
    return about


def write_weights(folder: Path, model: nn.Module) -> None:
    """Write ``model.safetensors``."""
    write_tensors(folder / "model.safetensors", model.state_dict())


def load(path: Path | str) -> nn.Module:
    """A model in evaluation mode: that of a folder, a run's for instance, or one that comes with the library.

    Nothing is unpickled.

    >>> sum(parameter.numel() for parameter in load("modelnet40-small").parameters())
    38320
    """
    folder = model_folder(path)
    about = read_about(folder)
    if own := about.get("own_model"):
        raise ValueError(
            f"{folder}: trained with a model of your own, {own}; make one and load model.safetensors into it"
        )
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise FileNotFoundError(f"{weights}: no such file; has the run finished its first epoch?")
    try:
        model = build_model(model_from_dict(about["model"]))
        model.load_state_dict(read_tensors(weights))
    except (RuntimeError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"{weights}: these weights do not fit config.json ({message})") from error
    return model.eval()
