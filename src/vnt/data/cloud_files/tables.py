"""Tables of points as text: XYZ, TXT, CSV, PTS."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from vnt.data.cloud import Cloud
from vnt.data.cloud_files.columns import cloud_from_columns, cloud_from_table, require_distinct

COMMENTS = ("#", "//")
MAX_COMMENTS = 100


def read_table(path: Path) -> Cloud:
    """One point per line, columns apart by white space, commas or semicolons.

    A first line of names, perhaps behind "#" or "//", says which column is which. Without one, the columns are x, y, z,
    then normals if there are three more of unit length, else attributes column_3, column_4, ... A first line with one
    whole number, as PTS files have, must be the number of points.
    """
    comments: list[str] = []
    names, promised = None, None
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        rows = _rows(file, comments)
        first = next(rows, "")
        if re.fullmatch(r"\s*\d{1,18}\s*", first):
            promised, first = int(first), next(rows, "")
        if _is_header(first):
            names, first = _names(first, _delimiter(first)), next(rows, "")
        if not first:
            raise ValueError("no points")
        delimiter = _delimiter(first)
        # Line by line, so that the text is never in memory as a whole.
        values = np.loadtxt(chain([first], rows), delimiter=delimiter, comments=None, ndmin=2)
    if promised is not None and promised != len(values):
        raise ValueError(f"the first line promises {promised} points, there are {len(values)}")
    if names is None:
        found = (_names(comment, delimiter) for comment in comments)
        names = next((each for each in found if _fits(each, values.shape[1])), None)
    if names is None:
        return cloud_from_table(values)
    if len(names) != values.shape[1]:
        raise ValueError(f"{len(names)} names ({', '.join(names)[:200]}) for {values.shape[1]} columns")
    require_distinct([name.lower() for name in names])
    return cloud_from_columns(dict(zip(names, values.T, strict=True)))


def _rows(file: Iterator[str], comments: list[str]) -> Iterator[str]:
    """The lines that are neither blank nor comments; the first comments are kept, one may hold the names."""
    for line in file:
        start = line.lstrip()
        if start.startswith(COMMENTS):
            if len(comments) < MAX_COMMENTS:
                comments.append(start.lstrip("#/"))
        elif start:
            yield line


def _delimiter(line: str) -> str | None:
    return next((mark for mark in ";," if mark in line), None)


def _is_header(line: str) -> bool:
    """Whether a line names its columns; a damaged row does not, and must not be passed over as if it did."""
    return re.search(r"\bx\b", line, re.IGNORECASE) is not None


def _names(line: str, delimiter: str | None) -> list[str]:
    words = line.split(delimiter if delimiter and delimiter in line else None)
    return [word.strip().strip("\"'") or f"column_{i}" for i, word in enumerate(words)]


def _fits(names: list[str], num_columns: int) -> bool:
    """Whether a comment is a line of names, and not prose."""
    return len(names) == num_columns and {"x", "y", "z"} <= {name.lower() for name in names}
