"""Where equivariance is lost: one forward pass of [X, XR] with an ear at every module.

Each module's outputs for X and for XR are compared as they pass, in the way that fits them best: as numbers that stay,
or as vectors along one of the axes that turn with R. Nothing needs to be known of the model.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import Any
from weakref import ref

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from vnt.equivariance.first_order import bias_layers, shifted_biases
from vnt.equivariance.subject import Subject
from vnt.geometry import rotate
from vnt.geometry.packing import padded
from vnt.geometry.symmetry import Action, relative_difference

SHORT = 1e-5
"""Channels shorter than this, relative to the longest of their token, are called short."""
SURE = 1e-6
"""A way of turning that fits this well is the right one."""
FLOOR = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8}
"""Half a unit in the last place: what goes into a layer is never better than that."""


@dataclass(frozen=True)
class Step:
    """What one call of one module did.

    Attributes:
        name, kind: the module's name in the model ("" is the model itself), and its class.
        violation_in, violation_out: relative, the worst item's; of the worst of its tensors.
        short: of the channels that went in, how many are shorter than `SHORT` of their token's longest.
        channels: how many channels there were.
        parents: names of the modules whose forward was running.
        finite: whether its output was.
    """

    name: str
    kind: str
    violation_in: float
    violation_out: float
    short: int
    channels: int
    parents: tuple[str, ...]
    finite: bool

    def amplification(self, precision: str) -> float:
        """How much worse it became; input that is exact counts as half a unit in the last place."""
        return self.violation_out / max(self.violation_in, FLOOR[precision])


@padded()
def trace(
    subject: Subject, R: Float[Tensor, "B 3 3"], *, cancel_biases: bool = False, everything: bool = True
) -> list[Step]:
    """The steps of a module's forward pass on X and XR side by side, in the order in which they ended.

    Args:
        subject: with a module as its function.
        R: a rotation for each item; where items differ, a leak between them shows.
        cancel_biases: turn each ε bias with X's half of the batch, so that only what biases do not explain is left.
        everything: False only asks for finiteness.
    """
    module = subject.module
    if module is None:
        return []
    B = subject.num_items
    act = Action(rotation=R)
    pairs = zip(subject.arguments, subject.inputs, strict=True)
    both = tuple(None if x is None else torch.cat([x, act(x, how)]) for x, how in pairs)
    names = {part: name for name, part in module.named_modules()}
    running: list[tuple[nn.Module, float, tuple[int, int]]] = []
    steps: list[Step] = []

    seen: dict[tuple[int, int], tuple[ref[Tensor], float]] = {}  # what leaves one module enters the next

    def compared(values: Iterable[Tensor]) -> float:
        return max((once(x) for x in values), default=0.0) if everything else 0.0

    def once(x: Tensor) -> float:
        key = (id(x), x._version)  # a module that works in place makes another tensor of it
        known, found = seen.get(key, (None, 0.0))
        if known is None or known() is not x:
            found = discrepancy(x, R, B)
            seen[key] = (ref(x), found)
        return found

    def before(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = tensors((args, kwargs))
        running.append((part, compared(given), _short_channels(given) if everything else (0, 0)))

    def after(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        _, violation_in, (short, channels) = running.pop()
        produced = tensors(output)
        steps.append(
            Step(
                name=names[part],
                kind=type(part).__name__,
                violation_in=violation_in,
                violation_out=compared(produced),
                short=short,
                channels=channels,
                parents=tuple(names[other] for other, _, _ in running),
                finite=all(bool(x.isfinite().all()) for x in produced),
            )
        )

    with ExitStack() as stack, torch.no_grad():
        layers = bias_layers(module, R.shape[-1]) if cancel_biases else {}
        if layers:
            identity = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)
            shift = torch.cat([R.mT - identity, torch.zeros_like(R)]).to(both[0])
            stack.enter_context(shifted_biases(layers, dict.fromkeys(layers, shift)))
        for part in names:
            stack.callback(part.register_forward_pre_hook(before, with_kwargs=True).remove)
            stack.callback(part.register_forward_hook(after, with_kwargs=True).remove)
        result = subject(*both)
    if everything:
        last = discrepancy(result, R, B, known=subject.output.kind == "scalar")
        steps[-1] = replace(steps[-1], violation_out=last)
    return steps


def tensors(values: Any) -> list[Tensor]:
    """All floating-point tensors in whatever a module takes or returns."""
    return [x for x in tree_leaves(values) if isinstance(x, Tensor) and x.is_floating_point() and x.numel() > 0]


def discrepancy(x: Tensor, R: Float[Tensor, "B 3 3"], num_items: int, known: bool | None = None) -> float:
    """How far the second half of a tensor is from the first half transformed, relative, in the way that fits best.

    ``known`` says whether it is a scalar, where that is not to be guessed. Tensors without the batch in their first
    axis, such as parameters, do not count.
    """
    if x.ndim == 0 or len(x) % (2 * num_items):
        return 0.0
    still, moved = x.detach().double().unflatten(0, (2, num_items, -1))
    least = inf
    for expected in _candidates(still, R, known):
        least = min(least, float(relative_difference(moved, expected).max()))
        if least <= SURE:
            break
    return least if least < inf else 0.0


def _candidates(still: Float[Tensor, "B *rest"], R: Float[Tensor, "B D D"], known: bool | None) -> Iterator[Tensor]:
    """What a tensor would be if it did not turn, or turned along an axis, or in blocks along its last one."""
    dim, last = R.shape[-1], still.ndim - 1
    if known is not False:
        yield still
    if known is True:
        return
    for axis in range(2, still.ndim):
        if still.shape[axis] == dim:
            yield rotate(still.movedim(axis, -1), R).movedim(-1, axis)
    if last < 2 or still.shape[last] <= dim:
        return
    yield rotate(still, R)  # coordinates first, attributes behind them
    if still.shape[last] % dim == 0:
        yield rotate(still.unflatten(-1, (-1, dim)), R).flatten(-2)
        yield rotate(still.unflatten(-1, (dim, -1)).mT, R).mT.flatten(-2)


def _short_channels(given: list[Tensor]) -> tuple[int, int]:
    """How many vectors of the first tensor of tokens (..., C, S) are short beside the longest of their token."""
    for x in given:
        if x.ndim >= 3 and x.shape[-1] <= 16:
            length = x.detach().double().norm(dim=-1)
            longest = length.amax(-1, keepdim=True)
            return int(((length < SHORT * longest) & (longest > 0)).sum()), length.numel()
    return 0, 0


def culprit(steps: list[Step], final: float) -> str:
    """In words, where a violation of about ``final`` first appears; steps are those of float64.

    The first module whose output is off though its input is not. Where the input is off as well, it was made in the
    forward of the module around it, or of the one around that.
    """
    threshold = (max(final, 1e-300) * FLOOR["float64"]) ** 0.5  # between rounding and the fault, on a log scale
    first = next((step for step in steps if step.violation_out > threshold), None)
    if first is None:
        return ""
    later = {step.name: step for step in reversed(steps)}
    step = first
    for parent in reversed(first.parents):
        if step.violation_in <= threshold:
            break
        around = later[parent]
        if around.violation_in <= threshold or not around.parents:
            return f"the forward of {_called(around)}, before {_called(step)}"
        step = around
    return _called(step)


def _called(step: Step) -> str:
    return f"{step.name} ({step.kind})" if step.name else f"{step.kind} itself"


def innermost(steps: list[Step]) -> list[Step]:
    """The modules without parts of their own, in order."""
    outer = {parent for step in steps for parent in step.parents}
    return [step for step in steps if step.name not in outer]


def advice(steps: list[Step], precision: str, limit: float = 100.0) -> list[str]:
    """Words on each module without parts of its own that makes a violation more than ``limit`` times larger.

    Where none does but all together do, words on the three that do most.
    """
    inner = innermost(steps)
    steep = [step for step in inner if step.amplification(precision) > limit]
    words = [_advice(step, step.amplification(precision)) for step in steep]
    if not words and steps:
        total = steps[-1].violation_out / max(inner[0].violation_in, FLOOR[precision])
        if total > 10 * limit:
            most = sorted(inner, key=lambda step: -step.amplification(precision))[:3]
            names = ", ".join(f"{step.name} ({step.kind}, {step.amplification(precision):.1f})" for step in most)
            words.append(f"no single layer does it, but together they make it {total:,.0f} times larger; most: {names}")
    return words


def _advice(step: Step, factor: float) -> str:
    text = f"{step.name} ({step.kind}) makes the violation {factor:,.0f} times larger"
    if step.short == 0:
        return text
    text += f": {step.short:,} of the {step.channels:,} channels that enter it are shorter than {SHORT:.0e} of their "
    text += "token's longest"
    if "Norm" in step.kind:
        text += ", and the norm makes them as long as the others, with all that is wrong with them. VNRMSNorm does not"
    return text
