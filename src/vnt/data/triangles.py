"""Places on triangles, drawn evenly: of meshes that are read, and of shapes that are generated."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


def draw_places(
    area: NDArray[np.float64], num_points: int, rng: Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Triangles drawn by their areas (in any unit), and a place (u, v) along two edges of each.

    At least one area must be positive.
    """
    reached = np.cumsum(area)
    chance, u, v = rng.random((3, num_points))
    chosen = np.searchsorted(reached, chance * reached[-1], side="right")
    # Rounding can carry the largest draw past the last triangle that has an area.
    chosen = np.minimum(chosen, np.flatnonzero(area)[-1])
    # The unit square folded along its diagonal covers the triangle evenly.
    folded = u + v > 1
    return chosen, np.where(folded, 1 - u, u), np.where(folded, 1 - v, v)
