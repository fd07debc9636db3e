"""Where data sets are: ``--data``, then the environment variable ``VNT_DATA``, then ``./data``."""

import os
from pathlib import Path

VARIABLE = "VNT_DATA"


def data_folder(folder: Path | str | None = None) -> Path:
    """The folder that holds the data sets."""
    return Path(folder or os.environ.get(VARIABLE) or "data")


def find_set(name: str, candidates: tuple[str, ...], hint: str, folder: Path | str | None = None) -> Path:
    """The first of ``candidates`` that lies in the data folder, or that ``folder`` itself is.

    ``hint`` says where to get the set, for the message when it is not there.
    """
    root = data_folder(folder)
    if root.name in candidates and root.exists():
        return root
    for candidate in candidates:
        if (root / candidate).exists():
            return root / candidate
    raise FileNotFoundError(
        f"{name} is not in {root.absolute()}: expected {' or '.join(candidates)} there. {hint} "
        f"Put it into that folder, or name another one with {VARIABLE} or --data."
    )
