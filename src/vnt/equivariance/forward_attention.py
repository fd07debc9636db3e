"""Forward mode through attention: several derivatives at one point share the softmax, and N×N matrices stay small.

The fused kernels of `scaled_dot_product_attention` have no forward mode, and its math backend computes everything
afresh for each direction, all heads at once. Within `ForwardAttention` the weights of each call are computed once:

    a = softmax(s), s = c q kᵀ;   d(a z) = (a ∘ ds) z − rowsum(a ∘ ds) · a z + a dz,   ds = c (dq kᵀ + q dkᵀ)
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode


class ForwardAttention(TorchFunctionMode):
    """Attention with a forward derivative, for many passes of one network at one point.

    Between passes call `rewind`: the n-th call of attention in a pass is then the n-th of the one before.
    """

    def __init__(self):
        super().__init__()
        self.kept: list[tuple[Tensor, Tensor]] = []
        self.position = 0

    def rewind(self) -> None:
        """Begin another pass."""
        self.position = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[override]
        """Take the place of `scaled_dot_product_attention` where its arguments are plain."""
        kwargs = kwargs or {}
        if func is not F.scaled_dot_product_attention or not set(kwargs) <= {"attn_mask", "scale"} or len(args) != 3:
            return func(*args, **kwargs)
        return self._attend(*args, mask=kwargs.get("attn_mask"), scale=kwargs.get("scale"))

    def _attend(self, q: Tensor, k: Tensor, z: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        (q, dq), (k, dk), (z, dz) = (forward_ad.unpack_dual(x) for x in (q, k, z))
        if self.position == len(self.kept):
            self.kept.append(_weights(q, k, z, mask, scale))
        weights, out = self.kept[self.position]
        self.position += 1
        if dq is None and dk is None and dz is None:
            return out
        change = torch.empty_like(out)
        for head in range(out.shape[-3]):
            a, o = weights[..., head, :, :], out[..., head, :, :]
            ds = torch.zeros_like(a)
            if dq is not None:
                ds = ds + dq[..., head, :, :] @ k[..., head, :, :].mT
            if dk is not None:
                ds = ds + q[..., head, :, :] @ dk[..., head, :, :].mT
            ds = ds.mul_(a).mul_(scale)
            moved = ds @ z[..., head, :, :] - ds.sum(-1, keepdim=True) * o
            change[..., head, :, :] = moved if dz is None else moved + a @ dz[..., head, :, :]
        return forward_ad.make_dual(out, change)


def _weights(q: Tensor, k: Tensor, z: Tensor, mask: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
    """The softmax and the result."""
    scores = q @ k.mT * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1)
    return weights, weights @ z
