"""From many tokens to one, or to a few: mean, max (Deng et al. 2021) and VN-MeanProject (section 6)."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vnt.functional.linear import linear
from vnt.geometry.masking import align, masked_max, masked_mean
from vnt.precision import at_least_float32, full_precision


def mean_pool(
    V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch C S"]:
    """(1/N) Σₙ V^(n) over the tokens that exist."""
    return masked_mean(V, mask, -3)


def max_pool(
    V: Float[Tensor, "*batch N C S"],
    W: Float[Tensor, "C C"],
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    tie_tolerance: float,
) -> Float[Tensor, "*batch C S"]:
    """For each channel the vector V^(n,c) that reaches farthest along its own direction k^(n,c) = (W V^(n))^(c).

    Tokens whose score ⟨V^(n,c), k^(n,c)⟩ equals the largest are averaged: the points that a symmetry of the cloud swaps
    always tie, and picking one of them would break that symmetry. Equal is what differs by at most ``tie_tolerance``
    times the largest |V^(n,c)| |k^(n,c)|, since that is what rounding grows with, however small a score is.
    """
    with full_precision(V), torch.no_grad():  # a choice: rounding could make it another one, and it has no gradient
        exact = at_least_float32(V)
        k = linear(exact, W.to(exact.dtype))
        score = (exact * k).sum(-1)  # (..., N, C)
        best, size = (masked_max(x, mask, -2)[..., None, :] for x in (score, exact.norm(dim=-1) * k.norm(dim=-1)))
    winners = score >= best - tie_tolerance * size
    if mask is not None:
        winners = winners & align(mask, winners)
    total = torch.where(winners[..., None], V, 0).sum(-3)
    return (total / winners.sum(-2)[..., None]).to(V.dtype)


def mean_project(
    V: Float[Tensor, "*batch N C S"], W: Float[Tensor, "M C_out C"], mask: Bool[Tensor, "*batch N"] | None = None
) -> Float[Tensor, "*batch M C_out S"]:
    """VN-MeanProject(V)^(m) = W^(m) [(1/N) Σₙ V^(n)]: equivariant, and blind to the order of the points."""
    return project_mean(mean_pool(V, mask), W)


def project_mean(mean: Float[Tensor, "*batch C S"], W: Float[Tensor, "M C_out C"]) -> Float[Tensor, "*batch M C_out S"]:
    """W^(m) V̄ for each latent m, of a mean V̄ that is known."""
    M, C_out, _ = W.shape
    return linear(mean, W.flatten(0, 1)).unflatten(-2, (M, C_out))
