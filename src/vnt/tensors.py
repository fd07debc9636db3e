"""Tensors in safetensors files, written whole or not at all, with errors that say what happened."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from vnt.files import atomic_write


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name; a full disk is an ``OSError``."""
    with atomic_write(path) as temporary:
        try:
            save_file(_apart({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}), temporary)
        except SafetensorError as error:  # its own type also for what the disk says
            raise OSError(f"{path}: {error}") from error


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of those that share memory with one before them, as tied weights do: the format has no word for it."""
    seen: set[int] = set()
    for name, tensor in tensors.items():
        place = tensor.untyped_storage().data_ptr()
        tensors[name] = tensor.clone() if place in seen else tensor
        seen.add(place)
    return tensors


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors by name; a damaged file is a ``ValueError``."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from error
