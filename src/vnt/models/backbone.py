"""The part that classifier and forecaster share: lift, then encoder (Figs. 1, 4 and 5)."""

from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.geometry import Packing
from vnt.kernels import is_exporting
from vnt.layers import VNMLP, VNCrossProduct, VNEdgeConv, VNEncoder, VNGate, VNLatentEncoder, VNLinear
from vnt.layers.chunks import Chunks, mixes_points
from vnt.layers.encoder import BlockOptions
from vnt.models.config import BackboneConfig
from vnt.models.tokens import InputTokens
from vnt.precision import full_precision


class Features(NamedTuple):
    """What a model knows of each point, or of each latent where latents are what is pooled.

    Attributes:
        equivariant: (..., N, C, S), turns with the cloud.
        invariant: (..., N, F), does not change when the cloud turns.
    """

    equivariant: Float[Tensor, "*batch N C S"]
    invariant: Float[Tensor, "*batch N F"]


class VNLift(nn.Module):
    """C channels from the few vectors that come with a point: VN-Linear, edge-convolution, or the paper's VN-MLP.

    Scalars then gate the channels: the point's distance from the centre, the logarithm of the cloud's radius, time. All
    that an equivariant map can make of a single vector x is x times functions of |x|, so the first of them does what
    the paper's VN-MLP does at this place, without its VN-ReLU on parallel vectors.

    All of it in full precision under autocast: rounding a coordinate here would be a change of the input, different in
    each frame, and the products are too small for half precision to save anything.
    """

    def __init__(self, config: BackboneConfig, in_channels: int, num_scalars: int = 0):
        super().__init__()
        in_channels += functional.VECTORS * len(config.surroundings)
        if config.lift == "mlp":
            self.lift = VNMLP(
                in_channels,
                config.channels,
                config.channels,
                norm=config.mlp_norm,
                negative_slope=config.negative_slope,
                bias_epsilon=config.bias_epsilon,
                spatial_dim=config.spatial_dim,
            )
        elif config.num_neighbors > 0:
            self.lift = VNEdgeConv(
                in_channels,
                config.channels,
                config.num_neighbors,
                negative_slope=config.negative_slope,
                spatial_dim=config.spatial_dim,
            )
        else:
            self.lift = VNLinear(
                in_channels, config.channels, bias_epsilon=config.bias_epsilon, spatial_dim=config.spatial_dim
            )
        self.chunk_size = config.chunk_size
        self.tells_distance = config.lift == "linear"
        self.tells_radius = config.scale == "relative"
        num_scalars += int(self.tells_distance) + int(self.tells_radius)
        self.gate = VNGate(num_scalars, config.channels) if num_scalars > 0 else None

    def forward(
        self, tokens: InputTokens, scalars: Float[Tensor, "*batch N K"] | None = None
    ) -> Float[Tensor, "*batch N C S"]:
        dtype = next(self.parameters()).dtype
        with full_precision(tokens.vectors):
            V = self.vectors(tokens).to(dtype)
            if isinstance(self.lift, VNEdgeConv):
                V = self.lift(V, tokens.mask, tokens.positions, tokens.resolution)
            elif isinstance(self.lift, VNMLP):
                V = self.lift(V, tokens.mask)
            else:
                V = self.lift(V)
            return V if self.gate is None else self.gate(V, self.scalars(tokens, scalars).to(dtype))

    def vectors(self, tokens: InputTokens) -> Float[Tensor, "*batch N C_all S"]:
        """What turns with the cloud: the input's own vectors, and how the cloud lies around each point."""
        if tokens.around is None:
            return tokens.vectors
        around = functional.vectors_around(tokens.positions, tokens.around)
        flat = tokens.vectors.shape[-1] - around.shape[-1]  # attributes under early fusion: nothing along those
        return torch.cat([tokens.vectors, F.pad(around, (0, flat)).to(tokens.vectors.dtype)], -2)

    def scalars(self, tokens: InputTokens, scalars: Tensor | None) -> Float[Tensor, "*batch N K_all"]:
        """What is known of each point beside its direction."""
        known = [] if scalars is None else [scalars]
        if self.tells_distance:
            known.append(tokens.positions.square().sum(-1, keepdim=True).log1p())
        if self.tells_radius:
            known.append(tokens.log_radius[..., None, None].expand(*tokens.positions.shape[:-1], 1))
        return torch.cat(known, -1)


