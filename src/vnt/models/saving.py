"""A model as a folder: ``model.safetensors`` with its weights, ``config.json`` with all that is needed to use them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vnt.files import atomic_write
from vnt.models.kinds import ModelConfig, build_model, model_from_dict, model_to_dict
from vnt.tensors import read_tensors, write_tensors
from vnt.version import __version__

FORMAT = 1
"""Of ``config.json``. A program refuses files of a later format than it knows."""


PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""Models that come with the library, by the names of their folders."""


HUB = "hf-hub:"
"""What the name of a model on the Hugging Face Hub begins with, before owner/name."""


def model_folder(model: Path | str) -> Path:
    """Where a model lies: a folder, the weights in it, a name of one that comes with the library, or ``hf-hub:a/b``."""
    if str(model).startswith(HUB):
        return _from_hub(str(model).removeprefix(HUB))
    path = Path(model)
    if path.name == "model.safetensors":
        return path.parent
    bundled = PRETRAINED / path
    is_other = (path / "config.json").exists() or len(path.parts) != 1  # a folder of data may have a model's name
    return bundled if not is_other and bundled.is_dir() else path


def _from_hub(name: str) -> Path:
    """The folder that the Hub's own cache keeps the model in, fetched where it is not there yet."""
    try:
        from huggingface_hub import snapshot_download  # type: ignore[missing-import]
    except ImportError as error:
        raise ModuleNotFoundError(
            f"{HUB}{name}: models on the Hugging Face Hub need huggingface-hub: pip install huggingface-hub"
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=["config.json", "model.safetensors", "README.md"]))
    except Exception as error:  # of a dozen kinds, from a bad name to no network
        message = " ".join(str(error).split())[:300]
        raise FileNotFoundError(f"{HUB}{name}: could not be fetched from the Hugging Face Hub: {message}") from error


def write_about(folder: Path, config: ModelConfig, about: Mapping[str, Any]) -> None:
    """Write ``config.json``: the model's config, and what else belongs to it (class names, how it was trained)."""
    content = {**about, "format": FORMAT, "vnt": __version__, "model": model_to_dict(config)}
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


def save_pretrained(
    model: nn.Module, folder: Path | str, *, about: Mapping[str, Any] | None = None, card: str = ""
) -> Path:
    """Write a model as a folder that `load` reads and the Hugging Face Hub takes: config, weights and a card.

    Args:
        model: one of ours.
        folder: made where it is not there.
        about: what else belongs to it, ``{"class_names": [...]}`` for instance; `read_about` gives it back.
        card: Markdown for README.md; by default it says what the model is.
    """
    model = getattr(model, "_orig_mod", model)  # of a compiled module, what was compiled
    config: Any = getattr(model, "config", None)
    if config is None:
        raise ValueError(f"a {type(model).__name__} has no config to build it from again")
    with torch.random.fork_rng(devices=()):
        again = build_model(config).state_dict()
    if strange := sorted(again.keys() ^ model.state_dict().keys()):
        raise ValueError(f"the config of this {type(model).__name__} does not build it again: {strange[0]} differs")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_about(folder, config, dict(about or {}))
    write_weights(folder, model)
    about_it = f"---\nlibrary_name: vnt\n---\n# {folder.name}\n\nA {type(model).__name__}: `vnt.load(folder)`.\n"
    with atomic_write(folder / "README.md") as path:
        path.write_text(card or about_it)
    return folder


def load(path: Path | str) -> nn.Module:
    """A model in evaluation mode: of a folder (a run's, say), one that comes with the library, or ``hf-hub:a/b``.

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
        tensors, config = read_tensors(weights), model_from_dict(about["model"])
        depth = getattr(config, "depth", 0)
        if isinstance(depth, int) and depth > len(tensors):  # each block has some; a file may ask for millions
            raise ValueError(f"depth {depth:,} and only {len(tensors)} tensors")
        model = build_model(config)
        model.load_state_dict(tensors)
    except (RuntimeError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise ValueError(f"{weights}: these weights do not fit config.json ({message})") from error
    return model.eval()
