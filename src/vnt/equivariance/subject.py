"""What is under audit: a function, its arguments, how both transform, and what of the result is compared."""

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor, nn

from vnt.configuration import Config
from vnt.geometry.symmetry import Action, Argument, Group, Kind, describe, draw_action, point, scalar, vector
from vnt.models.forecaster import last_observed

Precision = Literal["float64", "float32", "bfloat16"]


@dataclass(frozen=True)
class Subject:
    """A function f with its arguments X. The first axis of every tensor counts batch items.

    Attributes:
        function: a module, or any callable.
        arguments: X; None is passed on as it is.
        inputs: how each argument transforms.
        output: how the result does, once it is read.
        read: (result, *arguments) -> the tensor that is compared.
        precision: in which the function runs; "bfloat16" is autocast.
    """

    function: Callable[..., Any]
    arguments: tuple[Tensor | None, ...]
    inputs: tuple[Argument, ...]
    output: Argument
    read: Callable[..., Tensor]
    precision: Precision = "float32"

    @property
    def module(self) -> nn.Module | None:
        """The function, where it is a module."""
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def given(self) -> list[tuple[Tensor, Argument]]:
        """The arguments that are there, each with how it transforms."""
        return [(x, how) for x, how in zip(self.arguments, self.inputs, strict=True) if x is not None]

    @property
    def dim(self) -> int:
        """Of the space that the arguments turn in: 3, or 2 in the plane."""
        return min(3, next(x.shape[-1] for x, how in self.given if how.kind != "scalar"))

    @property
    def num_items(self) -> int:
        """B."""
        return len(self.given[0][0])

    def __call__(self, *arguments: Tensor | None) -> Tensor:
        """f of some arguments, read."""
        device = next(x.device for x in arguments if x is not None)
        arguments = tuple(None if x is None else x.clone() for x in arguments)  # some functions work in place
        half = self.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16) if half else nullcontext():
            result = self.function(*arguments)
        compared = self.read(result, *arguments)
        if not isinstance(compared, Tensor):
            raise ValueError(
                f"an audit compares one tensor, but {self.name} returned {type(compared).__name__}: "
                "give read=, a function of (result, *arguments) that picks it"
            )
        return compared

    def value(self) -> Tensor:
        """f(X), without gradients."""
        with torch.no_grad():
            return self(*self.arguments)

    def moved(self, act: Action) -> Tensor:
        """f(X·g)."""
        return self(*(None if x is None else act(x, how) for x, how in zip(self.arguments, self.inputs, strict=True)))

    def draw(self, group: Group, axis: Sequence[float], generator: Generator) -> Action:
        """A random element of a group for each item."""
        return draw_action(group, self.given, axis=axis, generator=generator)

    def items(self, which: slice | list[int]) -> "Subject":
        """The same with some of its batch items."""
        return replace(self, arguments=tuple(None if x is None else x[which] for x in self.arguments))

    def some_tokens(self, count: int, *, seed: int = 0) -> "Subject":
        """The same with at most so many of its tokens, drawn at random; all of them where it has no token axis."""
        counts = {x.shape[how.token_axis] for x, how in self.given if how.token_axis is not None}
        if len(counts) != 1 or max(counts) <= count:
            return self
        order = torch.randperm(max(counts), generator=Generator().manual_seed(seed))[:count].sort().values
        pairs = zip(self.arguments, self.inputs, strict=True)
        kept = (
            x if x is None or how.token_axis is None else x.index_select(how.token_axis % x.ndim, order.to(x.device))
            for x, how in pairs
        )
        return replace(self, arguments=tuple(kept))

    def in_precision(self, precision: Precision) -> "Subject":
        """The same in another precision: a copy of the module, and arguments rounded to it."""
        dtype = torch.float64 if precision == "float64" else torch.float32
        function = self.function if self.module is None else _copy(self.module).to(dtype)
        arguments = tuple(x.to(dtype) if x is not None and x.is_floating_point() else x for x in self.arguments)
        return replace(self, function=function, arguments=arguments, precision=precision)

    @property
    def name(self) -> str:
        """What to call it in words."""
        return getattr(self.function, "__name__", type(self.function).__name__)


