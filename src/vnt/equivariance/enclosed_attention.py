"""VN-Linear and VN-MultiHeadAttn as maps of enclosures, derived in docs/bounds.md."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.equivariance.bounds import spectral_norm
from vnt.equivariance.enclosure import LONGEST, Enclosure, advance, at_most, channel_size, spectral_bound
from vnt.equivariance.first_order import bias
from vnt.functional import attention_weights, linear
from vnt.geometry import masked_mean
from vnt.layers import VNLinear, VNMultiheadAttention

Mask = Bool[Tensor, "*batch N"] | None


def enclose_linear(layer: VNLinear, x: Enclosure) -> Enclosure:
    """W V + εU(I + M): linear in both, so that only the old rest is stretched."""
    slopes, added = linear(x.slopes, layer.weight), 0.0
    if layer.bias_direction is not None:
        units = torch.eye(9, dtype=slopes.dtype, device=slopes.device).unflatten(-1, (3, 3))
        change = F.pad(bias(layer)[:, :3] @ units, (0, layer.spatial_dim - 3))  # (9, C, S)
        slopes = slopes + change.reshape(9, *[1] * (x.center.ndim - 2), *change.shape[1:])
        added = LONGEST * float(spectral_bound(change.flatten(1)))
    return advance(x, layer(x.center), slopes, spectral_norm(layer.weight), added=added)


def enclose_attention(layer: VNMultiheadAttention, query: Enclosure, key: Enclosure, mask: Mask) -> Enclosure:
    """Σ_n a_n z_n, a = softmax(s): its second derivative along any change is a sum of covariances under a.

    out″ = Cov((ṡ − Eṡ)², z) + Cov(s̈, z) + 2 Cov(ṡ, ż), with ṡ and s̈ the scores' first and second derivatives; and under
    a change of scores of at most d, no weight grows by more than e^(2d).
    """
    H = layer.num_heads
    scale = (layer.spatial_dim * layer.value_channels / H) ** -0.5
    parts = [enclose_linear(part, x) for part, x in ((layer.query, query), (layer.key, key), (layer.value, key))]
    q, k, z = (_heads(part.center, H) for part in parts)  # (..., H, N, S·P)
    slopes = [_heads(part.slopes, H) for part in parts]
    sigma = [
        spectral_norm(part.weight.unflatten(0, (H, -1)))[:, None] for part in (layer.query, layer.key, layer.value)
    ]
    mask_of_slopes = None if mask is None else mask[..., None, :].expand(slopes[1].shape[:-1])
    rests = [s * x.radius[..., None, :] for s, x in zip(sigma, (query, key, key), strict=True)]  # (..., H, N)
    # What all keys have in common, their bias above all, changes no weight.
    apart = [slopes[0], slopes[1] - masked_mean(slopes[1], mask_of_slopes, -2)[..., None, :], slopes[2]]
    dq, dk, dz = (channel_size(D, rest) for D, rest in zip(apart, rests, strict=True))
    if mask is not None:
        kept = mask[..., None, :]
        rests[1:], (dk, dz) = [torch.where(kept, r, 0) for r in rests[1:]], (torch.where(kept, d, 0) for d in (dk, dz))
        k, z = (torch.where(kept[..., None], x, 0) for x in (k, z))
    head_mask = None if mask is None else mask[..., None, :].expand(*q.shape[:-2], -1)
    a = attention_weights(q[..., None], k[..., None], head_mask)  # (..., H, M, N)

    def mean(x: Tensor) -> Tensor:
        return (a @ x[..., None]).squeeze(-1).clamp(min=0)

    out = a @ z
    spread_k, spread_z = _deviation(a, k), _deviation(a, z)
    widest = 2 * (_amax((z - z.mean(-2, keepdim=True)).norm(dim=-1), head_mask) + dz.amax(-1, keepdim=True))
    q_length = q.norm(dim=-1)
    moved_k = mean(dk.square()).sqrt()
    drift = scale * (dq * spread_k + (q_length + 2 * dq) * moved_k)  # √E(ṡ − c)²
    most = scale * (
        dq * _amax((k - k.mean(-2, keepdim=True)).norm(dim=-1), head_mask) + (q_length + dq) * dk.amax(-1, keepdim=True)
    )
    growth = (2 * most).exp()
    bend = 2 * scale * dq * dk.amax(-1, keepdim=True)  # |s̈|
    second = growth * (drift.square() * widest + bend * widest + 2 * drift * mean(dz.square()).sqrt())
    first = mean(rests[2]) + spread_z * scale * (rests[0] * spread_k + q_length * mean(rests[1].square()).sqrt())
    rest = first + second / 2
    hull = _amax((z - z.mean(-2, keepdim=True)).norm(dim=-1), head_mask)
    within_hull = 2 * hull + dz.amax(-1, keepdim=True)  # an average stays among what it averages

    inner = torch.stack([_attention_slope(a, scale, q, k, z, out, *D) for D in zip(*slopes, strict=True)])
    each = at_most(Enclosure(out, inner, rest, axes=1), within_hull)
    center, changes = (_merge(x, layer.spatial_dim) for x in (each.center, each.slopes))
    return enclose_linear(layer.output, Enclosure(center, changes, each.rest.norm(dim=-2)))  # over heads


def _attention_slope(
    a: Tensor, scale: float, q: Tensor, k: Tensor, z: Tensor, out: Tensor, Dq: Tensor, Dk: Tensor, Dz: Tensor
) -> Tensor:
    """The derivative of Σ a z along one slope: a(ṡ − Eṡ)z + a ż."""
    weighted = a * (scale * (Dq @ k.mT + q @ Dk.mT))
    return weighted @ z - weighted.sum(-1, keepdim=True) * out + a @ Dz


def _heads(V: Float[Tensor, "*batch N C S"], heads: int) -> Float[Tensor, "*batch H N PS"]:
    return V.unflatten(-2, (heads, -1)).movedim(-3, -4).flatten(-2)


def _merge(x: Float[Tensor, "*batch H N PS"], spatial_dim: int) -> Float[Tensor, "*batch N C S"]:
    return x.unflatten(-1, (-1, spatial_dim)).movedim(-4, -3).flatten(-3, -2)


def _deviation(a: Float[Tensor, "*b M N"], x: Float[Tensor, "*b N F"]) -> Float[Tensor, "*b M"]:
    """√(Σ_n a_n |x_n − x̄|²) around the weighted mean x̄ = Σ a_n x_n, with room for rounding."""
    x = x - x.mean(-2, keepdim=True)
    second = (a @ x.square().sum(-1, keepdim=True)).squeeze(-1)
    return ((second - (a @ x).square().sum(-1)).clamp(min=0) + 1e-14 * second).sqrt()


def _amax(x: Float[Tensor, "*b N"], mask: Mask) -> Float[Tensor, "*b 1"]:
    return (x if mask is None else torch.where(mask, x, 0)).amax(-1, keepdim=True)
