"""A layer that can tell mirror images apart."""

from jaxtyping import Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels
from vnt.layers.linear import VNLinear
from vnt.layers.normalization import VNRMSNorm


class VNCrossProduct(nn.Module):
    r"""A residual of cross products between channels (ours): SO(3)-equivariant, but not O(3)-equivariant.

    $$V \leftarrow V + W_3 \bigl[(W_1 \hat V)^{(c)} \times (W_2 \hat V)^{(c)}\bigr]_{c=1}^C, \qquad
      \hat V = \text{VN-RMSNorm}(V)$$

    Belongs behind attention: the channels of a freshly lifted point are parallel, and their cross products vanish.

    Args:
        channels: C.
        norm_eps: guard of the VN-RMSNorm.
        spatial_dim: S, at least 3; the cross product lives in the first three coordinates.

    Shape:
        (..., C, S) -> (..., C, S)

    Differences from the paper: not in the paper.

    >>> import torch
    >>> VNCrossProduct(8)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(self, channels: int, *, norm_eps: float = 1e-6, spatial_dim: int = 3):
        super().__init__()
        if spatial_dim < 3:
            raise ValueError(f"a cross product needs spatial_dim of at least 3, got {spatial_dim}")
        self.channels = channels
        self.norm = VNRMSNorm(channels, eps=norm_eps)
        self.left = VNLinear(channels, channels, spatial_dim=spatial_dim)
        self.right = VNLinear(channels, channels, spatial_dim=spatial_dim)
        self.output = VNLinear(channels, channels, spatial_dim=spatial_dim)

    def forward(self, V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C S"]:
        require_channels(V, self.channels, "VNCrossProduct")
        unit = self.norm(V)
        return V + self.output(functional.cross_product(self.left(unit), self.right(unit)))
