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
    """One point per line, columns apart by white space, commas or semicolons; by tabs alone if tabs are in the names.

    Numbers may be quoted, and lines may end with a delimiter, as spreadsheets write them. A first line of names,
    perhaps behind "#" or "//", says which column is which. Without one, the columns are x, y, z, then normals if there
    are three more of unit length, else attributes column_3, column_4, ... A first line with one whole number, as PTS
    files have, must be the number of points.
    """
    comments: list[str] = []
    names, promised = None, None
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        rows = _rows(file, comments)
        first = next(rows, "")
        if re.fullmatch(r"\s*\d{1,18}\s*", first):
            promised, first = int(first), next(rows, "")
        by_tabs = False
        if _is_header(first):
            by_tabs = _mark_of_names(first) == "\t"
            names, first = _names(first), next(rows, "")
        if not first:
            raise ValueError("no points")
        delimiter = "\t" if by_tabs and "\t" in first else next((mark for mark in ";," if mark in first), None)
        rows = chain([first], rows)
        if delimiter is not None and first.rstrip(" \r\n").endswith(delimiter):
            rows = (row.rstrip(" \r\n").removesuffix(delimiter) for row in rows)
            names = names[:-1] if names and names[-1] == f"column_{len(names) - 1}" else names
        # Line by line, so that the text is never in memory as a whole.
        values = np.loadtxt(rows, delimiter=delimiter, comments=None, quotechar='"', ndmin=2)
    if promised is not None and promised != len(values):
        raise ValueError(f"the first line promises {promised} points, there are {len(values)}")
    if names is None:
        found = map(_names, comments)
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


def _mark_of_names(line: str) -> str | None:
    """What is between the names of a line; None stands for any white space. Between tabs, names may have blanks."""
    mark = max(";,\t", key=line.strip().count)
    return mark if mark in line.strip() else None


def _is_header(line: str) -> bool:
    """Whether a line names its columns; a damaged row does not, and must not be passed over as if it did."""
    return re.search(r"\bx\b", line, re.IGNORECASE) is not None


def _names(line: str) -> list[str]:
    words = line.rstrip("\r\n").split(_mark_of_names(line))
    return [word.strip().strip("\"'") or f"column_{i}" for i, word in enumerate(words)]


def _fits(names: list[str], num_columns: int) -> bool:
    """Whether a comment is a line of names, and not prose."""
    return len(names) == num_columns and {"x", "y", "z"} <= {name.lower() for name in names}
