"""What can be audited: no verdict on what is not finite, not a function of its input, or nothing but rounding."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vnt.equivariance.subject import Precision, Subject
from vnt.equivariance.tracing import tensors, trace
from vnt.geometry.symmetry import Argument, relative_difference

PRECISIONS: tuple[Precision, ...] = ("float64", "float32", "bfloat16")
REPEATABLE: dict[Precision, float] = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 1e-2}
"""Two calls with one input may differ by this much: some devices sum in any order."""


def runnable(exact: Subject, precisions: Sequence[Precision], notes: list[str]) -> dict[Precision, Subject]:
    """The subject in each precision in which it runs and is finite; a plain function may be tied to one."""
    unknown = [precision for precision in precisions if precision not in PRECISIONS]
    if unknown or not precisions:
        raise ValueError(f"precisions must be some of {PRECISIONS}, got {list(precisions)}")
    subjects: dict[Precision, Subject] = {}
    errors = []
    for precision in (p for p in PRECISIONS if p in precisions):
        subject = exact.in_precision(precision)
        try:
            value = subject.value()
        except (RuntimeError, NotImplementedError) as error:
            if not any(word in str(error) for word in ("dtype", "type", "implemented")):
                raise
            errors.append(error)
            hint = "" if exact.module is not None else "; give the module itself, so that its weights can follow"
            notes.append(f"{exact.name} does not run in {precision}: {str(error).splitlines()[0]}{hint}")
            continue
        _check_value(exact, value)
        if subjects and not bool(value.isfinite().all()):
            notes.append(f"{exact.name} gives numbers that are not finite in {precision}{_first_not_finite(subject)}")
            continue
        subjects[precision] = subject
    if not subjects:
        raise ValueError(f"{exact.name} runs in none of {list(precisions)}: {str(errors[0]).splitlines()[0]}")
    return subjects


def _check_value(exact: Subject, value: Tensor) -> None:
    if value.ndim == 0 or len(value) != exact.num_items:
        raise ValueError(
            f"{exact.name} returned {tuple(value.shape)} for {exact.num_items} batch items: the first axis of the "
            "result must count them"
        )
    if not value.is_floating_point():
        raise ValueError(
            f"{exact.name} returned {value.dtype}, and an audit compares real floating-point numbers: give read=, "
            "a function of (result, *arguments) that picks or makes them"
        )


def refuse_unfit(subjects: dict[Precision, Subject]) -> None:
    """Raise ValueError where no verdict would mean anything."""
    main = next(iter(subjects.values()))
    value = main.value()
    if not bool(value.isfinite().all()):
        raise ValueError(f"{main.name} gives numbers that are not finite in {main.precision}{_first_not_finite(main)}")
    again = float(relative_difference(main.value(), value).max())
    if again > REPEATABLE[main.precision]:
        raise ValueError(
            f"{main.name} is stochastic, or remembers: two calls with the same input differ by {again:.0e}, and no "
            f"violation can be told from that{_dropout(main)}"
        )
    size = float(value.double().norm())
    if size == 0:
        raise ValueError(f"{main.name} returned nothing but zeros: there is nothing to compare")
    if main.precision == "float64" and "float32" in subjects:
        single = float(subjects["float32"].value().double().norm())
        if single > 100 * size:
            raise ValueError(
                f"{main.name} returned nothing but rounding: {size:.1e} in float64 and {single:.1e} in float32; there "
                "is nothing to compare"
            )


def _first_not_finite(subject: Subject) -> str:
    if subject.module is None or subject.given[0][0].shape[-1] < 3:
        return ""
    eye = torch.eye(3, dtype=torch.float64).expand(subject.num_items, 3, 3)
    bad = next((step for step in trace(subject, eye, everything=False) if not step.finite), None)
    return "" if bad is None else f", first in {bad.name or 'the forward'} ({bad.kind})"


def _dropout(subject: Subject) -> str:
    named = () if subject.module is None else subject.module.named_modules()
    dropout = nn.modules.dropout._DropoutNd
    active = [name for name, part in named if isinstance(part, dropout) and part.training and part.p > 0]
    return f": dropout is on in {', '.join(active)}; call eval()" if active else ""


def rounds_inside(subject: Subject) -> bool:
    """Whether a float64 run makes shorter numbers on its way: float64 then says no more than those."""
    watch = _Watch()
    with torch.no_grad(), watch:
        subject(*subject.arguments)
    return watch.rounded


class _Watch(TorchDispatchMode):
    """Sees every operation that turns float64 numbers into shorter ones."""

    def __init__(self):
        super().__init__()
        self.rounded = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and look at what it made."""
        result = func(*args, **(kwargs or {}))
        if not self.rounded and any(x.dtype == torch.float64 and x.numel() > 1 for x in tensors(args)):
            self.rounded = any(x.dtype != torch.float64 and x.numel() > 1 for x in tensors(result))
        return result


def with_token_axis(subject: Subject, value: Tensor) -> Subject:
    """The subject with the token axis of a result that was only called "vector": found from its shape."""
    if subject.output != Argument("vector", -3) or value.ndim >= 4:
        return subject
    counts = {x.shape[how.token_axis] for x, how in subject.given if how.token_axis is not None}
    has_tokens = value.ndim == 3 and value.shape[1] in counts
    return replace(subject, output=Argument("vector", -2 if has_tokens else None))
