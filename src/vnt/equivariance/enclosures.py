"""Each layer as a map of enclosures: one function for each, one inequality in each, derived in docs/bounds.md."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from vnt.equivariance.bounds import (
    GELU_CONSTANT,
    GELU_CURVATURE,
    normalizing_constant,
    projector_slope,
    spectral_norm,
)
from vnt.equivariance.enclosed_attention import Mask, enclose_attention, enclose_linear
from vnt.equivariance.enclosure import (
    LONGEST,
    Enclosure,
    add,
    advance,
    at_most,
    channel_size,
    derivative,
    spectral_bound,
    through,
)
from vnt.functional import cross_product, invariant, linear
from vnt.geometry import masked_mean
from vnt.layers import (
    VNMLP,
    VNBatchNorm,
    VNCrossProduct,
    VNEncoder,
    VNEncoderBlock,
    VNInvariant,
    VNLatentEncoder,
    VNLayerNorm,
    VNReLU,
    VNRMSNorm,
)
from vnt.models.heads import MaskedBatchNorm

AnyNorm = VNRMSNorm | VNLayerNorm | VNBatchNorm


def bend(length: Tensor, size: Tensor, count: int, eps: float) -> tuple[Tensor, Tensor]:
    """Of x ↦ x/√(|x|²/n + eps): slope 1/s where the ball is nearest zero, and 1.5 |x|/(n s³) times the squared size."""
    slope = normalizing_constant(length, size, count, eps)
    return slope, 1.5 * slope**3 * (length + size) / count * size.square()


def enclose_norm(layer: AnyNorm, x: Enclosure) -> Enclosure:
    """VN-RMSNorm to second order; for the paper's norms the whole change counts as rest."""
    V, size = x.center, x.size
    slopes = derivative(layer, V, x.slopes)
    most_gain = layer.gain.abs().max()
    if isinstance(layer, VNRMSNorm):
        length = V.flatten(-2).norm(dim=-1)
        slope, new = bend(length, size, layer.channels, layer.eps)
        image = layer(V)
        bounded = image.flatten(-2).norm(dim=-1) + most_gain * math.sqrt(layer.channels)
        return at_most(advance(x, image, slopes, most_gain * slope, new=most_gain * new), bounded)
    # v/|v| · n(|v|): directions turn by at most size/|v|, and by 2; lengths n move by their own constant.
    guarded = (V.square().sum(-1) + layer.eps).sqrt()
    if isinstance(layer, VNLayerNorm):
        normal = F.layer_norm(guarded, guarded.shape[-1:], layer.gain, layer.shift, layer.eps)
        spread = (guarded - guarded.mean(-1, keepdim=True)).norm(dim=-1)
        slope = most_gain * normalizing_constant(spread, size, layer.channels, layer.eps)
        change = (slope * size).clamp(
            max=2 * float(most_gain) * math.sqrt(layer.channels)
        )  # |n| ≤ √C, whatever the size
    else:
        gain = layer.gain * torch.rsqrt(layer.running_var + layer.eps)
        normal, slope = (guarded - layer.running_mean) * gain + layer.shift, gain.abs().max()
        change = slope * size
    turn = normalizing_constant(V.norm(dim=-1), size[..., None], 1, layer.eps)
    one_by_one = ((turn * size[..., None]).clamp(max=2) * normal).norm(dim=-1)
    steepest = (turn * normal.abs()).amax(-1)
    movement = torch.minimum(one_by_one, steepest * size) + change
    return at_most(advance(x, layer(V), slopes, steepest + slope, new=torch.inf), movement)


def enclose_relu(layer: VNReLU, x: Enclosure) -> Enclosure:
    """q − (1 − α) min(⟨q, k⟩, 0)/(|k|² + eps) k: linear in q, curved in k, with a kink where ⟨q, k⟩ = 0."""
    V, W, U = x.center, layer.weight, layer.direction
    q, k = linear(V, W), linear(V, U)
    w, u = W.norm(dim=-1), U.norm(dim=-1)
    dq, dk = (channel_size(linear(x.slopes, A), length * x.radius[..., None]) for A, length in ((W, w), (U, u)))
    q_length, k_length = q.norm(dim=-1), k.norm(dim=-1)
    least, most = (k_length - dk).clamp(min=0), k_length + dk
    share = abs(1 - layer.negative_slope)
    slope = projector_slope(least, most, layer.eps)
    along, change = (q * k).sum(-1), q_length * dk + k_length * dq + dq * dk
    rectified = along <= change  # ⟨q, k⟩ < 0 somewhere: elsewhere the layer is W, and linear
    undecided = along.abs() <= change
    curved = dk.square() * q_length / (least.square() + layer.eps) + slope * dq * dk
    kinked = change * most / (least.square() + layer.eps)
    new = share * torch.where(rectified, curved + torch.where(undecided, kinked, 0), 0)
    # A constant on all that can happen: features by σ(W), directions by their slope where they matter.
    steep = share * torch.where(rectified, (q_length + dq) * slope, 0)
    constant = max(1.0, abs(layer.negative_slope)) * spectral_norm(W) + spectral_bound(steep[..., None] * U)
    return advance(x, layer(V), derivative(layer, V, x.slopes), constant, new=new.norm(dim=-1))


