"""The equivariance violation Δ(f, X, g) = ‖f(X·g) − f(X)·g‖_F of section 7, measured: drawn at random, then climbed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from vnt.equivariance.ascent import climb, generators
from vnt.equivariance.subject import Precision, Subject
from vnt.geometry.symmetry import Action, Group, relative_difference

ROTATIONS: tuple[Group, ...] = ("SO(3)", "O(3)", "SO(2)")
SIGNAL = 1e-11
"""Relative violations below this are rounding in float64: there is nothing to climb."""

FLAT = 1e-3
"""Relative slope over a radian below which a rotation counts as the top: the value is then right to about 1e-6."""


@dataclass(frozen=True, eq=False)
class Violation:
    """Δ(f, X, g) / ‖f(X)‖ over a group, in one precision.

    Attributes:
        group, precision: of what, and in what.
        sampled: (trials, B), relative, at random elements, a different one for each item, and at what else was tried.
        rotations: (trials, B, D, D), those elements, where they are rotations.
        scale: (B), ‖f(X)‖.
        worst: the largest relative violation found.
        worst_item: of which item.
        worst_rotation: (D, D), where.
        method: how the worst was found: "climbed" with gradients, or only "sampled".
        why: why not climbed, where it was not.
    """

    group: Group
    precision: Precision
    sampled: Float[Tensor, "trials B"]
    rotations: Float[Tensor, "trials B D D"] | None
    scale: Float[Tensor, "B"]
    worst: float
    worst_item: int
    worst_rotation: Float[Tensor, "D D"] | None
    method: Literal["climbed", "sampled"]
    why: str = ""

    @property
    def mean(self) -> float:
        """Over all items and all elements that were tried."""
        return float(self.sampled.mean())

    def quantile(self, share: float) -> float:
        """Over all items and all elements that were tried."""
        return float(self.sampled.flatten().quantile(share))


def violation(subject: Subject, act: Action, reference: Tensor | None = None) -> Float[Tensor, "B"]:
    """Δ(f, X, g) / ‖f(X)‖ of each item at one group element, or one for each item."""
    reference = subject.value() if reference is None else reference
    with torch.no_grad():
        moved = subject.moved(act)
    expected = act(reference, subject.output)
    if moved.shape != expected.shape:
        raise ValueError(
            f"{subject.name} returned {tuple(moved.shape)} for a moved input, {tuple(expected.shape)} before"
        )
    return relative_difference(moved, expected).cpu()


def measure(
    subject: Subject,
    group: Group = "SO(3)",
    *,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    num_samples: int = 16,
    starts: Sequence[Float[Tensor, "B D D"]] = (),
    num_starts: int = 1,
    num_steps: int = 10,
    seed: int = 0,
) -> Violation:
    """Sample a group; on a rotation group, climb from the worst samples, and from ``starts``, to the worst of all.

    Args:
        subject: what is measured.
        group: which symmetry.
        axis: of SO(2).
        num_samples: random elements for each item; the same for each seed, whatever the precision.
        starts: rotations (B, D, D) worth trying, e.g. where another precision was worst.
        num_starts: climb from so many of the worst samples of each item; 0 does not climb.
        num_steps: evaluations with gradient for each climb.
        seed: of the samples.
    """
    generator = torch.Generator().manual_seed(seed)
    reference = subject.value()
    actions = [subject.draw(group, axis, generator) for _ in range(num_samples)]
    actions += [Action(rotation=R) for R in starts]
    sampled = torch.stack([violation(subject, act, reference) for act in actions])
    turned = [act.rotation.cpu() for act in actions if act.rotation is not None]
    rotations = torch.stack(turned) if group in ROTATIONS else None
    item = int(sampled.amax(0).argmax())
    trial = int(sampled[:, item].argmax())
    worst = float(sampled[trial, item])
    worst_rotation = None if rotations is None else rotations[trial, item]

    method, why = "sampled", "permutations and translations are drawn, not climbed"
    if rotations is not None:
        why = _reason_not_to_climb(subject, worst, num_starts)
        starting = [] if why else _starts(sampled, rotations, num_starts)
        if group == "O(3)":  # no path leads from rotations to reflections: climb on both sides
            starting = [side for start in starting for side in (start, -start)]
        for start in starting:
            found = _climb(subject, reference, start, group, axis, num_steps)
            if isinstance(found, str):
                why = found
                break
            method = "climbed"
            if float(found[0].max()) >= worst:
                item = int(found[0].argmax())
                worst, worst_rotation = float(found[0][item]), found[1][item]
    return Violation(
        group=group,
        precision=subject.precision,
        sampled=sampled,
        rotations=rotations,
        scale=reference.double().flatten(1).norm(dim=-1).cpu(),
        worst=worst,
        worst_item=item,
        worst_rotation=worst_rotation,
        method=method,
        why="" if method == "climbed" else why,
    )


def _reason_not_to_climb(subject: Subject, worst: float, num_starts: int) -> str:
    if num_starts == 0:
        return "not asked to climb"
    if worst <= SIGNAL or (subject.precision != "float64" and worst <= 1e-5):
        return "rounding: there is nothing to climb"
    return ""


def _starts(sampled: Tensor, rotations: Tensor, num_starts: int) -> list[Tensor]:
    """The worst rotations of each item, the second worst, and so on: (B, D, D) each."""
    order = sampled.argsort(dim=0, descending=True)[:num_starts]
    items = torch.arange(sampled.shape[1])
    return [rotations[row, items] for row in order]


def _climb(
    subject: Subject, reference: Tensor, start: Tensor, group: Group, axis: Sequence[float], num_steps: int
) -> tuple[Tensor, Tensor] | str:
    """The relative violation of each item at the end of its climb and its rotation; or why there is no climbing."""
    scale = reference.double().flatten(1).square().sum(-1).clamp(min=1e-300)

    def log_violation(R: Tensor) -> Tensor:
        act = Action(rotation=R)
        moved = subject.moved(act)
        if not moved.requires_grad:
            raise RuntimeError("no grad")
        difference = (moved - act(reference, subject.output)).double().flatten(1)
        return (difference.square().sum(-1) / scale).clamp(min=1e-300).log()

    around = None if group != "SO(2)" else (axis[0], axis[1], axis[2])
    try:
        peak = climb(log_violation, start, generators(start.shape[-1], around), num_steps=num_steps, tolerance=FLAT)
    except RuntimeError as error:
        if "grad" not in str(error):
            raise
        return f"{subject.name} has no gradient with respect to its input: the worst is only the worst of the samples"
    if not bool(peak.slope.isfinite().all()):
        return f"the gradient of {subject.name} is not finite: the worst is only the worst of the samples"
    return violation(subject, Action(rotation=peak.rotation), reference), peak.rotation
