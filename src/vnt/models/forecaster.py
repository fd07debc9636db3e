"""The rotation-equivariant trajectory forecaster (section 8.4, Figs. 1b and 4b)."""

import dataclasses

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.functional.normalization import lengths
from vnt.layers import VNMLP, VNGate, VNLinear, VNMeanPool
from vnt.models.backbone import Features, LateAttributes, VNLift, VNTrunk, lift_cloud
from vnt.models.config import ForecasterConfig
from vnt.models.heads import InvariantMixing
from vnt.models.tokens import InputTokens, by_column, input_tokens, num_input_channels

TIME_FREQUENCIES = 8
"""Waves from one period in 128 steps to one in two: enough to tell any two steps of a track apart."""


class VNTransformerForecaster(nn.Module):
    """The next positions of a track; turn or move the past, and the forecast turns or moves with it.

    Each observed step is a token with two vectors, its position and its difference from the step before. The paper is
    silent on how time order enters, and attention is blind to it: here the number of steps before the last observed one
    gates the channels (`VNGate`), so a past may have any length. Encoder, mean pool and a VN-MLP from C to N_out
    channels give N_out vectors, which are displacements from the last observed position.

    Attributes enter early (partial equivariance, Proposition 6), or late: as scalars that gate the encoded channels.

    Args:
        config: a `ForecasterConfig`; `paper_forecaster()` gives the paper's literal arrangement.

    Shape:
        past (..., T, 3), attributes (..., T, d_A), mask (..., T) True where a step was observed,
        vectors (..., T, num_vectors, 3) -> (..., N_out, 3), or (..., N_out, 3 + d_A) with ``predict_attributes``

    Differences from the paper: time, differences, head and displacements are our reading of a figure that the LaTeX
    lacks; ``num_motions`` and ``head_channels`` are ours.

    >>> from vnt import ForecasterConfig
    >>> model = VNTransformerForecaster(ForecasterConfig())
    >>> model(torch.randn(2, 11, 3)).shape
    torch.Size([2, 80, 3])
    """

    def __init__(self, config: ForecasterConfig):
        super().__init__()
        self.config = config
        self.lift = VNLift(config, num_input_channels(config) + 1, num_scalars=2 * TIME_FREQUENCIES)
        self.trunk = VNTrunk(config)
        self.pool = VNMeanPool()
        self.head = VNMLP(
            config.channels,
            2 * config.channels,
            config.num_motions or config.num_future,
            negative_slope=config.negative_slope,
            relu_eps=config.relu_eps,
            bias_epsilon=config.bias_epsilon,
            spatial_dim=config.spatial_dim,
        )
        self.mixing = None
        if config.head_channels > 0:
            self.mixing = InvariantMixing(
                config.channels,
                config.head_channels,
                config.num_motions or config.num_future,
                num_scalars=int(self.lift.tells_radius),
                dropout=config.dropout,
                negative_slope=config.negative_slope,
                bias_epsilon=config.bias_epsilon,
                spatial_dim=config.spatial_dim,
            )
        self.motions = None
        if config.num_motions > 0:
            self.motions = SmoothMotions(config.num_motions, config.num_future, spatial_dim=config.spatial_dim)
        self.late_attributes, self.late_gate = None, None
        if config.fusion == "late":
            self.late_attributes = LateAttributes(config)
            self.late_gate = VNGate(config.num_attributes, config.channels)

    def forward(
        self,
        past: Float[Tensor, "*batch T 3"],
        attributes: Float[Tensor, "*batch T d_A"] | None = None,
        mask: Bool[Tensor, "*batch T"] | None = None,
        vectors: Float[Tensor, "*batch T K 3"] | None = None,
    ) -> Float[Tensor, "*batch T_out S_out"]:
        V, encoded_mask, tokens = self._encode(past, attributes, mask, vectors)
        pooled = self.pool(V, encoded_mask)
        displacement = self.head(pooled)
        if self.mixing is not None:
            size = tokens.log_radius[..., None] if self.lift.tells_radius else None
            displacement = displacement + self.mixing(pooled, size)
        if self.motions is not None:
            displacement = self.motions(displacement)
        spatial = displacement[..., :3] * tokens.radius[..., None, None]
        now = last_observed(past, mask)[..., None, :]
        if not self.config.predict_attributes or attributes is None:
            return now + spatial
        present = last_observed(attributes, mask)[..., None, :]
        change = by_column(displacement[..., 3:], self.config.attribute_scales)
        return torch.cat([now + spatial, present + change], -1)

    def features(
        self,
        past: Float[Tensor, "*batch T 3"],
        attributes: Float[Tensor, "*batch T d_A"] | None = None,
        mask: Bool[Tensor, "*batch T"] | None = None,
        vectors: Float[Tensor, "*batch T K 3"] | None = None,
    ) -> Features:
        """Equivariant features of each step (of each latent, where these are pooled), and the length of each channel.

        Rows under the mask are finite but mean nothing.
        """
        V = self._encode(past, attributes, mask, vectors)[0]
        return Features(V, lengths(V, eps=1e-12).to(V.dtype))

    def tokens(
        self, past: Tensor, attributes: Tensor | None, mask: Tensor | None, vectors: Tensor | None
    ) -> tuple[InputTokens, Float[Tensor, "*batch T F"]]:
        """What the lift is given: positions and differences as vectors, and the time of each step as scalars."""
        tokens = input_tokens(self.config, past, attributes, mask, vectors, scale_vectors=True)
        steps = F.pad(step_differences(tokens.positions, mask), (0, self.config.spatial_dim - 3))[..., None, :]
        tokens = dataclasses.replace(tokens, vectors=torch.cat([tokens.vectors, steps], -2))
        return tokens, time_features(tokens.positions, mask)

    def _encode(
        self, past: Tensor, attributes: Tensor | None, mask: Tensor | None, vectors: Tensor | None
    ) -> tuple[Tensor, Tensor | None, InputTokens]:
        tokens, time = self.tokens(past, attributes, mask, vectors)
        lifted = lift_cloud(self.lift, self.trunk, tokens, time, in_chunks=self.config.pools_latents)
        V, encoded_mask = self.trunk(lifted, mask)
        if self.late_attributes is not None and self.late_gate is not None and tokens.scalars is not None:
            V = self.late_gate(V, self.late_attributes(V, lifted, tokens.scalars, mask))
        return V, encoded_mask, tokens


