"""VN-LayerNorm, VN-BatchNorm and VN-RMSNorm as modules, with one signature: forward(V, mask)."""

import math
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_mask
from vnt.layers.initialization import require_guard, require_positive
from vnt.processes import are_several, sum_over_processes

Norm = Literal["rms", "layer", "batch", "upright_layer", "upright_batch"]
UPRIGHT = 2.37
"""Mean over deviation of the lengths of standard normal 3-vectors: a shift that turns next to none of them round."""


def gain_and_shift(channels: int, shift: float) -> tuple[nn.Parameter, nn.Parameter]:
    """One and ``shift`` for each channel."""
    require_positive(channels=channels)
    if not math.isfinite(shift):
        raise ValueError(f"shift must be finite, got {shift}")
    return nn.Parameter(torch.ones(channels)), nn.Parameter(torch.full((channels,), float(shift)))


class VNLayerNorm(nn.Module):
    r"""Layer norm of the channel lengths (section 4.3, eq. f_LayerNorm, Proposition 8).

    $$\text{VN-LayerNorm}(V^{(n)})^{(c)} = \frac{V^{(n,c)}}{\|V^{(n,c)}\|_2}
      \text{LayerNorm}\bigl(\|V^{(n,1)}\|_2, \dots, \|V^{(n,C)}\|_2\bigr)^{(c)}$$

    Ill-conditioned where ``shift`` begins at 0, as LayerNorm's does: the shortest vectors come out long and turned
    round, rounding error included, and a depth of 12 turns 1e-6 into 1e-1 in float32. Use `VNRMSNorm`, or begin with
    ``shift=2.37``, unless you want the paper to the letter.

    Args:
        channels: C.
        eps: guards the squared length and the variance.
        shift: what the learned shift begins with. Vectors shorter than mean − shift · deviation of the lengths come out
            turned round: all below the mean at 0. The length of three standard normal numbers is 2.37 deviations in the
            mean, so that with 2.37 the norm of such vectors begins as a division by the deviation, and what is short
            stays short. Where the mean is fewer deviations, as in the plane (1.91) or of collinear vectors (1.32), none
            is turned round, and the shortest come out as long as the difference; where it is more, a few are turned.

    Shape:
        (..., C, S) -> (..., C, S)

    Differences from the paper: ``eps``. A learned gain and shift per channel, as LayerNorm has them; the paper says
    neither that they are learned nor where they begin.

    >>> VNLayerNorm(8)(torch.randn(100, 8, 3)).shape
    torch.Size([100, 8, 3])
    """

    def __init__(self, channels: int, *, eps: float = 1e-12, shift: float = 0.0):
        super().__init__()
        require_guard(eps=eps)
        self.channels, self.eps = channels, eps
        self.gain, self.shift = gain_and_shift(channels, shift)

    def forward(
        self, V: Float[Tensor, "*tokens C S"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C S"]:
        """``mask`` changes nothing: each token is normalised by itself."""
        require_channels(V, self.channels, "VNLayerNorm")
        return functional.layer_norm(V, self.gain, self.shift, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.channels}, eps={self.eps}"


class VNRMSNorm(nn.Module):
    r"""All channels of a token divided by the root mean square of their lengths (ours).

    $$\text{VN-RMSNorm}(V^{(n)})^{(c)} = \frac{g^{(c)} \, V^{(n,c)}}
      {\sqrt{\tfrac1C \sum_{c'} \|V^{(n,c')}\|_2^2 + \text{eps}}}$$

    Short vectors stay short beside long ones, so that rounding is not amplified: 12 blocks keep 1e-5 in float32.

    Args:
        channels: C.
        eps: added to the mean squared length, so that no token is stretched by more than 1/√eps. A token far below √eps
            may be nothing but rounding, as a point at the centre of its cloud is, and a stack of norms would make noise
            of length one out of it; at eps = 1 they let it fade. That is what the models use, whose tokens are of
            length one to begin with.

    Shape:
        (..., C, S) -> (..., C, S)

    Differences from the paper: not in the paper.

    >>> V = VNRMSNorm(8)(torch.randn(100, 8, 3))
    >>> torch.allclose(V.square().sum(-1).mean(-1), torch.ones(100), atol=1e-4)
    True
    """

    def __init__(self, channels: int, *, eps: float = 1e-6):
        super().__init__()
        require_positive(channels=channels)
        require_guard(eps=eps)
        self.channels, self.eps = channels, eps
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(
        self, V: Float[Tensor, "*tokens C S"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C S"]:
        """``mask`` changes nothing: each token is normalised by itself."""
        require_channels(V, self.channels, "VNRMSNorm")
        return functional.rms_norm(V, self.gain, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.channels}, eps={self.eps}"


class VNBatchNorm(nn.Module):
    r"""Batch norm of the channel lengths (Deng et al. 2021; part of the paper's VN-MLP).

    $$\text{VN-BatchNorm}(V^{(n)})^{(c)} = \frac{V^{(n,c)}}{\|V^{(n,c)}\|_2}
      \text{BatchNorm}\bigl(\|V^{(n,c)}\|_2\bigr)$$

    Statistics run over all tokens that exist, of all clouds in the batch, also where `torch.distributed` spreads the
    batch over several processes. Ill-conditioned where `VNLayerNorm` is: where ``shift`` begins at 0.

    Args:
        channels: C.
        momentum: weight of the newest batch in the running statistics that evaluation uses.
        eps: guards the squared length and the variance.
        shift: what the learned shift begins with, as in `VNLayerNorm`.

    Shape:
        (..., C, S) -> (..., C, S), with ``mask`` (...) True where a token exists.

    Differences from the paper: ``eps``; padding does not count.

    >>> VNBatchNorm(8)(torch.randn(4, 100, 8, 3)).shape
    torch.Size([4, 100, 8, 3])
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, *, momentum: float = 0.1, eps: float = 1e-12, shift: float = 0.0):
        super().__init__()
        require_guard(eps=eps)
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must lie in [0, 1], got {momentum}")
        self.channels, self.momentum, self.eps = channels, momentum, eps
        self.gain, self.shift = gain_and_shift(channels, shift)
        # What has seen no batch is the identity in evaluation, whatever the shift.
        self.register_buffer("running_mean", self.shift.detach().clone())
        self.register_buffer("running_var", torch.ones(channels))

    def forward(
        self, V: Float[Tensor, "*tokens C S"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C S"]:
        require_channels(V, self.channels, "VNBatchNorm")
        require_mask(mask, V.shape[:-2], "VNBatchNorm")
        if self.training:
            total = sum_over_processes if are_several() else None
            mean, variance, count = functional.batch_statistics(V, mask, eps=self.eps, total=total)
            self._track(mean.detach(), variance.detach(), count)
        else:
            mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(V, mean, variance, self.gain, self.shift, eps=self.eps)

    @torch.no_grad()
    def _track(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running statistics towards this batch's, with the unbiased variance as torch's batch norm does."""
        unbiased = variance * count / (count - 1).clamp(min=1)
        exists = count > 0  # an empty batch says nothing
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            running.lerp_(torch.where(exists, new, 0).to(running.dtype), self.momentum * exists.to(running.dtype))

    def extra_repr(self) -> str:
        return f"{self.channels}, momentum={self.momentum}, eps={self.eps}"


def make_norm(kind: Norm, channels: int, eps: float | None = None) -> VNRMSNorm | VNLayerNorm | VNBatchNorm:
    """The norm layer of that name, with its own default guard where none is given.

    "upright_layer" and "upright_batch" are the paper's norms, whose learned shift begins at `UPRIGHT` instead of 0.
    """
    if kind not in get_args(Norm):
        raise ValueError(f"norm must be one of {get_args(Norm)}, got {kind!r}")
    guard = {} if eps is None else {"eps": eps}
    if kind == "rms":
        return VNRMSNorm(channels, **guard)
    cls = VNLayerNorm if kind in ("layer", "upright_layer") else VNBatchNorm
    return cls(channels, shift=UPRIGHT if kind.startswith("upright") else 0.0, **guard)
