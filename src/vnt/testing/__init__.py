"""Public test tools: an equivariance tester for any model, and loop oracles of every equation."""

from vnt.geometry.symmetry import Argument, concat, point, scalar, vector
from vnt.testing import oracles
from vnt.testing.equivariance import assert_equivariant, equivariance_error

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