class SmoothMotions(VNLinear):
    """A VN-Linear whose weights are `smooth_motions` and not learned: from amounts of these to displacements.

    Shape:
        (..., count, S) -> (..., num_future, S)

    Differences from the paper: not in the paper.

    >>> SmoothMotions(6, 80)(torch.randn(2, 6, 3)).shape
    torch.Size([2, 80, 3])
    """

    def __init__(self, count: int, num_future: int, *, spatial_dim: int = 3):
        super().__init__(count, num_future, spatial_dim=spatial_dim)
        del self.weight
        motions = smooth_motions(num_future, count).to(torch.get_default_dtype())
        self.register_buffer("weight", motions, persistent=False)
        self.register_load_state_dict_post_hook(_make_anew)


def _make_anew(module: nn.Module, incompatible_keys: object) -> None:
    """What no file holds, also where the module was made without memory (``torch.device("meta")``)."""
    old = module.get_buffer("weight")
    motions = smooth_motions(*old.shape).to(old.dtype)
    module.register_buffer("weight", motions if old.is_meta else old.copy_(motions), persistent=False)


def smooth_motions(num_future: int, count: int) -> Float[Tensor, "T_out B"]:
    """The smoothest ``count`` ways to leave a place: s P_b(2s − 1) for the share s of the time that has passed.

    Legendre polynomials times s, which is zero now, made orthogonal over the steps and of mean square one.

    >>> smooth_motions(80, 6).square().mean(0)
    tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000])
    """
    s = torch.arange(1, num_future + 1, dtype=torch.float64) / num_future
    polynomials = [s, s * (2 * s - 1)]
    for b in range(1, count - 1):
        polynomials.append(((2 * b + 1) * (2 * s - 1) * polynomials[-1] - b * polynomials[-2]) / (b + 1))
    orthogonal, upper = torch.linalg.qr(torch.stack(polynomials[:count], -1))
    return (orthogonal * upper.diagonal().sign() * num_future**0.5).float()


def last_observed(x: Float[Tensor, "*batch T F"], mask: Bool[Tensor, "*batch T"] | None) -> Float[Tensor, "*batch F"]:
    """The row of the last step that was observed."""
    if mask is None:
        return x[..., -1, :]
    index = _last_index(mask)[..., None, None].expand(*x.shape[:-2], 1, x.shape[-1])
    return x.gather(-2, index).squeeze(-2)


def time_features(
    positions: Float[Tensor, "*batch T 3"], mask: Bool[Tensor, "*batch T"] | None
) -> Float[Tensor, "*batch T F"]:
    """cos and sin of the number of steps before the last observed one, at `TIME_FREQUENCIES` frequencies."""
    T, dtype = positions.shape[-2], torch.promote_types(positions.dtype, torch.float32)  # a phase of 100 has few digits
    step = torch.arange(T, device=positions.device, dtype=dtype).expand(positions.shape[:-1])
    now = T - 1 if mask is None else _last_index(mask)[..., None].to(dtype)
    octaves = torch.arange(TIME_FREQUENCIES, device=positions.device, dtype=dtype)
    phase = (step - now)[..., None] * (torch.pi / 2 ** (octaves * 6 / (TIME_FREQUENCIES - 1)))
    return torch.cat([phase.cos(), phase.sin()], -1).to(positions.dtype)


def _last_index(mask: Bool[Tensor, "*batch T"]) -> Tensor:
    """Index of the last True."""
    return torch.where(mask, torch.arange(mask.shape[-1], device=mask.device), -1).amax(-1).clamp(min=0)


def step_differences(
    x: Float[Tensor, "*batch T 3"], mask: Bool[Tensor, "*batch T"] | None
) -> Float[Tensor, "*batch T 3"]:
    """x^(t) − x^(t−1); zero at the first step and wherever one of the two was not observed."""
    known = torch.arange(x.shape[-2], device=x.device) > 0
    if mask is not None:
        known = known & mask & mask.roll(1, -1)
    return torch.where(known[..., None], x - x.roll(1, -2), 0)
