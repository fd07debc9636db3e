"""Forecasters that ours is compared with: constant velocity, the best linear equivariant map, a GRU.

The first two are solved, not trained: `fit` takes the whole training split at once.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.checks import require_finite, require_mask
from vnt.geometry import center, rms_radius
from vnt.models.forecaster import last_observed
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig


class Solved(nn.Module, ABC):
    """A model whose weights are the solution of a problem, and need no steps."""

    @abstractmethod
    def fit(self, past: Tensor, future: Tensor, mask: Tensor | None, known: Tensor | None = None) -> None:
        """Set the weights from all tracks of the training split; ``known`` marks the future steps that were seen."""


class ConstantVelocity(Solved):
    """The last observed step, again and again. Equivariant, and without weights.

    Shape:
        past (B, T, 3), mask (B, T) -> (B, num_future, 3)

    >>> past = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [3, 0, 0]]])
    >>> ConstantVelocity(ConstantVelocityConfig(num_future=2))(past)[0, :, 0]
    tensor([5., 7.])
    """

    def __init__(self, config: ConstantVelocityConfig):
        super().__init__()
        self.config = config

    def forward(
        self,
        past: Float[Tensor, "B T 3"],
        attributes: None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        vectors: None = None,
    ) -> Float[Tensor, "B T_out 3"]:
        _check(self, past, attributes, mask, vectors)
        steps = torch.arange(1, self.config.num_future + 1, dtype=past.dtype, device=past.device)
        return last_observed(past, mask)[:, None] + steps[:, None] * last_velocity(past, mask)[:, None]

    def fit(self, past: Tensor, future: Tensor, mask: Tensor | None, known: Tensor | None = None) -> None:
        """There is nothing to fit."""


class LinearForecaster(Solved):
    r"""Each future displacement as a weighted sum of the past ones, with the same weights for all coordinates.

    $$\hat y^{(t)} - x^{(T)} = \sum_{\tau=1}^{T-1} A^{(t,\tau)} \bigl(x^{(\tau+1)} - x^{(\tau)}\bigr)$$

    All linear maps from tracks to tracks that commute with rotations and translations are of this form. `fit` minimises
    the squared error with a ridge.

    Shape:
        past (B, num_past, 3), mask (B, num_past) -> (B, num_future, 3)

    >>> LinearForecaster(LinearForecasterConfig(num_future=5))(torch.randn(2, 11, 3)).shape
    torch.Size([2, 5, 3])
    """

    weight: Tensor

    def __init__(self, config: LinearForecasterConfig):
        super().__init__()
        self.config = config
        self.register_buffer("weight", torch.zeros(config.num_future, config.num_past - 1))  # A

    def forward(
        self,
        past: Float[Tensor, "B T 3"],
        attributes: None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        vectors: None = None,
    ) -> Float[Tensor, "B T_out 3"]:
        _check(self, past, attributes, mask, vectors)
        if past.shape[1] != self.config.num_past:
            raise ValueError(f"the model is for pasts of {self.config.num_past} steps, got {tuple(past.shape)}")
        x = filled(past, mask)
        return x[:, -1:] + self.weight.to(x.dtype) @ x.diff(dim=1)

    def fit(self, past: Tensor, future: Tensor, mask: Tensor | None, known: Tensor | None = None) -> None:
        """The weights with the least squared error on these tracks, in double precision; each step of the future from
        the tracks of which it is known.
        """
        x = filled(past, mask).double()
        inputs = x.diff(dim=1).transpose(1, 2)  # (B, 3, T − 1)
        wanted = (future[..., :3].double() - x[:, -1:]).transpose(1, 2)  # (B, 3, T_out)
        if known is None:
            self.weight.copy_(self._solve(inputs, wanted).T)
            return
        for step, some in enumerate(known.unbind(1)):
            if some.any():
                self.weight[step] = self._solve(inputs[some], wanted[some, :, step : step + 1])[:, 0]

    def _solve(self, inputs: Float[Tensor, "B 3 T"], wanted: Float[Tensor, "B 3 K"]) -> Float[Tensor, "T K"]:
        inputs, wanted = inputs.flatten(0, 1), wanted.flatten(0, 1)
        gram = inputs.T @ inputs
        gram += self.config.ridge * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        return torch.linalg.lstsq(gram, inputs.T @ wanted).solution


class GRUForecaster(nn.Module):
    """Positions and steps -> GRU -> MLP to displacements. It knows nothing of rotations.

    Shape:
        past (B, T, 3), mask (B, T) -> (B, num_future, 3)

    >>> GRUForecaster(GRUForecasterConfig(num_future=30))(torch.randn(2, 11, 3)).shape
    torch.Size([2, 30, 3])
    """

    def __init__(self, config: GRUForecasterConfig):
        super().__init__()
        self.config = config
        inputs = 3 + 3 + 1 + (config.scale == "relative")  # position, step, whether it was observed, log of the radius
        self.gru = nn.GRU(inputs, config.channels, config.depth, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(config.channels, 2 * config.channels),
            nn.ReLU(),
            nn.Linear(2 * config.channels, 3 * config.num_future),
        )

    def forward(
        self,
        past: Float[Tensor, "B T 3"],
        attributes: None = None,
        mask: Bool[Tensor, "B T"] | None = None,
        vectors: None = None,
    ) -> Float[Tensor, "B T_out 3"]:
        _check(self, past, attributes, mask, vectors)
        now = last_observed(past, mask)[:, None]
        x = filled(past, mask) - now
        radius = x.new_ones(len(x)) if self.config.scale == "raw" else rms_radius(center(x)[0])
        x = x / radius[:, None, None]
        observed = x.new_ones(*x.shape[:2], 1) if mask is None else mask[..., None].to(x.dtype)
        parts = [x, nn.functional.pad(x.diff(dim=1), (0, 0, 1, 0)), observed]
        if self.config.scale == "relative":
            parts.append(radius.log()[:, None, None].expand(*x.shape[:2], 1))
        state = self.gru(torch.cat(parts, -1))[0][:, -1]
        displacement = self.head(state).unflatten(-1, (self.config.num_future, 3))
        return now + displacement * radius[:, None, None]


def last_velocity(past: Float[Tensor, "B T 3"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B 3"]:
    """From the last place but one that was observed to the last, divided by the steps between; zero for one place.

    >>> x = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [9, 0, 0], [5, 0, 0], [9, 0, 0]]])
    >>> last_velocity(x, torch.tensor([[True, True, False, True, False]]))
    tensor([[2., 0., 0.]])
    """
    observed = torch.ones(past.shape[:2], dtype=torch.bool, device=past.device) if mask is None else mask
    number = torch.arange(past.shape[1], device=past.device)
    last = torch.where(observed, number, 0).amax(1, keepdim=True)
    earlier = observed & (number != last)
    steps = last - torch.where(earlier, number, 0).amax(1, keepdim=True)
    earlier = torch.where(earlier.any(1, keepdim=True), earlier, observed)
    return (last_observed(past, observed) - last_observed(past, earlier)) / steps.clamp(min=1)


def filled(past: Float[Tensor, "B T 3"], mask: Bool[Tensor, "B T"] | None) -> Float[Tensor, "B T 3"]:
    """The track with each step that was not observed at the place of the last one that was, or of the first.

    >>> x = torch.tensor([[[9.0, 0, 0], [1, 0, 0], [9, 0, 0], [2, 0, 0]]])
    >>> filled(x, torch.tensor([[False, True, False, True]]))[0, :, 0]
    tensor([1., 1., 1., 2.])
    """
    if mask is None:
        return past
    steps = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    latest = torch.where(mask, steps, -1).cummax(1).values
    first = torch.where(mask, steps, mask.shape[1] - 1).amin(1, keepdim=True)
    index = torch.where(latest < 0, first, latest)
    return past.gather(1, index[..., None].expand_as(past))


def _check(
    model: nn.Module, past: Tensor, attributes: Tensor | None, mask: Tensor | None, vectors: Tensor | None
) -> None:
    owner = type(model).__name__
    if attributes is not None or vectors is not None:
        raise ValueError(f"{owner} takes positions alone, and got {'vectors' if attributes is None else 'attributes'}")
    if past.ndim != 3 or past.shape[-1] != 3 or past.shape[1] == 0:
        raise ValueError(f"past must be (B, T, 3) with T of at least 1, got {tuple(past.shape)}")
    require_mask(mask, past.shape[:-1], owner, on_any_device=True)
    require_finite(past, mask, "past")
