"""VN-MLP: the feed-forward part of an encoder block, and the paper's lift."""

from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.layers.activation import VNReLU
from vnt.layers.linear import VNLinear
from vnt.layers.normalization import make_norm

MLPNorm = Literal["rms", "layer", "batch", "upright_layer", "upright_batch", "none"]


class VNMLP(nn.Module):
    r"""A composition of VN-Linear, VN-BatchNorm and VN-ReLU layers (caption of Fig. 2).

    $$\text{VN-MLP}(V) = W_2 \, \text{VN-ReLU}\bigl(\text{Norm}(W_1 V)\bigr)$$

    Without a norm, W_1 and the W and U of the VN-ReLU behind it are products of matrices, so they are stored as such:
    $W_2 \, \text{VN-ReLU}(V)$ with $W, U \in \mathbb{R}^{\text{hidden} \times C}$.

    Args:
        in_channels: C of what comes in.
        hidden_channels: width inside.
        out_channels: C of what goes out.
        norm: "batch" is the paper's, and "upright_batch" the same with another start (`VNLayerNorm`); "rms", "layer"
            and "upright_layer" take its place; "none" goes without, which is right behind the norm of a pre-norm block.
        negative_slope: of the VN-ReLU.
        share_direction: of the VN-ReLU.
        relu_eps: guard of the VN-ReLU, its ``eps``. Behind a norm the directions k have length one on average, and
            1e-2 softens those below 0.1, which are the ones that amplify rounding.
        bias_epsilon: ε of the VN-Linears.
        spatial_dim: S.

    Shape:
        (..., in_channels, S) -> (..., out_channels, S), with ``mask`` (...) for batch statistics.

    Differences from the paper: it gives neither the number of layers nor their order; this is ours.

    >>> import torch
    >>> VNMLP(8, 16, 8)(torch.randn(100, 8, 3)).shape
    torch.Size([100, 8, 3])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        norm: MLPNorm = "none",
        negative_slope: float = 0.0,
        share_direction: bool = False,
        relu_eps: float = 1e-12,
        bias_epsilon: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        if norm == "none":
            self.expand, self.norm = None, None
        else:
            self.expand = VNLinear(in_channels, hidden_channels, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim)
            self.norm = make_norm(norm, hidden_channels)
        self.activation = VNReLU(
            in_channels if self.expand is None else hidden_channels,
            out_channels=hidden_channels,
            negative_slope=negative_slope,
            share_direction=share_direction,
            eps=relu_eps,
        )
        self.contract = VNLinear(hidden_channels, out_channels, bias_epsilon=bias_epsilon, spatial_dim=spatial_dim)

    def forward(
        self, V: Float[Tensor, "*tokens C S"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C_out S"]:
        if self.expand is not None and self.norm is not None:
            V = self.norm(self.expand(V), mask)
        return self.contract(self.activation(V))
