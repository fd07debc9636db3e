"""VN-Invariant (appendix C.4): coordinates of a token in a frame that turns with it."""

from jaxtyping import Float
from torch import Tensor

from vnt.precision import at_least_float32


def invariant(V: Float[Tensor, "*tokens C S"], T: Float[Tensor, "*tokens D S"]) -> Float[Tensor, "*tokens C D"]:
    """V Tᵀ: the inner products of the C vectors of V with the D vectors of T, which turn with V.

    (V R)(T R)ᵀ = V R Rᵀ Tᵀ = V Tᵀ (Proposition 11). In the paper D = S = 3 and T = VN-MLP(V).
    """
    product = at_least_float32(T)[..., :, None, :] * at_least_float32(V)[..., None, :, :]
    return product.sum(-1).mT.to(V.dtype)
