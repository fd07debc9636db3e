"""Cross products: what tells a left hand from a right one (ours).

Every map of the paper commutes with reflections too, so at ε = 0 its models cannot tell mirror images apart. The cross
product turns with a rotation but changes sign against a reflection: it breaks exactly the symmetry that is too much.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from vnt.precision import at_least_float32


def cross_product(A: Float[Tensor, "*tokens C S"], B: Float[Tensor, "*tokens C S"]) -> Float[Tensor, "*tokens C S"]:
    """A^(c) × B^(c) in the first three coordinates; zero in the others, which hold attributes under early fusion."""
    if A.shape[-1] < 3:
        raise ValueError(f"a cross product needs three coordinates, got {tuple(A.shape)}")
    cross = torch.linalg.cross(at_least_float32(A)[..., :3], at_least_float32(B)[..., :3])
    return F.pad(cross, (0, A.shape[-1] - 3)).to(A.dtype)
