"""What an artefact must show before it is written: the model's results, and the model's symmetry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from vnt.export.signature import Signature
from vnt.geometry import random_rotation, rotate

SIZES = ((2, 64), (1, 1000), (1, 4096))
TRACKS = ((2, 5), (3, 11), (1, 50))
PARITY = {"float32": 1e-4, "float16": 5e-2}
SYMMETRY = {"float32": 1e-6, "float16": 5e-2}
"""What an artefact may lose beyond twice the model's own error, in float32."""


@dataclass(frozen=True)
class Check:
    """What one size of input showed; errors are relative to the largest number of the result.

    Attributes:
        items, tokens: the size.
        parity: how far the artefact's result is from the model's.
        symmetry: how far the artefact's result moves, against the rotation, when its input is turned.
        model_symmetry: the same of the model, in float32.
    """

    items: int
    tokens: int
    parity: float
    symmetry: float
    model_symmetry: float


def check(model: Callable[..., Tensor], artefact: Callable[..., Tensor], signature: Signature) -> list[Check]:
    """Both on the same inputs, as they are and turned."""
    found = []
    for items, tokens in TRACKS if signature.turns else SIZES:
        inputs = signature.random(items, tokens, seed=tokens)
        R = random_rotation(items)
        pairs = zip(inputs, signature.kinds, strict=True)
        turned = tuple(x if kind == "scalar" else rotate(x, R) for x, kind in pairs)
        expected, actual = _relevant(model(*inputs), inputs, signature), _relevant(artefact(*inputs), inputs, signature)
        moved = [_relevant(run(*turned), turned, signature) for run in (artefact, model)]
        against = [rotate(x, R) if signature.turns else x for x in (actual, expected)]
        found.append(
            Check(
                items,
                tokens,
                _difference(actual, expected),
                _difference(moved[0], against[0]),
                _difference(moved[1], against[1]),
            )
        )
    return found


def require_sound(checks: Sequence[Check], precision: str) -> None:
    """Refuse an artefact that is not the model."""
    for one in checks:
        where = f"{one.items} x {one.tokens}"
        if not one.parity <= PARITY[precision]:
            raise ValueError(f"the artefact differs from the model by {one.parity:.0e} at {where}: not written")
        if not one.symmetry <= 2 * one.model_symmetry + SYMMETRY[precision]:
            errors = f"{one.symmetry:.0e}, the model's {one.model_symmetry:.0e}"
            raise ValueError(f"the artefact's symmetry error at {where} is {errors}: not written")


def _relevant(result: Tensor, inputs: Sequence[Tensor], signature: Signature) -> Tensor:
    """Logits less their mean, which no probability depends on; a forecast less the last step of the past."""
    if signature.turns:
        return result[..., :3] - inputs[0][:, -1:]
    return result - result.mean(-1, keepdim=True)


def _difference(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).abs().max() / expected.abs().max())
