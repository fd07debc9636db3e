"""VN-Linear and VN-LinearWithBias as a module."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_spatial_dim
from vnt.layers.initialization import fan_in_weight, require_guard, require_positive


class VNLinear(nn.Module):
    r"""W V, or W V + ε U where ``bias_epsilon`` is positive (sections 3.2 and 7, eq. linear_with_bias).

    $$\text{VN-LinearWithBias}(V^{(n)}; W, U, \epsilon) = W V^{(n)} + \epsilon U, \qquad
      U^{(c)} = B^{(c)} / \|B^{(c)}\|_2$$

    with $V^{(n)} \in \mathbb{R}^{C \times S}$, $W \in \mathbb{R}^{C' \times C}$ and $B \in \mathbb{R}^{C' \times S}$.
    Equivariant at ε = 0 (Proposition 9); otherwise off by at most $2\epsilon\sqrt{C'}$ per token (Proposition 3).

    Args:
        in_channels: C.
        out_channels: C'.
        bias_epsilon: ε, the length of each channel's bias vector. 0 means no bias and no B.
        spatial_dim: S, the length of the last axis: 3, or 3 + d_A under early fusion, or 2 in the plane.

    Shape:
        (..., C, S) -> (..., C', S)

    Differences from the paper: none.

    >>> VNLinear(4, 8)(torch.randn(2, 100, 4, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias_epsilon: float = 0.0, spatial_dim: int = 3):
        super().__init__()
        require_positive(in_channels=in_channels, out_channels=out_channels, spatial_dim=spatial_dim)
        require_guard(bias_epsilon=bias_epsilon)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.bias_epsilon, self.spatial_dim = bias_epsilon, spatial_dim
        self.weight = fan_in_weight(out_channels, in_channels)
        self.bias_direction = nn.Parameter(torch.randn(out_channels, spatial_dim)) if bias_epsilon > 0 else None

    def forward(self, V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C_out S"]:
        require_channels(V, self.in_channels, "VNLinear")
        require_spatial_dim(V, self.spatial_dim, "VNLinear")
        if self.bias_direction is None:
            return functional.linear(V, self.weight)
        U = functional.unit_rows(self.bias_direction)
        return functional.linear_with_bias(V, self.weight, U, self.bias_epsilon)

    def bias(self) -> Float[Tensor, "C_out S"] | None:
        """ε U, where there is one."""
        return None if self.bias_direction is None else self.bias_epsilon * functional.unit_rows(self.bias_direction)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, bias_epsilon={self.bias_epsilon}, S={self.spatial_dim}"
