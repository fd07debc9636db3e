"""An equivariance tester for any function of tensors: how far is f(X·g) from f(X)·g, relative to f(X)?

Say how each argument transforms, and how the result does:

    vector   turns, does not move:       features (..., N, C, S), normals, displacements
    point    turns and moves:            coordinates (..., N, S)
    scalar   neither:                    attributes, masks, logits
    concat   first three turn and move,  coordinates with attributes appended (..., N, 3 + d_A)
             the rest neither
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from vnt.geometry import (
    permute,
    random_orthogonal,
    random_rotation,
    rotate,
    rotation_about,
    rotation_in_plane,
    translate,
)

Kind = Literal["vector", "point", "scalar", "concat"]
Group = Literal["SO(3)", "O(3)", "SO(2)", "translations", "permutations"]

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 5e-2}
"""What a well-conditioned deep model keeps; a single layer keeps far less."""


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


def equivariance_error(
    function: Callable[..., Tensor],
    arguments: Sequence[Tensor | None],
    inputs: Sequence[Argument | Kind],
    output: Argument | Kind,
    *,
    group: Group = "SO(3)",
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    batched: bool = True,
    num_trials: int = 3,
    seed: int = 0,
) -> float:
    """The largest relative error ‖f(X·g) − f(X)·g‖ / ‖f(X)‖ over batch items and random group elements g.

    Group elements are drawn and applied in float64, a different one for each batch item; what is then rounded to the
    arguments' own dtype is part of what is measured. A stochastic function gets the same random numbers both times, on
    the CPU and on CUDA devices. A module in training mode moves its running statistics, as in any forward pass.

    An invariant part that dwarfs the rest flatters the error: for logits, test ``f(X) − mean``; for forecasts, test the
    displacement from the last observed point, which is a vector.

    Args:
        function: takes the arguments, returns one tensor. A module is used in the mode it is in.
        arguments: the tensors X; None is passed on as it is.
        inputs: how each of them transforms: "vector", "point", "scalar", "concat", or an `Argument` with a token axis.
        output: how the result transforms.
        group: "SO(3)", "O(3)", "SO(2)" (turns about ``axis``, or in the plane where S = 2), "translations" (of about
            the size of the points) or "permutations" (of the tokens; one order for the whole batch).
        axis: of SO(2).
        batched: whether the first axis of every tensor counts batch items. False: one item.
        num_trials: how many group elements per item.
        seed: of the group elements.

    >>> square = lambda x: x * x.square().sum(-1, keepdim=True)
    >>> equivariance_error(square, [torch.randn(4, 10, 3)], ["point"], "point") < 1e-6
    True
    >>> equivariance_error(lambda x: x.relu(), [torch.randn(4, 10, 3)], ["point"], "point") > 0.1
    True
    """
    described = [_describe(kind) for kind in inputs]
    result = _describe(output)
    if len(described) != len(arguments):
        raise ValueError(f"got {len(arguments)} arguments but {len(described)} descriptions")
    if group not in get_args(Group):
        raise ValueError(f"group must be one of {get_args(Group)}, got {group!r}")
    if num_trials < 1:
        raise ValueError(f"num_trials must be at least 1, got {num_trials}")

    generator = torch.Generator().manual_seed(seed)
    pairs = list(zip(arguments, described, strict=True))
    given = [(x, how) for x, how in pairs if x is not None]
    reference = _call(function, arguments, seed)
    worst = 0.0
    for _ in range(num_trials):
        act = _draw_action(group, given, axis, batched, generator)
        moved = _call(function, [None if x is None else act(x, how) for x, how in pairs], seed)
        expected = act(reference, result)
        if moved.shape != expected.shape:
            raise ValueError(
                f"the function returned {tuple(moved.shape)} for one input, {tuple(expected.shape)} before"
            )
        worst = max(worst, _relative_error(moved, expected, batched))
    return worst


def assert_equivariant(
    function: Callable[..., Tensor],
    arguments: Sequence[Tensor | None],
    inputs: Sequence[Argument | Kind],
    output: Argument | Kind,
    *,
    tolerance: float | None = None,
    group: Group = "SO(3)",
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    batched: bool = True,
    num_trials: int = 3,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless `equivariance_error` stays within ``tolerance`` (by default what the dtype allows).

    >>> assert_equivariant(lambda x: 2 * x, [torch.randn(4, 10, 3)], ["vector"], "vector")
    """
    error = equivariance_error(
        function,
        arguments,
        inputs,
        output,
        group=group,
        axis=axis,
        batched=batched,
        num_trials=num_trials,
        seed=seed,
    )
    if tolerance is None:
        dtypes = [x.dtype for x in arguments if x is not None and x.is_floating_point()]
        tolerance = max((TOLERANCE[dtype] for dtype in dtypes), default=TOLERANCE[torch.float32])
    if not error <= tolerance:
        name = getattr(function, "__name__", type(function).__name__)
        raise AssertionError(
            f"{name} is off by {error:.2e} relative under {group}, more than the {tolerance:.0e} allowed"
        )


