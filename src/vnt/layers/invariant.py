"""VN-Invariant as a module."""

from jaxtyping import Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_spatial_dim
from vnt.kernels import half_precision
from vnt.layers.mlp import VNMLP


class VNInvariant(nn.Module):
    r"""Rotation-invariant features of each token (appendix C.4, Proposition 11).

    $$\text{VN-Invariant}(V^{(n)}) = V^{(n)} \, \text{VN-MLP}(V^{(n)})^\top$$

    with VN-MLP from C to S channels: the C vectors of the token, in a frame of S vectors that turns with it.

    Args:
        channels: C.
        hidden_channels: width inside the VN-MLP; C where not given.
        negative_slope: of the VN-ReLU.
        relu_eps: guard of the VN-ReLU.
        bias_epsilon: ε of the VN-Linear.
        spatial_dim: S; 3 gives the paper's C×3 out.

    Shape:
        (..., C, S) -> (..., C, S), the last axis now counting frame vectors

    Differences from the paper: ``relu_eps``; it leaves the depth of the VN-MLP open.

    >>> import torch
    >>> VNInvariant(8)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(
        self,
        channels: int,
        *,
        hidden_channels: int | None = None,
        negative_slope: float = 0.0,
        relu_eps: float = 1e-12,
        bias_epsilon: float = 0.0,
        spatial_dim: int = 3,
    ):
        super().__init__()
        self.channels = channels
        self.frame = VNMLP(
            channels,
            channels if hidden_channels is None else hidden_channels,
            spatial_dim,
            negative_slope=negative_slope,
            relu_eps=relu_eps,
            bias_epsilon=bias_epsilon,
            spatial_dim=spatial_dim,
        )

    def forward(self, V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C S"]:
        require_channels(V, self.channels, "VNInvariant")
        relu, last = self.frame.activation, self.frame.contract
        require_spatial_dim(V, last.spatial_dim, "VNInvariant")
        if last.bias_direction is None and half_precision(V) is not None:
            return functional.framed_invariant(
                V, relu.weight, relu.direction, last.weight, negative_slope=relu.negative_slope, relu_eps=relu.eps
            )
        return functional.invariant(V, self.frame(V))
