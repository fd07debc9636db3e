"""Parse once, then memory-map: large sets start in well under a second the second time."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from vnt.files import atomic_write


def cache_folder() -> Path:
    """``VNT_CACHE``, or ``vnt`` in the user's cache folder."""
    if folder := os.environ.get("VNT_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vnt"


def cached(
    name: str, settings: Mapping[str, object], sources: Sequence[Path], build: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """What ``build()`` gives, kept as one file that is mapped into memory from then on.

    The file is named after the settings and the sources' paths, sizes and times of change: when a source changes, the
    set is built again and the old file removed. It is written whole or not at all, and a damaged one is built again.
    Where nothing can be written the set is used from memory, with a warning.
    """
    identity = _digest([dict(settings), [str(path.resolve()) for path in sources]])
    state = _digest([[status.st_size, status.st_mtime_ns] for status in (path.stat() for path in sources)])
    path = cache_folder() / f"{name}-{identity}-{state}.safetensors"
    if path.exists() and (found := _open(path)) is not None:
        return found
    built = {key: value.contiguous() for key, value in build().items()}
    try:
        with atomic_write(path) as temporary:
            save_file(built, temporary)
        for stale in path.parent.glob(f"{name}-{identity}-*.safetensors"):
            if stale != path:
                stale.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:  # a full disk is the latter
        warnings.warn(f"{path}: could not keep {name} for the next start ({error})", stacklevel=2)
        return built
    return _open(path) or built


def _open(path: Path) -> dict[str, Tensor] | None:
    """The tensors of a file, mapped, or None where the file is not whole."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a mapping
    except (SafetensorError, OSError):
        return None


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
