"""Public test tools: an equivariance tester for any model, and loop oracles of every equation."""

from vnt.testing import oracles
from vnt.testing.equivariance import (
    Argument,
    assert_equivariant,
    concat,
    equivariance_error,
    point,
    scalar,
    vector,
)

__all__ = [
    "Argument",
    "assert_equivariant",
    "concat",
    "equivariance_error",
    "oracles",
    "point",
    "scalar",
    "vector",
]
