"""What stands between the kernels of steerable networks, on each point by itself: a norm and a gate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.models.rivals.equivariant_kernels import EPS, Fiber


class SteerableNorm(nn.Module):
    """LayerNorm of the scalars; vectors are divided by the root of their mean squared length plus eps.

    Shape:
        (..., D) -> (..., D)

    Differences from the paper: Fuchs et al. apply LayerNorm to the lengths of vectors and keep their directions, which
    amplifies what is nothing but rounding; Thomas et al. have no norm.
    """

    def __init__(self, fiber: Fiber, eps: float):
        super().__init__()
        self.fiber, self.eps = fiber, eps
        self.scalars = nn.LayerNorm(fiber.scalars)
        self.gain = nn.Parameter(torch.ones(fiber.vectors, 1))

    def forward(self, x: Float[Tensor, "*points D"]) -> Float[Tensor, "*points D"]:
        scalars, vectors = self.fiber.split(x)
        scale = (vectors.square().sum(-1).mean(-1) + self.eps).rsqrt()
        vectors = self.gain * vectors * scale[..., None, None]
        return torch.cat([self.scalars(scalars), vectors.flatten(-2)], -1)


class Gate(nn.Module):
    """Scalars hear of the lengths of vectors; then SiLU of them, and each vector times the sigmoid of one of its own.

    Shape:
        (..., D + V) with the V scalars for the gates behind the F others -> (..., D)

    Differences from the paper: both papers multiply a vector by a function of its own length; here all lengths, through
    a linear map, enter all gates and scalars.
    """

    def __init__(self, fiber: Fiber):
        super().__init__()
        self.inputs = Fiber(fiber.scalars + fiber.vectors, fiber.vectors)
        self.num_scalars = fiber.scalars
        self.lengths = nn.Linear(fiber.vectors, self.inputs.scalars, bias=False)

    def forward(self, x: Float[Tensor, "*points D_in"]) -> Float[Tensor, "*points D"]:
        scalars, vectors = self.inputs.split(x)
        scalars = scalars + self.lengths((vectors.square().sum(-1) + EPS).sqrt())
        gates = scalars[..., self.num_scalars :].sigmoid()
        scalars = nn.functional.silu(scalars[..., : self.num_scalars])
        return torch.cat([scalars, (gates[..., None] * vectors).flatten(-2)], -1)
