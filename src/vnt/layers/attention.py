"""VN-MultiHeadAttn as a module."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_mask, require_spatial_dim
from vnt.geometry import Packing
from vnt.layers.chunks import Chunks
from vnt.layers.initialization import require_positive
from vnt.layers.linear import VNLinear


class VNMultiheadAttention(nn.Module):
    r"""H attentions between sets of tokens, by Frobenius inner products (section 4.2, eq. f_MHA, Proposition 2).

    $$\text{VN-MultiHeadAttn}(Q, K, Z) = W^O \bigl[\text{VN-Attn}(W_h^Q Q, W_h^K K, W_h^Z Z)\bigr]_{h=1}^H$$

    $$\text{VN-Attn}(Q, K, Z)^{(m)} = \sum_n \operatorname{softmax}_n\Bigl(
      \tfrac{\langle Q^{(m)}, K^{(n)} \rangle_F}{\sqrt{S P}}\Bigr) Z^{(n)}$$

    with $W_h^Q, W_h^K \in \mathbb{R}^{P \times C}$, $W_h^Z \in \mathbb{R}^{P \times C'}$,
    $W^O \in \mathbb{R}^{C' \times HP}$ and $HP = C'$.

    Args:
        channels: C, of Q and K.
        num_heads: H; divides C'.
        value_channels: C', of Z and of the result; C where not given.
        bias_epsilon: ε of the four projections.
        spatial_dim: S.

    Shape:
        Q (..., M, C, S), K (..., N, C, S), Z (..., N, C', S), mask (..., N) over the keys -> (..., M, C', S). With a
        `Packing` for a mask, Q, K and Z are (tokens, channels, S), and tokens attend within their item.

    Differences from the paper: the scale is 1/√(S·P), which is the paper's 1/√(3P) at S = 3.

    >>> import torch
    >>> attention = VNMultiheadAttention(8, num_heads=2)
    >>> V = torch.randn(2, 100, 8, 3)
    >>> attention(V, V, V).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        *,
        value_channels: int | None = None,
        bias_epsilon: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        value_channels = channels if value_channels is None else value_channels
        require_positive(channels=channels, num_heads=num_heads, value_channels=value_channels)
        if value_channels % num_heads:
            raise ValueError(f"num_heads must divide the {value_channels} channels of the values, got {num_heads}")
        self.channels, self.value_channels = channels, value_channels
        self.num_heads, self.bias_epsilon, self.spatial_dim = num_heads, bias_epsilon, spatial_dim

        def project(in_channels: int) -> VNLinear:
            return VNLinear(in_channels, value_channels, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim)

        self.query = project(channels)  # W^Q, all heads
        self.key = project(channels)  # W^K
        self.value = project(value_channels)  # W^Z
        self.output = project(value_channels)  # W^O

    def forward(
        self,
        Q: Float[Tensor, "*batch M C S"],
        K: Float[Tensor, "*batch N C S"],
        Z: Float[Tensor, "*batch N D S"],
        mask: Bool[Tensor, "*batch N"] | Packing | None = None,
    ) -> Float[Tensor, "*batch M D S"]:
        for x, channels in ((Q, self.channels), (K, self.channels), (Z, self.value_channels)):
            require_channels(x, channels, "VNMultiheadAttention")
            require_spatial_dim(x, self.spatial_dim, "VNMultiheadAttention")
        if not isinstance(mask, Packing):
            require_mask(mask, K.shape[:-2], "VNMultiheadAttention")
        q, k, z = self.query(Q), self.key(K), self.value(Z)
        return self.output(functional.multihead_attention(q, k, z, self.num_heads, mask))

    def over_chunks(
        self, Q: Float[Tensor, "*batch M C S"], V: Chunks, mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch M D S"]:
        """Attention to tokens V that are keys and values both, and are never held at once."""
        q = self.query(Q)
        queries, offset = functional.fold_keys(q, self.key.weight, self.num_heads, self.key.bias())

        def attend(V: Tensor, mask: Tensor | None) -> functional.ChunkAttention:
            return functional.attend_to_chunk(queries, V, V, mask, offset)

        Z = functional.merge_attention(V.map(attend, mask)).to(q.dtype)
        return self.output(functional.pick_heads(self.value(Z), self.num_heads))

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}"
