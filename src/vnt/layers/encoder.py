"""The VN-Transformer encoder (section 4.4, Fig. 2)."""

from typing import Literal, TypedDict, Unpack, get_args

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_mask, require_spatial_dim
from vnt.geometry import Packing
from vnt.geometry.masking import blank
from vnt.kernels import half_precision
from vnt.layers.attention import VNMultiheadAttention
from vnt.layers.chunks import Chunks
from vnt.layers.initialization import require_positive
from vnt.layers.mlp import VNMLP, MLPNorm
from vnt.layers.normalization import Norm, VNRMSNorm, make_norm

NormPosition = Literal["pre", "post", "branch"]


class BlockOptions(TypedDict, total=False):
    """The keywords of `VNEncoderBlock`, for whatever is built out of blocks."""

    hidden_channels: int | None
    norm: Norm
    norm_eps: float | None
    norm_position: NormPosition
    mlp_norm: MLPNorm
    negative_slope: float
    relu_eps: float
    bias_epsilon: float
    spatial_dim: int


def pre_norm(channels: int, options: BlockOptions) -> nn.Module | None:
    """The norm that pre-norm blocks leave to what stands before or behind them; others leave none."""
    if options.get("norm_position", "pre") != "pre":
        return None
    return make_norm(options.get("norm", "rms"), channels, options.get("norm_eps"))


