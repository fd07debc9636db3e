"""An equivariance tester for any function of tensors: how far is f(X·g) from f(X)·g, relative to f(X)?

Say how each argument transforms, and how the result does: see `vnt.geometry.symmetry`.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from vnt.geometry.symmetry import Argument, Group, Kind, describe, draw_action, relative_difference

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 5e-2}
"""What a well-conditioned deep model keeps; a single layer keeps far less."""


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
    described = [describe(kind) for kind in inputs]
    result = describe(output)
    if len(described) != len(arguments):
        raise ValueError(f"got {len(arguments)} arguments but {len(described)} descriptions")
    if num_trials < 1:
        raise ValueError(f"num_trials must be at least 1, got {num_trials}")

    generator = torch.Generator().manual_seed(seed)
    pairs = list(zip(arguments, described, strict=True))
    given = [(x, how) for x, how in pairs if x is not None]
    reference = _call(function, arguments, seed)
    if batched and (reference.ndim == 0 or len(reference) == 0):
        raise ValueError(f"the first axis of the result must count batch items, got {tuple(reference.shape)}")
    worst = 0.0
    for _ in range(num_trials):
        act = draw_action(group, given, axis=axis, batched=batched, generator=generator)
        moved = _call(function, [None if x is None else act(x, how) for x, how in pairs], seed)
        expected = act(reference, result)
        if moved.shape != expected.shape:
            raise ValueError(
                f"the function returned {tuple(moved.shape)} for one input, {tuple(expected.shape)} before"
            )
        worst = max(worst, float(relative_difference(moved, expected, batched=batched).max()))
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


def _call(function: Callable[..., Tensor], arguments: Sequence[Tensor | None], seed: int) -> Tensor:
    """The function's value, without gradients, from the same random state each time."""
    with torch.no_grad(), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        found = function(*arguments)
    if not isinstance(found, Tensor):
        raise ValueError(f"the function must return one tensor, got {type(found).__name__}: pick it in a lambda")
    return found
