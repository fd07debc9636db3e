"""What all readers and writers do: refuse with the file's name, stay within bounds, write whole or not at all."""

import math
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

if sys.platform != "win32":
    import fcntl

FREE_EXPANSION = 256 * 2**20
EXPANSION = 200


def require_sane_size(path: Path, claimed: int, what: str, *, free: int = FREE_EXPANSION, advice: str = "") -> None:
    """Refuse a header or an archive that promises more bytes than a file of this size can honestly hold.

    ``free`` bytes (256 MiB) are always granted, beyond that 200 times the size of the file, which no honest
    compression of coordinates reaches. ``advice`` ends the message, for whoever has an honest file all the same.
    """
    limit = max(free, EXPANSION * path.stat().st_size)
    if claimed < 0 or claimed > limit:
        end = f": {advice}" if advice else ""
        raise ValueError(f"{path}: {what} would take {claimed:,} bytes from a file of {path.stat().st_size:,}{end}")


def for_json(value: Any) -> Any:
    """A value of which JSON has all: what is no finite number becomes null."""
    if isinstance(value, dict):
        return {key: for_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [for_json(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def blame(path: Path | str) -> Generator[None]:
    """Turn whatever goes wrong while reading ``path`` into a ``ValueError`` that names it.

    Readers meet damaged files in as many ways as there are libraries; a caller needs one. What is about the machine
    (no such file, no permission) keeps its own type.
    """
    try:
        yield
    except (FileNotFoundError, PermissionError, ModuleNotFoundError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of a Rust extension is not an Exception
        message = str(error).strip() or type(error).__name__
        if isinstance(error, ValueError) and message.startswith(f"{path}:"):
            raise
        raise ValueError(f"{path}: {message.splitlines()[0][:300]}") from error


def require_file(path: Path | str) -> Path:
    """The path of a file that exists, is no directory and is not empty."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: expected a file, got a directory")
    if path.stat().st_size == 0:
        raise ValueError(f"{path}: the file is empty")
    return path


def require_library(module: str, purpose: str, extra: str = "data") -> ModuleType:
    """Import a library of an extra, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{purpose} needs {module}: pip install 'vnt[{extra}]'", name=module) from error


@contextmanager
def atomic_write(path: Path | str) -> Generator[Path]:
    """A temporary path beside ``path`` to write to; it takes the name only when it is whole and on disk.

    An interrupted write leaves the old file, or none: never half of one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def held(path: Path) -> Generator[bool]:
    """Whether this process holds ``path``, an empty file made for it, alone of all on this machine.

    The system lets go when a process ends, however it ends. Where it holds no files (Windows, some network disks)
    everybody is told that they do.
    """
    if sys.platform == "win32":
        yield True
        return
    while True:
        with open(path, "ab") as file:
            if not _lock(file):
                yield False
                return
            if not _is_at(path, file):  # whoever held it has removed it since
                continue
            try:
                yield True
            finally:
                path.unlink(missing_ok=True)
            return


def _lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk that knows no locks
        pass
    return True


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