class VNEncoderBlock(nn.Module):
    r"""Attention and VN-MLP, each with a residual connection and a norm.

    Three places for the norm: "post", "branch" and "pre".

    $$V \leftarrow \text{Norm}(V + \text{Attn}(V)), \quad V \leftarrow \text{Norm}(V + \text{MLP}(V))$$

    $$V \leftarrow V + \text{Norm}(\text{Attn}(V)), \quad V \leftarrow V + \text{Norm}(\text{MLP}(V))$$

    $$V \leftarrow V + \text{Attn}(\text{Norm}(V)), \quad V \leftarrow V + \text{MLP}(\text{Norm}(V))$$

    Args:
        channels: C.
        num_heads: H.
        hidden_channels: width inside the VN-MLP; 2C where not given.
        norm: "rms" (well-conditioned), "layer" (the paper's) or "batch"; "upright_layer" and "upright_batch" are those
            two with a shift that begins by turning next to no vector round (`VNLayerNorm`).
        norm_eps: guard of the norm; its own default where not given.
        norm_position: "pre", "post" (the paper's, as we read Fig. 2) or "branch" (as the public ports read it).
        mlp_norm: the norm inside the VN-MLP: one of those, of which "batch" is the paper's, or "none".
        negative_slope: of the VN-ReLU; the paper has 0.
        relu_eps: guard of the VN-ReLU; the paper has 0.
        bias_epsilon: ε of every VN-Linear.
        spatial_dim: S.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., N, C, S). Where ``context`` (..., N', C, S) is given, or `Chunks`
        of it, keys and values come from it and the mask is (..., N'): the cross-attention of Fig. 5. ``own_mask``
        (..., N) then says which tokens of V exist, for batch statistics.

    Differences from the paper: the defaults. Its own are norm="layer", norm_position="post", mlp_norm="batch" and
    relu_eps=0.

    >>> import torch
    >>> VNEncoderBlock(8, num_heads=2)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        hidden_channels: int | None = None,
        norm: Norm = "rms",
        norm_eps: float | None = None,
        norm_position: NormPosition = "pre",
        mlp_norm: MLPNorm = "none",
        negative_slope: float = 0.0,
        relu_eps: float = 1e-2,
        bias_epsilon: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        if norm_position not in get_args(NormPosition):
            raise ValueError(f"norm_position must be one of {get_args(NormPosition)}, got {norm_position!r}")
        self.norm_position = norm_position
        self.attention = VNMultiheadAttention(channels, num_heads, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim)
        self.mlp = VNMLP(
            channels,
            2 * channels if hidden_channels is None else hidden_channels,
            channels,
            norm=mlp_norm,
            negative_slope=negative_slope,
            relu_eps=relu_eps,
            bias_epsilon=bias_epsilon,
            spatial_dim=spatial_dim,
        )
        self.attention_norm = make_norm(norm, channels, norm_eps)
        self.mlp_norm = make_norm(norm, channels, norm_eps)

    def forward(
        self,
        V: Float[Tensor, "*batch M C S"],
        mask: Bool[Tensor, "*batch N"] | Packing | None = None,
        context: Float[Tensor, "*batch N C S"] | Chunks | None = None,
        own_mask: Bool[Tensor, "*batch M"] | None = None,
    ) -> Float[Tensor, "*batch M C S"]:
        require_channels(V, self.attention.channels, "VNEncoderBlock")
        require_spatial_dim(V, self.attention.spatial_dim, "VNEncoderBlock")
        if not isinstance(mask, Tensor) and context is None and self._is_plain() and half_precision(V) is not None:
            return self._by_kernels(V, mask)
        if context is None and isinstance(mask, Tensor):
            own_mask = mask
        if self.norm_position == "post":
            V = self.attention_norm(V + self._attend(V, context, mask), own_mask)
            return self.mlp_norm(V + self.mlp(V, own_mask), own_mask)
        if self.norm_position == "branch":
            V = V + self.attention_norm(self._attend(V, context, mask), own_mask)
            return V + self.mlp_norm(self.mlp(V, own_mask), own_mask)
        V = V + self._attend(self.attention_norm(V, own_mask), context, mask)
        return V + self.mlp(self.mlp_norm(V, own_mask), own_mask)

    def _is_plain(self) -> bool:
        """Whether the block is the one that `vnt.functional.fused` knows as two operators."""
        return (
            self.norm_position == "pre"
            and isinstance(self.attention_norm, VNRMSNorm)
            and isinstance(self.mlp_norm, VNRMSNorm)
            and self.mlp.expand is None
            and self.attention.bias_epsilon == 0
        )

    def _by_kernels(self, V: Float[Tensor, "*batch N C S"], packing: Packing | None) -> Float[Tensor, "*batch N C S"]:
        attention, relu = self.attention, self.mlp.activation
        V = functional.residual_attention(
            V,
            self.attention_norm.gain,
            attention.query.weight,
            attention.key.weight,
            attention.value.weight,
            attention.output.weight,
            attention.num_heads,
            packing,
            norm_eps=self.attention_norm.eps,
        )
        return functional.residual_mlp(
            V,
            self.mlp_norm.gain,
            relu.weight,
            relu.direction,
            self.mlp.contract.weight,
            negative_slope=relu.negative_slope,
            relu_eps=relu.eps,
            norm_eps=self.mlp_norm.eps,
        )

    def _attend(self, V: Tensor, context: Tensor | Chunks | None, mask: Tensor | Packing | None) -> Tensor:
        if isinstance(context, Chunks) and not isinstance(mask, Packing):
            return self.attention.over_chunks(V, context, mask)
        keys = V if context is None else context
        return self.attention(V, keys, keys, mask)


class VNEncoder(nn.Module):
    """A stack of `VNEncoderBlock`; behind pre-norm blocks, one norm more, so that what leaves has a known scale.

    Args:
        channels: C.
        num_heads: H.
        depth: number of blocks.
        repeats: how often tokens go through all of the blocks, one after another: more depth, no more parameters.
        options: keywords of `VNEncoderBlock`.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., N, C, S), or (tokens, C, S) with a `Packing`

    Differences from the paper: the defaults, as in `VNEncoderBlock`; the paper does not state its depth. ``repeats`` is
    ours.

    >>> import torch
    >>> VNEncoder(8, num_heads=2, depth=3)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(self, channels: int, num_heads: int, depth: int, *, repeats: int = 1, **options: Unpack[BlockOptions]):
        super().__init__()
        require_positive(depth=depth, repeats=repeats)
        self.repeats = repeats
        self.blocks = nn.ModuleList(VNEncoderBlock(channels, num_heads, **options) for _ in range(depth))
        self.final_norm = pre_norm(channels, options)

    def forward(
        self, V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | Packing | None = None
    ) -> Float[Tensor, "*batch N C S"]:
        if isinstance(mask, Tensor):
            require_mask(mask, V.shape[:-2], "VNEncoder")
            V = blank(V, mask)
        V = functional.channels_innermost(V)
        for block in self.passes():
            V = block(V, mask)
        return V if self.final_norm is None else self.final_norm(V, mask if isinstance(mask, Tensor) else None)

    def passes(self) -> list[VNEncoderBlock]:
        """The blocks in the order in which tokens go through them."""
        return [*self.blocks] * self.repeats  # type: ignore[bad-return]