def enclose_mlp(layer: VNMLP, x: Enclosure) -> Enclosure:
    """One after the other."""
    if layer.expand is not None and layer.norm is not None:
        x = enclose_norm(layer.norm, enclose_linear(layer.expand, x))
    return enclose_linear(layer.contract, enclose_relu(layer.activation, x))


def enclose_block(block: VNEncoderBlock, x: Enclosure, mask: Mask, context: Enclosure | None = None) -> Enclosure:
    """Residual connections add."""

    def attend(V: Enclosure) -> Enclosure:
        return enclose_attention(block.attention, V, V if context is None else context, mask)

    if block.norm_position == "post":
        x = enclose_norm(block.attention_norm, add(x, attend(x)))
        return enclose_norm(block.mlp_norm, add(x, enclose_mlp(block.mlp, x)))
    if block.norm_position == "branch":
        x = add(x, enclose_norm(block.attention_norm, attend(x)))
        return through(
            x,
            lambda V: V + block.mlp_norm(block.mlp(V)),
            lambda x: add(x, enclose_norm(block.mlp_norm, enclose_mlp(block.mlp, x))),
        )
    x = add(x, attend(enclose_norm(block.attention_norm, x)))
    return through(
        x,
        lambda V: V + block.mlp(block.mlp_norm(V)),
        lambda x: add(x, enclose_mlp(block.mlp, enclose_norm(block.mlp_norm, x))),
    )


def enclose_encoder(encoder: VNEncoder | VNLatentEncoder, x: Enclosure, mask: Mask) -> Enclosure:
    """Block after block; latents first read from the tokens."""
    if isinstance(encoder, VNLatentEncoder):
        tokens = x
        if isinstance(encoder.input_norm, AnyNorm):
            x = enclose_norm(encoder.input_norm, x)
        pooled = mean_tokens(x, mask)
        W = encoder.project.weight
        slopes = torch.einsum("mdc,j...cs->j...mds", W, pooled.slopes)
        latents = Enclosure(encoder.project(x.center, mask), slopes, spectral_norm(W) * pooled.rest[..., None])
        latents = enclose_encoder(encoder.encoder, enclose_block(encoder.cross, latents, mask, context=x), None)
        if encoder.read_back is None:
            return latents
        x = enclose_block(encoder.read_back.block, tokens, None, context=latents)
        return _end(encoder.read_back.final_norm, x)
    for block in encoder.passes():
        x = enclose_block(block, x, mask)
    return _end(encoder.final_norm, x)


def _end(norm: nn.Module | None, x: Enclosure) -> Enclosure:
    return enclose_norm(norm, x) if isinstance(norm, AnyNorm) else x


def enclose_cross_product(layer: VNCrossProduct, x: Enclosure) -> Enclosure:
    """a × b is bilinear: what is not linear in the change is |δa||δb|, channel by channel."""
    unit = enclose_norm(layer.norm, x)
    sides = [enclose_linear(side, unit) for side in (layer.left, layer.right)]
    left, right = sides
    (a, b), (da, db) = zip(
        *((side.center.norm(dim=-1), channel_size(side.slopes, side.rest[..., None])) for side in sides), strict=True
    )
    rest = (left.rest[..., None] * b + a * right.rest[..., None] + da * db).norm(dim=-1)
    slopes = [
        cross_product(Da, right.center) + cross_product(left.center, Db)
        for Da, Db in zip(left.slopes, right.slopes, strict=True)
    ]
    product = Enclosure(cross_product(left.center, right.center), torch.stack(slopes), rest)
    return add(x, enclose_linear(layer.output, product))


def enclose_invariant(layer: VNInvariant, x: Enclosure) -> Enclosure:
    """V Tᵀ is bilinear: ‖δV‖‖δT‖ is what is not linear in the change. Rows of C·S numbers come out."""
    V, frame = x.center, enclose_mlp(layer.frame, x)
    T = frame.center
    slopes = torch.stack([invariant(DV, T) + invariant(V, DT) for DV, DT in zip(x.slopes, frame.slopes, strict=True)])
    of_V, of_T = _matrix_norm(T), _matrix_norm(V)
    rest = x.rest * of_V + of_T * frame.rest + x.size * frame.size
    most = of_V * x.size + of_T * frame.size + x.size * frame.size
    return Enclosure(layer(V).flatten(-2), slopes.flatten(-2), rest, 1, x.outer * of_V + of_T * frame.outer, most)