def _describe(kind: Argument | Kind) -> Argument:
    if isinstance(kind, Argument):
        return kind
    makers = {"vector": vector, "point": point, "scalar": scalar, "concat": concat}
    if kind not in makers:
        raise ValueError(f"an argument transforms as one of {tuple(makers)}, got {kind!r}")
    return makers[kind]()


def _call(function: Callable[..., Tensor], arguments: Sequence[Tensor | None], seed: int) -> Tensor:
    """The function's value, without gradients, from the same random state each time."""
    with torch.no_grad(), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        return function(*arguments)


def _draw_action(
    group: Group,
    given: Sequence[tuple[Tensor, Argument]],
    axis: Sequence[float],
    batched: bool,
    generator: Generator,
) -> Callable[[Tensor, Argument], Tensor]:
    """A random group element, as a function that applies it to a tensor of a given kind."""
    moving = ("point", "concat") if group == "translations" else ("vector", "point", "concat")
    spatial = [x for x, how in given if how.kind in moving]
    if not spatial and group != "permutations":
        raise ValueError(f"{group} change nothing here: no argument is one of {moving}")
    size = (len(spatial[0]),) if batched and spatial else ()
    match group:
        case "permutations":
            counts = {x.shape[how.token_axis] for x, how in given if how.token_axis is not None}
            if len(counts) != 1:
                raise ValueError(f"permutations need arguments with one number of tokens, got {sorted(counts)}")
            order = torch.randperm(counts.pop(), generator=generator)
            return lambda x, how: x if how.token_axis is None else permute(x, order, how.token_axis)
        case "translations":
            extent = max(float(x.abs().max()) for x in spatial)
            shift = extent * torch.randn(*size, min(3, spatial[0].shape[-1]), generator=generator, dtype=torch.float64)
            return lambda x, how: translate(x, shift) if how.kind in ("point", "concat") else x
        case "SO(2)":
            angle = 2 * torch.pi * torch.rand(size, generator=generator, dtype=torch.float64)
            R = rotation_in_plane(angle) if spatial[0].shape[-1] == 2 else rotation_about(axis, angle)
        case "O(3)":
            R = random_orthogonal(*size, generator=generator)
        case "SO(3)":
            R = random_rotation(*size, generator=generator)
    return lambda x, how: x if how.kind == "scalar" else rotate(x, R)


def _relative_error(moved: Tensor, expected: Tensor, batched: bool) -> float:
    """The largest over items of ‖moved − expected‖ / ‖expected‖; NaN counts as infinite."""
    moved, expected = (x.double().reshape(len(x) if batched else 1, -1) for x in (moved, expected))
    error = (moved - expected).norm(dim=-1)
    scale = expected.norm(dim=-1)
    relative = torch.where(error > 0, error / scale, error)
    return float(torch.nan_to_num(relative, nan=torch.inf).max())
