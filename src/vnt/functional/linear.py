"""VN-Linear (section 3.2) and VN-LinearWithBias (section 7, eq. linear_with_bias)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def channels_innermost(V: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C S"]:
    """V itself, laid out in memory as (..., S, C): what every layer here gives, and what makes its products fast."""
    return V.mT.contiguous().mT


def linear(V: Float[Tensor, "*tokens C S"], W: Float[Tensor, "C_out C"]) -> Float[Tensor, "*tokens C_out S"]:
    """VN-Linear(V; W) = W V.

    One matrix product over the innermost axis of V.mT; the result is a transposed view with channels innermost in
    memory, so a chain of layers copies nothing.
    """
    return F.linear(channels_innermost(V).mT, W).mT


def unit_rows(B: Float[Tensor, "C S"]) -> Float[Tensor, "C S"]:
    """U with U^(c) = B^(c) / |B^(c)|: one unit vector per channel."""
    return F.normalize(B, dim=-1)


def linear_with_bias(
    V: Float[Tensor, "*tokens C S"], W: Float[Tensor, "C_out C"], U: Float[Tensor, "C_out S"], epsilon: float
) -> Float[Tensor, "*tokens C_out S"]:
    """VN-LinearWithBias(V; W, U, ε) = W V + ε U, with |U^(c)| = 1 for each channel c."""
    return linear(V, W) + epsilon * U
