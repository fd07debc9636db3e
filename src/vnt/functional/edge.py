"""Edge-convolution over nearest neighbours (Deng et al. 2021), the pre-processing that section 8.1 does without."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vnt.functional.activation import relu
from vnt.geometry import at_neighbors


def edge_features(
    V: Float[Tensor, "*batch N C S"], index: Int[Tensor, "*batch N K"]
) -> Float[Tensor, "*batch N K 2*C S"]:
    """E^(i,j) = [V^(j) − V^(i); V^(i)] for each neighbour j of i."""
    neighbor = at_neighbors(V.flatten(-2), index).unflatten(-1, V.shape[-2:])
    center = V[..., None, :, :].expand_as(neighbor)
    return torch.cat([neighbor - center, center], -2)


def edge_convolution(
    V: Float[Tensor, "*batch N C S"],
    index: Int[Tensor, "*batch N K"],
    weight: Float[Tensor, "*batch N K"],
    W: Float[Tensor, "C_out 2*C"],
    U: Float[Tensor, "C_dir 2*C"],
    *,
    negative_slope: float = 0.0,
    eps: float = 1e-12,
) -> Float[Tensor, "*batch N C_out S"]:
    """The weighted mean over neighbours of VN-ReLU(E^(i,j); W, U); zero for a point that has none."""
    messages = relu(edge_features(V, index), W, U, negative_slope=negative_slope, eps=eps)
    return neighbor_mean(messages, weight)


def neighbor_mean(
    messages: Float[Tensor, "*batch N K C S"], weight: Float[Tensor, "*batch N K"]
) -> Float[Tensor, "*batch N C S"]:
    """Σ_k w_k message_k / Σ_k w_k; zero where there are no weights."""
    total = weight.sum(-1, keepdim=True)
    share = weight / torch.where(total > 0, total, 1)
    return (share[..., None, None] * messages).sum(-3).to(messages.dtype)
