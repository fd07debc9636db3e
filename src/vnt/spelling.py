"""What somebody may have meant."""

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """The known word that is nearest, or all of them where none is near.

    >>> suggest("modelnet4", ["modelnet40", "shapes"])
    "did you mean 'modelnet40'?"
    >>> suggest("zebra", ["modelnet40", "shapes"])
    'known are modelnet40, shapes'
    """
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
