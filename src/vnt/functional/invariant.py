"""VN-Invariant (appendix C.4): coordinates of a token in a frame that turns with it."""

from jaxtyping import Float
from torch import Tensor

from vnt.functional.precision import at_least_float32


def invariant(V: Float[Tensor, "*tokens C S"], T: Float[Tensor, "*tokens D S"]) -> Float[Tensor, "*tokens C D"]:
    """V Tᵀ: the inner products of the C vectors of V with the D vectors of T, which turn with V.

    (V R)(T R)ᵀ = V R Rᵀ Tᵀ = V Tᵀ (Proposition 11). In the paper D = S = 3 and T = VN-MLP(V).
    """
    V, T = at_least_float32(V), at_least_float32(T)
    return (T[..., :, None, :] * V[..., None, :, :]).sum(-1).mT