def _matrix_norm(V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens"]:
    """σ of each token, from the eigenvalues of its small Gram matrix."""
    return torch.linalg.eigvalsh(V.mT @ V)[..., -1].clamp(min=0).sqrt()


def enclose_perceptron(layers: list[nn.Module], x: Enclosure) -> Enclosure:
    """An ordinary MLP of Linear, LayerNorm, BatchNorm (of evaluation), GELU and Dropout (off) on rows (..., F)."""
    for layer in layers:
        row = x.center
        match layer:
            case nn.Linear():
                x = advance(x, layer(row), x.slopes @ layer.weight.mT, spectral_norm(layer.weight))
            case nn.LayerNorm():
                spread = (row - row.mean(-1, keepdim=True)).norm(dim=-1)
                gain = layer.weight.abs().max()
                slope, new = bend(spread, x.size, row.shape[-1], layer.eps)
                y = advance(x, layer(row), derivative(layer, row, x.slopes), gain * slope, new=gain * new)
                x = at_most(y, 2 * gain * math.sqrt(row.shape[-1]))
            case MaskedBatchNorm():  # of evaluation: a gain for each feature
                gain = torch.rsqrt(layer.running_var + layer.eps) * layer.gain
                x = advance(x, layer(row), x.slopes * gain, gain.abs().max())
            case nn.GELU():
                single = LONGEST * x.slopes.square().sum(0).sqrt()  # and together they are all within the radius
                new = GELU_CURVATURE / 2 * (single.square().norm(dim=-1) + 2 * single.amax(-1) * x.radius + x.radius**2)
                x = advance(x, layer(row), derivative(layer, row, x.slopes), GELU_CONSTANT, new=new)
            case nn.Dropout():
                pass
            case _:
                raise ValueError(f"no constant is known for {type(layer).__name__}")
    return x


def mean_tokens(x: Enclosure, mask: Mask) -> Enclosure:
    """The mean over tokens, of all three."""
    axis = -1 - x.axes
    slopes = torch.stack([masked_mean(D, mask, axis) for D in x.slopes])
    most = masked_mean(x.most, mask, -1) if isinstance(x.most, Tensor) else x.most
    return Enclosure(masked_mean(x.center, mask, axis), slopes, masked_mean(x.radius, mask, -1), x.axes, most=most)


def weighted_means(x: Enclosure, weights: Float[Tensor, "*batch K N"]) -> Enclosure:
    """K means over tokens, of all three, with weights that no bias has touched."""
    center, slopes = (weights @ part.flatten(-x.axes) for part in (x.center, x.slopes))
    most = (weights @ x.most[..., None]).squeeze(-1) if isinstance(x.most, Tensor) else x.most
    token = x.center.shape[x.center.ndim - x.axes :]
    rest = (weights @ x.radius[..., None]).squeeze(-1)
    return Enclosure(center.unflatten(-1, token), slopes.unflatten(-1, token), rest, x.axes, most=most)


def side_by_side(parts: list[Enclosure]) -> Enclosure:
    """Rows of numbers joined to longer ones."""
    center, slopes = torch.cat([part.center for part in parts], -1), torch.cat([part.slopes for part in parts], -1)
    return Enclosure(center, slopes, torch.stack([part.rest for part in parts]).norm(dim=0), 1)


def max_rows(x: Enclosure, hidden: Enclosure, last: nn.Linear | None, mask: Mask) -> Enclosure:
    """The largest of each feature x over tokens: linear where one token must win.

    Where several can, there is no slope, and the feature moves by no more than any of them can. ``last`` is the linear
    layer that makes x out of ``hidden``, where there is one: each feature then has a constant of its own.
    """
    width = 1.0 if last is None else last.weight.norm(dim=-1)
    rest = width * hidden.radius[..., None].expand_as(x.center)  # of each single feature
    size = LONGEST * x.slopes.square().sum(0).sqrt() + rest
    center = x.center if mask is None else torch.where(mask[..., None], x.center, -torch.inf)
    best, winner = center.max(-2, keepdim=True)
    can_win = center + size >= (center - size).amax(-2, keepdim=True)
    contested = can_win.sum(-2) > 1
    of_winner = rest.gather(-2, winner).squeeze(-2)
    among = torch.where(can_win, size, 0).amax(-2)
    slopes = x.slopes.gather(-2, winner[None].expand(9, *winner.shape)).squeeze(-2)
    slopes = torch.where(contested, 0, slopes)
    return Enclosure(best.squeeze(-2), slopes, torch.where(contested, among, of_winner).norm(dim=-1), 1)
