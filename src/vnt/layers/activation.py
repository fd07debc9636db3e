"""VN-ReLU as a module."""

import math

from jaxtyping import Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels
from vnt.layers.initialization import fan_in_weight, require_guard, require_positive


class VNReLU(nn.Module):
    r"""The rectifier of vector neurons (appendix C.4, after Deng et al. 2021), with its own W and U.

    $$q = W V^{(n)}, \quad k = U V^{(n)}, \qquad \text{VN-ReLU}(V^{(n)})^{(c)} = \begin{cases}
      q^{(c)} & \langle q^{(c)}, k^{(c)} \rangle \ge 0 \\
      q^{(c)} - \langle q^{(c)}, \hat k^{(c)} \rangle \hat k^{(c)} & \text{otherwise} \end{cases}$$

    Not for tokens of rank one, such as a freshly lifted point w xᵀ: there q and k are parallel, half of the channels
    become zero exactly, and a norm layer behind it then divides rounding noise by itself.

    Args:
        channels: C, the number of channels of V.
        out_channels: rows of W, C where not given.
        negative_slope: α of the leaky variant α q + (1 − α) VN-ReLU(q); 0 is the paper's.
        share_direction: one direction k for all channels, U of 1×C, instead of one for each.
        eps: guards the division: |k|² + eps.

    Shape:
        (..., C, S) -> (..., out_channels, S)

    Differences from the paper: ``eps`` (the paper divides by |k|), and W may be rectangular: a VN-Linear followed by
    W is one matrix anyway.

    >>> import torch
    >>> VNReLU(4, negative_slope=0.2)(torch.randn(2, 100, 4, 3)).shape
    torch.Size([2, 100, 4, 3])
    """

    def __init__(
        self,
        channels: int,
        *,
        out_channels: int | None = None,
        negative_slope: float = 0.0,
        share_direction: bool = False,
        eps: float = 1e-12,
    ):
        super().__init__()
        out_channels = channels if out_channels is None else out_channels
        require_positive(channels=channels, out_channels=out_channels)
        require_guard(eps=eps)
        if not math.isfinite(negative_slope):
            raise ValueError(f"negative_slope must be finite, got {negative_slope}")
        self.channels, self.out_channels = channels, out_channels
        self.negative_slope, self.share_direction, self.eps = negative_slope, share_direction, eps
        self.weight = fan_in_weight(out_channels, channels)  # W
        self.direction = fan_in_weight(1 if share_direction else out_channels, channels)  # U

    def forward(self, V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C_out S"]:
        require_channels(V, self.channels, "VNReLU")
        return functional.relu(V, self.weight, self.direction, negative_slope=self.negative_slope, eps=self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.channels}, {self.out_channels}, negative_slope={self.negative_slope}, "
            f"share_direction={self.share_direction}"
        )
