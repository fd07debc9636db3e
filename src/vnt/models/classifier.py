"""The rotation-invariant classifier (section 8.1, Figs. 1a and 4a)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.geometry import Packing, masked_max, masked_mean, pack_ragged
from vnt.layers import VNInvariant
from vnt.layers.chunks import Chunks, mixes_points
from vnt.models.backbone import Features, LateAttributes, VNLift, VNTrunk, lift_cloud
from vnt.models.config import ClassifierConfig
from vnt.models.heads import AttributePool, make_head, make_point_mlp
from vnt.models.pairs import PairDescriptor
from vnt.models.tokens import InputTokens, input_tokens, num_input_channels
from vnt.precision import at_least_float32


class VNTransformerClassifier(nn.Module):
    """Class logits that do not change when the cloud is turned, moved, or its points are reordered.

    Centre → lift → VN-Transformer encoder → VN-Invariant → flatten → MLP on each point → pool → MLP. Under early fusion
    attributes are coordinates from the start (partial invariance, Proposition 5); under late fusion they join the
    invariant features. With ``num_latents`` the encoder is that of Fig. 5, and with ``read_back`` points read from the
    latents before they are pooled. With ``pair_rounds`` ordinary networks look at each point's neighbours: what they
    find gates the lift, and joins the invariant features as late attributes do.

    Args:
        config: a `ClassifierConfig`; `paper_classifier()` gives the paper's literal arrangement.

    Shape:
        points (..., N, 3), attributes (..., N, d_A), mask (..., N) True where a point exists,
        vectors (..., N, num_vectors, 3) -> (..., num_classes)

    Differences from the paper: it says "Flatten/Pool/MLP"; the MLP on each point's invariants before the pool is ours
    (``point_channels=0`` leaves it out), and so are `AttributePool`, `PairDescriptor` and what `ClassifierConfig` lists
    as not the paper's.

    >>> from vnt import ClassifierConfig
    >>> model = VNTransformerClassifier(ClassifierConfig(num_classes=10))
    >>> model(torch.randn(2, 100, 3)).shape
    torch.Size([2, 10])
    """

    def __init__(self, config: ClassifierConfig):
        super().__init__()
        self.config = config
        self.pairs = None
        if config.pair_rounds > 0:
            self.pairs = PairDescriptor(
                len(config.surroundings),
                config.pair_channels,
                config.pair_rounds,
                config.pair_divisor,
                config.head_norm,
            )
        described = 0 if self.pairs is None else config.pair_channels
        self.lift = VNLift(config, num_input_channels(config), num_scalars=described)
        self.trunk = VNTrunk(config)
        self.invariant = VNInvariant(
            config.channels,
            negative_slope=config.negative_slope,
            relu_eps=config.relu_eps,
            bias_epsilon=config.bias_epsilon,
            spatial_dim=config.spatial_dim,
        )
        known = described + (config.num_attributes if config.fusion == "late" else 0)
        self.late_attributes = LateAttributes(config) if known > 0 else None

        width = config.channels * config.spatial_dim + known
        self.point_mlp = None
        if config.point_channels > 0:
            self.point_mlp = make_point_mlp(width, config.point_channels, config.head_norm)
            width = config.point_channels
        pooled = width * (2 if config.pooling == "mean+max" else 1)
        self.attribute_pool = None
        if config.attribute_pooling:
            self.attribute_pool = AttributePool(
                config.channels,
                config.num_attributes,
                negative_slope=config.negative_slope,
                relu_eps=config.relu_eps,
                bias_epsilon=config.bias_epsilon,
            )
            pooled += config.num_attributes * (width + config.channels * config.spatial_dim)
        self.head = make_head(pooled, config.head_channels, config.num_classes, config.dropout, config.head_norm)

    def forward(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d_A"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Float[Tensor, "*batch classes"]:
        V, scalars, where = self._encode(points, attributes, mask, vectors)
        if isinstance(V, Chunks):
            return self.head(self._merge(V.map(self._pool_chunk, scalars, mask)))
        x = self._describe(V, scalars, where)
        if isinstance(where, Packing):
            x = where.unpack(x)
            if self.attribute_pool is not None and scalars is not None:
                V, scalars = where.unpack(V), where.unpack(scalars)
            where = mask
        parts = self._pool(x, where)
        if self.attribute_pool is not None and scalars is not None:
            parts.append(self.attribute_pool(x, V, self._attributes(scalars), where))
        return self.head(torch.cat(parts, -1))

    def features(
        self,
        points: Float[Tensor, "*batch N 3"],
        attributes: Float[Tensor, "*batch N d_A"] | None = None,
        mask: Bool[Tensor, "*batch N"] | None = None,
        vectors: Float[Tensor, "*batch N K 3"] | None = None,
    ) -> Features:
        """Equivariant and invariant features of each point (of each latent, where latents are what is pooled).

        Rows under the mask are finite but mean nothing.
        """
        V, scalars, where = self._encode(points, attributes, mask, vectors)
        if isinstance(V, Chunks):
            V = V.whole()
        features = Features(V, self._invariants(V, scalars))
        return Features(*map(where.unpack, features)) if isinstance(where, Packing) else features

    def _encode(
        self, points: Tensor, attributes: Tensor | None, mask: Tensor | None, vectors: Tensor | None
    ) -> tuple[Tensor | Chunks, Tensor | None, Tensor | Packing | None]:
        """The encoded tokens, the scalars that join their invariants, and which exist; a ragged batch is packed."""
        tokens = input_tokens(self.config, points, attributes, mask, vectors, scale_vectors=False)
        in_chunks = self.config.pools_latents or self.point_mlp is None or not mixes_points(self.point_mlp)
        described = self.describe_pairs(tokens)
        lifted = lift_cloud(self.lift, self.trunk, tokens, described, in_chunks=in_chunks)
        scalars = self.known_scalars(tokens, described)
        where = mask if self.config.num_latents > 0 else pack_ragged(mask)
        if isinstance(where, Packing) and isinstance(lifted, Tensor):
            lifted = where.pack(lifted)
            scalars = None if scalars is None else where.pack(scalars)
        V, encoded = self.trunk(lifted, where)
        if self.late_attributes is None or scalars is None:
            return V, None, encoded
        if isinstance(V, Tensor):
            scalars = self.late_attributes(V, lifted, scalars, None if isinstance(where, Packing) else mask)
        return V, scalars, encoded

    def describe_pairs(self, tokens: InputTokens) -> Float[Tensor, "*batch N K"] | None:
        """What pairs say of each point; None where nobody looks at them."""
        if self.pairs is None or tokens.around is None:
            return None
        return self.pairs(tokens.positions, tokens.around, tokens.mask, tokens.resolution)

    def known_scalars(
        self, tokens: InputTokens, described: Float[Tensor, "*batch N K"] | None
    ) -> Float[Tensor, "*batch N K_all"] | None:
        """What joins the invariants of each point: attributes, under late fusion, and then what pairs say."""
        if tokens.scalars is None or described is None:
            return described if tokens.scalars is None else tokens.scalars
        return torch.cat([tokens.scalars, described], -1)

    def _attributes(self, scalars: Float[Tensor, "*tokens K_all"]) -> Float[Tensor, "*tokens d_A"]:
        return scalars[..., : self.config.num_attributes]

    def _invariants(self, V: Float[Tensor, "*tokens C S"], scalars: Float[Tensor, "*tokens K_all"] | None) -> Tensor:
        """VN-Invariant of each token, flattened, with the scalars that are known beside it."""
        invariant = self.invariant(V).flatten(-2)
        if scalars is None:
            return invariant
        dtype = next(self.head.parameters()).dtype  # that of autocast would round attributes
        return torch.cat([invariant.to(dtype), scalars.to(dtype)], -1)

    def _describe(self, V: Tensor, scalars: Tensor | None, where: Tensor | Packing | None) -> Tensor:
        """What is pooled of each token."""
        x = self._invariants(V, scalars)
        return x if self.point_mlp is None else self.point_mlp(x, None if isinstance(where, Packing) else where)

    def _pool(self, x: Float[Tensor, "*batch N F"], mask: Bool[Tensor, "*batch N"] | None) -> list[Tensor]:
        """The mean over tokens and the largest values, or the one of them that the config asks for."""
        parts = []
        if self.config.pooling != "max":
            parts.append(masked_mean(x, mask, -2))
        if self.config.pooling != "mean":
            parts.append(masked_max(x, mask, -2))
        return parts

    def _pool_chunk(self, V: Tensor, scalars: Tensor | None, mask: Tensor | None) -> list[Tensor]:
        """How many points one chunk has, and their pool; and what `AttributePool` gathers of them."""
        x = self._describe(V, scalars, mask)
        *batch, N, _ = x.shape
        count = torch.full((*batch, 1), N, device=x.device) if mask is None else mask.sum(-1, keepdim=True)
        parts = [count, *self._pool(x, mask)]
        if self.attribute_pool is not None and scalars is not None:
            parts.extend(self.attribute_pool.gather(x, V, self._attributes(scalars), mask))
        return parts

    def _merge(self, pools: list[list[Tensor]]) -> Tensor:
        """The pool of a cloud out of those of its chunks."""
        counts, *parts = (torch.stack(each) for each in zip(*pools, strict=True))
        parts, gathered = (parts, []) if self.attribute_pool is None else (parts[:-3], parts[-3:])
        merged = []
        if self.config.pooling != "max":
            means = at_least_float32(parts[0])
            share = counts.to(means.dtype) / counts.sum(0).clamp(min=1)
            merged.append((share * means).sum(0).to(parts[0].dtype))
        if self.config.pooling != "mean":
            merged.append(parts[-1].amax(0))
        if self.attribute_pool is not None:
            merged.append(self.attribute_pool.merge(*gathered))
        return torch.cat(merged, -1)
