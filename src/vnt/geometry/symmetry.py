"""How tensors transform, and elements of the groups they transform under.

vector   turns, does not move:       features (..., N, C, S), normals, displacements
point    turns and moves:            coordinates (..., N, S)
scalar   neither:                    attributes, masks, logits
concat   first three turn and move,  coordinates with attributes appended (..., N, 3 + d_A)
         the rest neither
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from vnt.geometry.actions import permute, rotate, translate
from vnt.geometry.rotations import random_orthogonal, random_rotation, rotation_about, rotation_in_plane

Kind = Literal["vector", "point", "scalar", "concat"]
Group = Literal["SO(3)", "O(3)", "SO(2)", "translations", "permutations"]


@dataclass(frozen=True)
class Argument:
    """How one tensor transforms.

    Attributes:
        kind: vector, point, scalar or concat.
        token_axis: the axis that a permutation of the tokens reorders; None if it has none.
    """

    kind: Kind
    token_axis: int | None = None


def vector(token_axis: int | None = -3) -> Argument:
    """A tensor that turns but does not move: (..., N, C, S) unless told otherwise."""
    return Argument("vector", token_axis)


def point(token_axis: int | None = -2) -> Argument:
    """A tensor that turns and moves: (..., N, S)."""
    return Argument("point", token_axis)


def scalar(token_axis: int | None = None) -> Argument:
    """A tensor that a rotation or a translation leaves alone; give the axis if it has one entry per token."""
    return Argument("scalar", token_axis)


def concat(token_axis: int | None = -2) -> Argument:
    """Coordinates with attributes appended: (..., N, 3 + d_A)."""
    return Argument("concat", token_axis)


def describe(kind: Argument | Kind) -> Argument:
    """An `Argument` as it is, or that of a kind by name with its usual token axis."""
    if isinstance(kind, Argument):
        return kind
    makers = {"vector": vector, "point": point, "scalar": scalar, "concat": concat}
    if kind not in makers:
        raise ValueError(f"an argument transforms as one of {tuple(makers)}, got {kind!r}")
    return makers[kind]()


@dataclass(frozen=True)
class Action:
    """One group element, or one for each batch item, ready to act on a tensor of a given kind.

    Attributes:
        rotation: (*batch, D, D), of what turns.
        shift: (*batch, D), of what moves.
        order: of the tokens.
    """

    rotation: Float[Tensor, "*batch D D"] | None = None
    shift: Float[Tensor, "*batch D"] | None = None
    order: Int[Tensor, "N"] | None = None

    def __call__(self, x: Tensor, how: Argument) -> Tensor:
        if self.rotation is not None and how.kind != "scalar":
            x = rotate(x, self.rotation)
        if self.shift is not None and how.kind in ("point", "concat"):
            x = translate(x, self.shift)
        if self.order is not None and how.token_axis is not None:
            x = permute(x, self.order, how.token_axis)
        return x


def draw_action(
    group: Group,
    given: Sequence[tuple[Tensor, Argument]],
    *,
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    batched: bool = True,
    generator: Generator | None = None,
) -> Action:
    """A random group element for each batch item of the tensors given; a permutation is one for all items.

    Translations are of about the size of the points.
    """
    if group not in get_args(Group):
        raise ValueError(f"group must be one of {get_args(Group)}, got {group!r}")
    moving = ("point", "concat") if group == "translations" else ("vector", "point", "concat")
    spatial = [x for x, how in given if how.kind in moving]
    if not spatial and group != "permutations":
        raise ValueError(f"{group} change nothing here: no argument is one of {moving}")
    size = (len(spatial[0]),) if batched and spatial else ()
    match group:
        case "permutations":
            counts = {x.shape[how.token_axis] for x, how in given if how.token_axis is not None}
            if batched and any(how.token_axis is not None and how.token_axis in (0, -x.ndim) for x, how in given):
                raise ValueError("the first axis counts batch items: say which one counts tokens, e.g. vector(-2)")
            if len(counts) != 1:
                raise ValueError(f"permutations need arguments with one number of tokens, got {sorted(counts)}")
            return Action(order=torch.randperm(counts.pop(), generator=generator))
        case "translations":
            extent = max(float(x.abs().max()) for x in spatial)
            D = min(3, spatial[0].shape[-1])
            return Action(shift=extent * torch.randn(*size, D, generator=generator, dtype=torch.float64))
        case "SO(2)":
            angle = 2 * torch.pi * torch.rand(size, generator=generator, dtype=torch.float64)
            return Action(rotation_in_plane(angle) if spatial[0].shape[-1] == 2 else rotation_about(axis, angle))
        case "O(3)":
            return Action(random_orthogonal(*size, generator=generator))
        case "SO(3)":
            return Action(random_rotation(*size, generator=generator))


def relative_difference(actual: Tensor, expected: Tensor, *, batched: bool = True) -> Float[Tensor, "items"]:
    """‖actual − expected‖ / ‖expected‖ of each item, in float64; NaN counts as infinite, 0/0 as zero."""
    actual, expected = (x.double().reshape(len(x) if batched else 1, -1) for x in (actual, expected))
    error = (actual - expected).norm(dim=-1)
    relative = torch.where(error > 0, error / expected.norm(dim=-1), error)
    return torch.nan_to_num(relative, nan=torch.inf, posinf=torch.inf)
