"""Scalars that modulate vectors: the one way in which numbers that do not turn may act on channels that do (ours)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vnt.checks import require_channels
from vnt.layers.initialization import require_positive


class VNGate(nn.Module):
    r"""Each channel multiplied by a learned function of invariant scalars: equivariant whatever the function.

    $$V^{(n,c)} \leftarrow g(s^{(n)})^{(c)} \, V^{(n,c)}, \qquad g(s) = 1 + A_2 \, \text{GELU}(A_1 s + b_1) + b_2$$

    Time, scale and, under late fusion, the forecaster's attributes enter the models this way.

    Args:
        num_scalars: length of s.
        channels: C.
        hidden: width of g.

    Shape:
        V (..., C, S), scalars (..., num_scalars) with leading axes that broadcast with V's -> (..., C, S)

    Differences from the paper: not in the paper.

    >>> import torch
    >>> VNGate(2, 8)(torch.randn(4, 100, 8, 3), torch.randn(100, 2)).shape
    torch.Size([4, 100, 8, 3])
    """

    def __init__(self, num_scalars: int, channels: int, *, hidden: int = 64):
        super().__init__()
        require_positive(num_scalars=num_scalars, channels=channels, hidden=hidden)
        self.num_scalars, self.channels = num_scalars, channels
        self.hidden = nn.Linear(num_scalars, hidden)
        self.output = nn.Linear(hidden, channels)

    def forward(
        self, V: Float[Tensor, "*tokens C S"], scalars: Float[Tensor, "*#tokens K"]
    ) -> Float[Tensor, "*tokens C S"]:
        require_channels(V, self.channels, "VNGate")
        if scalars.shape[-1] != self.num_scalars:
            raise ValueError(f"VNGate expects {self.num_scalars} scalars, got {tuple(scalars.shape)}")
        gain = 1 + self.output(F.gelu(self.hidden(scalars.to(self.hidden.weight.dtype))))
        return (V * gain[..., None]).to(V.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_scalars}, {self.channels}"