class VNTrunk(nn.Module):
    """The encoder, with or without latents, and the cross products that tell mirror images apart."""

    def __init__(self, config: BackboneConfig):
        super().__init__()
        options: BlockOptions = {
            "hidden_channels": config.hidden_channels,
            "norm": config.norm,
            "norm_eps": config.norm_eps,
            "norm_position": config.norm_position,
            "mlp_norm": config.mlp_norm,
            "negative_slope": config.negative_slope,
            "relu_eps": config.relu_eps,
            "bias_epsilon": config.bias_epsilon,
            "spatial_dim": config.spatial_dim,
        }
        self.pools_latents = config.pools_latents
        size = (config.channels, config.num_heads, config.depth)
        if config.num_latents > 0:
            self.encoder = VNLatentEncoder(
                *size, config.num_latents, read_back=config.read_back, repeats=config.repeats, **options
            )
        else:
            self.encoder = VNEncoder(*size, repeats=config.repeats, **options)
        self.chirality = None
        if config.chirality:
            self.chirality = VNCrossProduct(config.channels, norm_eps=config.norm_eps, spatial_dim=config.spatial_dim)

    def forward(
        self, V: Float[Tensor, "*batch N C S"] | Chunks, mask: Bool[Tensor, "*batch N"] | Packing | None
    ) -> tuple[Float[Tensor, "*batch M C S"] | Chunks, Bool[Tensor, "*batch M"] | Packing | None]:
        """The encoded tokens, and which of them exist: all latents do. Points of a cloud in `Chunks` stay in them."""
        encoded = self.encoder(V, mask)
        if self.chirality is not None:
            encoded = encoded.through(self.chirality) if isinstance(encoded, Chunks) else self.chirality(encoded)
        return encoded, None if self.pools_latents else mask


def lift_cloud(
    lift: VNLift,
    trunk: VNTrunk,
    tokens: InputTokens,
    scalars: Float[Tensor, "*batch N K"] | None = None,
    *,
    in_chunks: bool = True,
) -> Float[Tensor, "*batch N C S"] | Chunks:
    """The lifted cloud, or `Chunks` of it where latents will read it and it has more points than ``chunk_size``.

    Not where tokens depend on one another (edge-convolution; surroundings; VN-BatchNorm in training, by its
    statistics), where what follows needs all of them (``in_chunks=False``), nor in an exported program, whose one graph
    serves clouds of any size: those hold all tokens at once.
    """
    size, axis = lift.chunk_size, tokens.positions.ndim - 2
    if size == 0 or not in_chunks or not isinstance(trunk.encoder, VNLatentEncoder) or is_exporting():
        return lift(tokens, scalars)
    parts = (lift, trunk.encoder.input_norm, trunk.encoder.read_back)
    depends = tokens.around is not None or any(mixes_points(part) for part in parts if part is not None)
    if tokens.positions.shape[axis] <= size or depends:
        return lift(tokens, scalars)
    chunks = tokens.split(size)
    known = [None] * len(chunks) if scalars is None else scalars.split(size, axis)
    return Chunks([partial(lift, *both) for both in zip(chunks, known, strict=True)], size, axis)


class LateAttributes(nn.Module):
    """The attributes that belong to each encoded token (late fusion, Fig. 4), and other scalars of points.

    A token that is a point has its own. A latent reads those of all points, by an attention whose queries and keys turn
    with the cloud and whose values, being scalars, do not.
    """

    def __init__(self, config: BackboneConfig):
        super().__init__()
        self.query, self.key = None, None
        if config.pools_latents:
            self.query = VNLinear(config.channels, config.channels, spatial_dim=config.spatial_dim)
            self.key = VNLinear(config.channels, config.channels, spatial_dim=config.spatial_dim)

    def forward(
        self,
        encoded: Float[Tensor, "*batch M C S"],
        lifted: Float[Tensor, "*batch N C S"] | Chunks,
        attributes: Float[Tensor, "*batch N d_A"],
        mask: Bool[Tensor, "*batch N"] | None,
    ) -> Float[Tensor, "*batch M d_A"]:
        if self.query is None or self.key is None:
            return attributes
        q = self.query(encoded)
        if not isinstance(lifted, Chunks):
            return functional.read_scalars(q, self.key(lifted), attributes, mask)
        queries, _ = functional.fold_keys(q, self.key.weight, 1)

        def read(V: Tensor, scalars: Tensor, mask: Tensor | None) -> functional.ChunkAttention:
            return functional.attend_to_chunk(queries, V, scalars[..., None], mask)

        return functional.merge_attention(lifted.map(read, attributes, mask)).squeeze(-1).to(attributes.dtype)
