"""Where data sets are: ``--data``, then the environment variable ``VNT_DATA``, then ``./data``."""

import os
from collections.abc import Callable
from pathlib import Path

VARIABLE = "VNT_DATA"


def data_folder(folder: Path | str | None = None) -> Path:
    """The folder that holds the data sets."""
    return Path(folder or os.environ.get(VARIABLE) or "data")


def is_named_only(path: Path) -> bool:
    """No: for sets that are known by their names alone."""
    return False


def look_up(
    candidates: tuple[str, ...], folder: Path | str | None = None, is_set: Callable[[Path], bool] = is_named_only
) -> Path | None:
    """The first of ``candidates`` that lies in the data folder; else that folder itself, if it is the set.

    It is if it has the name of a candidate, or if ``is_set`` finds in it what the set is made of.
    """
    root = data_folder(folder)
    found = next((root / candidate for candidate in candidates if (root / candidate).exists()), None)
    if found is None and root.exists() and (root.name in candidates or is_set(root)):
        return root
    return found


def find_set(
    name: str,
    candidates: tuple[str, ...],
    hint: str,
    folder: Path | str | None = None,
    is_set: Callable[[Path], bool] = is_named_only,
) -> Path:
    """As `look_up`, but a set that is not there is an error, with a ``hint`` at where to get it."""
    found = look_up(candidates, folder, is_set)
    if found is None:
        raise FileNotFoundError(
            f"{name} is not in {data_folder(folder).absolute()}: expected {' or '.join(candidates)} there. {hint} "
            f"Put it into that folder, or name another one with {VARIABLE} or --data."
        )
    return found