def describe_subject(
    function: Callable[..., Any],
    arguments: Sequence[Tensor | None],
    inputs: Sequence[Argument | Kind] | None = None,
    output: Argument | Kind | None = None,
    read: Callable[..., Tensor] | None = None,
) -> Subject:
    """A subject in float64, from what a user said of it; the models of this library need no description."""
    function = getattr(function, "_orig_mod", function)  # of a compiled module, what was compiled
    if isinstance(inputs, str):
        raise ValueError(f"inputs describes each argument: a list such as [{inputs!r}], got {inputs!r}")
    known = _known(function)
    if inputs is None or output is None:
        if known is None:
            raise ValueError(
                f"say how the arguments and the result of {type(function).__name__} transform: "
                f"inputs=[...] and output=..., each of {get_args(Kind)}"
            )
        inputs = known.inputs[: len(arguments)] if inputs is None else inputs
        output = known.output if output is None else output
        read = known.read if read is None else read
    if len(inputs) != len(arguments):
        raise ValueError(f"got {len(arguments)} arguments but {len(inputs)} descriptions")
    described = tuple(_described(kind, x) for kind, x in zip(inputs, arguments, strict=True))
    _check_arguments(arguments, described)
    # Neither the user's tensors nor their gradients are touched.
    fixed = tuple(None if x is None else x.detach() for x in arguments)
    subject = Subject(function, fixed, described, describe(output), read or _whole)
    try:
        return subject.in_precision("float64")
    except TypeError as error:
        raise ValueError(f"an audit needs float64, which this device has not: audit on the CPU ({error})") from error


def _check_arguments(arguments: Sequence[Tensor | None], inputs: Sequence[Argument]) -> None:
    given = [(x, how) for x, how in zip(arguments, inputs, strict=True) if x is not None]
    if not any(how.kind != "scalar" for _, how in given):
        raise ValueError("an audit needs an argument that turns: a vector, a point or a concat")
    counts = {x.shape[0] if x.ndim > 0 else 0 for x, _ in given}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(
            f"the first axis of every argument must count batch items, got {[tuple(x.shape) for x, _ in given]}"
        )
    for x, how in given:
        if how.kind != "scalar" and not x.is_floating_point():
            raise ValueError(f"a {how.kind} must be floating-point numbers, got {x.dtype}")


def _described(kind: Argument | Kind, x: Tensor | None) -> Argument:
    """An argument's description; by name, its token axis is what its shape says, and never the batch's."""
    how = describe(kind)
    if isinstance(kind, Argument) or x is None or how.token_axis is None:
        return how
    return replace(how, token_axis=max(how.token_axis, 1 - x.ndim) if x.ndim > 2 else None)


def _copy(module: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(module)
    except RuntimeError as error:
        raise ValueError(
            f"{type(module).__name__} cannot be copied: it keeps a tensor from a pass with gradients; clear that, or "
            f"call the model under torch.no_grad() once ({str(error).splitlines()[0]})"
        ) from error


def _whole(result: Any, *arguments: Tensor | None) -> Any:
    return result


def _known(function: Callable[..., Any]) -> Subject | None:
    """How the models of this library transform: points, attributes, mask, vectors -> logits or positions."""
    inputs = (point(-2), scalar(-2), scalar(-1), vector(-3))
    config = getattr(function, "config", None)
    if not isinstance(config, Config):
        return None
    if hasattr(config, "num_classes"):
        return Subject(function, (), inputs, scalar(), centred_logits)
    if hasattr(config, "num_future"):
        # The order of the steps is time, so a permutation of them means nothing here.
        timed = tuple(replace(how, token_axis=None) for how in inputs)
        return Subject(function, (), timed, vector(None), displacements)
    return None


def centred_logits(logits: Tensor, *arguments: Tensor | None) -> Tensor:
    """Logits less their mean: what softmax sees. A common part would only flatter the error."""
    return logits - logits.mean(-1, keepdim=True)


def displacements(
    future: Tensor,
    past: Tensor,
    attributes: Tensor | None = None,
    mask: Tensor | None = None,
    vectors: Tensor | None = None,
) -> Tensor:
    """A forecast relative to the last observed point, which turns but does not move."""
    now = last_observed(past, mask)[..., None, :]
    return torch.cat([future[..., :3] - now, future[..., 3:]], -1)
