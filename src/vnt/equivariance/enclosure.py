r"""Where activations can go when every bias turns: their first-order change exactly, and a bound on the rest.

With each bias εU replaced by εU + εU M, M = R⁻¹ − I (`vnt.equivariance.first_order`), a token V becomes

    V + Σ_j m_j D_j + ρ,   ‖ρ‖_F ≤ rest,   m = vec(M), ‖m‖ ≤ √8 for every rotation R.

A layer takes such an enclosure of its input to one of its output (`vnt.equivariance.enclosures`): the nine slopes D_j
by its derivative, and the rest by a constant times the old rest plus half a bound on the second derivative times the
squared size of the change. Constants compound only in what is of second order in ε, and `through` replaces those of a
chain by the norm of its whole derivative: that is why the result is close to the truth. docs/bounds.md derives it all.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

LONGEST = math.sqrt(8)
"""‖vec(R⁻¹ − I)‖ = √(4 − 4 cos θ) at most."""


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A set that holds a tensor for every rotation of the biases.

    Attributes:
        center: (..., C, S) vectors or (..., F) numbers, as the network has them.
        slopes: (9, *center), the change with each entry of R⁻¹ − I.
        rest: (...), how far a token can be from center + Σ m_j slopes_j.
        axes: how many trailing axes of the center make one token: 2 or 1.
        outer: (...), within `through`: the linear image of the rest from before the chain; ``rest`` is then beside it.
        most: (...), how far a token can move in all, where that is known otherwise.
    """

    center: Tensor
    slopes: Tensor
    rest: Tensor
    axes: int = 2
    outer: Tensor | float = 0.0
    most: Tensor | float = torch.inf

    @property
    def size(self) -> Tensor:
        """(...), how far a token can be from the center."""
        return _smaller(self.linear_size + self.rest + self.outer, self.most)

    @property
    def radius(self) -> Tensor:
        """(...), how far a token can be from center + Σ m_j slopes_j, the rest from before the chain included."""
        return _smaller(self.rest + self.outer, self.most + self.linear_size)

    @property
    def linear_size(self) -> Tensor:
        """(...), a bound on ‖Σ_j m_j slopes_j‖ over all rotations."""
        return LONGEST * spectral_bound(self.slopes.flatten(-self.axes).movedim(0, -2))


def spectral_bound(A: Float[Tensor, "*tokens M C"]) -> Float[Tensor, "*tokens"]:
    """σ(A) ≤ ‖(AᵀA)⁴‖_F^(1/8): at most rank^(1/16) times too large, for three small products."""
    G = A.mT @ A if A.shape[-1] <= A.shape[-2] else A @ A.mT
    unit = G.diagonal(dim1=-2, dim2=-1).sum(-1).clamp(min=1e-300)
    G = G / unit[..., None, None]
    G = G @ G
    return (G @ G).flatten(-2).norm(dim=-1) ** 0.125 * unit.sqrt()


def _smaller(a: Tensor, b: Tensor | float) -> Tensor:
    """The smaller of two bounds; one that is not a number is none."""
    return torch.fmin(a, b if isinstance(b, Tensor) else torch.full_like(a, b))


def advance(
    x: Enclosure,
    center: Tensor,
    slopes: Tensor,
    constant: Tensor | float,
    *,
    new: Tensor | float = 0.0,
    added: Tensor | float = 0.0,
) -> Enclosure:
    """Behind a layer with a Lipschitz constant on the whole ball: the old rest times it, plus what is ``new``.

    ``added``: how far the layer's own bias moves a token.
    """
    return Enclosure(center, slopes, constant * x.rest + new, x.axes, constant * x.outer, constant * x.size + added)


def at_most(x: Enclosure, movement: Tensor) -> Enclosure:
    """The same, knowing a bound on the whole movement of each token.

    What is left of a movement without its linear parts, that of the slopes and that of the rest from before, is no
    longer than all three together.
    """
    rest = _smaller(x.rest, movement + x.linear_size + x.outer)
    return Enclosure(x.center, x.slopes, rest, x.axes, x.outer, _smaller(movement, x.most))


def through(x: Enclosure, function: Callable[[Tensor], Tensor], chain: Callable[[Enclosure], Enclosure]) -> Enclosure:
    """A chain of layers on single tokens: the old rest goes through the derivative of the whole chain at once.

    ``function`` is what the layers compute, ``chain`` how they enclose. Within it the old rest counts towards sizes,
    grown by each layer's constant; at the end σ of the token's own derivative takes the place of those constants.
    """
    inside = chain(Enclosure(x.center, x.slopes, torch.zeros_like(x.rest), x.axes, x.rest, x.most))
    rest = inside.rest + stretch(function, x.center, x.axes) * x.rest
    return Enclosure(inside.center, inside.slopes, _smaller(inside.radius, rest), inside.axes, most=inside.most)


def stretch(function: Callable[[Tensor], Tensor], x: Tensor, axes: int) -> Tensor:
    """(...): σ of the derivative of a function of single tokens, at each of them."""
    tokens = x.reshape(-1, *x.shape[x.ndim - axes :])
    size = tokens[0].numel()

    def slope(token: Tensor) -> Tensor:
        J = torch.func.jacfwd(function)(token)
        return spectral_bound(J.reshape(-1, size))

    return torch.func.vmap(slope, chunk_size=32)(tokens).reshape(x.shape[: x.ndim - axes])


def exact(center: Tensor, axes: int = 2) -> Enclosure:
    """What no bias has touched."""
    return Enclosure(center, center.new_zeros(9, *center.shape), center.new_zeros(center.shape[:-axes]), axes)


def add(a: Enclosure, b: Enclosure) -> Enclosure:
    """A sum, of a residual connection."""
    center, slopes = a.center + b.center, a.slopes + b.slopes
    return Enclosure(center, slopes, a.rest + b.rest, a.axes, a.outer + b.outer, a.size + b.size)


def derivative(f: Callable[[Tensor], Tensor], x: Tensor, slopes: Tensor) -> Tensor:
    """Df(x) applied to each slope."""
    return torch.stack([torch.func.jvp(f, (x,), (slope,))[1] for slope in slopes])


def channel_size(slopes: Tensor, rest: Tensor) -> Tensor:
    """(..., C): how far each channel can move."""
    return LONGEST * spectral_bound(slopes.movedim(0, -2)) + rest
