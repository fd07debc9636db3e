"""What two neighbouring points are to one another, as numbers that do not turn (ours, not in the paper)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vnt.functional.surroundings import LocalMoments
from vnt.geometry import at_neighbors
from vnt.precision import at_least_float32

OF_SCALE = 8
"""Invariants of a pair for each scale of the moments."""

OF_PAIR = 4
"""And those that need none."""


def pair_invariants(
    x: Float[Tensor, "*batch N 3"], around: LocalMoments, index: Int[Tensor, "*batch N K"], unit: float
) -> Float[Tensor, "*batch N K F"]:
    r"""Of a point i and its neighbour j, with u = (x_j − x_i) / unit:

    $$|u|^2, \; ⟨x_i, u⟩, \; |x_i|^2, \; |x_j|^2; \quad
      ⟨u, M_i u⟩, \; ⟨u, M_j u⟩, \; |M_i u|^2, \; |M_j u|^2, \; \text{tr}\, M_i M_j, \;
      ⟨o_i, u⟩, \; ⟨o_j, u⟩, \; ⟨o_i, o_j⟩$$

    the latter for each scale of `vnt.functional.local_moments`. On a surface M ≈ ½ (1 − n nᵀ), so that they say how
    far away the neighbour is, how steeply it lies to either normal, and what angle the normals make: Drost's point
    pair features (2010), without the normals, whose sign nobody knows, and without their jumps.
    """
    x = at_least_float32(x)
    o, M = (each.to(x.dtype) for each in around)
    S = o.shape[-2]
    theirs = at_neighbors(torch.cat([x, o.flatten(-2), M.flatten(-3)], -1), index)
    x_j, o_j, M_j = theirs.split((3, 3 * S, 9 * S), -1)
    x_i, o_i, M_i = x[..., None, :], o[..., None, :, :], M[..., None, :, :, :]
    o_j, M_j = o_j.unflatten(-1, (S, 3)), M_j.unflatten(-1, (S, 3, 3))
    u = (x_j - x_i) / unit
    v = u[..., None, :]
    Mu_i, Mu_j = (M_i * v[..., None, :]).sum(-1), (M_j * v[..., None, :]).sum(-1)
    alone = [u.square().sum(-1), (x_i * u).sum(-1), x_i.square().sum(-1).expand(u.shape[:-1]), x_j.square().sum(-1)]
    of_scales = [
        (v * Mu_i).sum(-1),
        (v * Mu_j).sum(-1),
        Mu_i.square().sum(-1),
        Mu_j.square().sum(-1),
        (M_i * M_j).sum((-2, -1)),
        (o_i * v).sum(-1),
        (o_j * v).sum(-1),
        (o_i * o_j).sum(-1),
    ]
    return torch.cat([torch.stack(alone, -1), *of_scales], -1)
