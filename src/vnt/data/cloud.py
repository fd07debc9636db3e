"""What a cloud file holds: points, perhaps normals, and named numbers for each point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cloud:
    """N points in file coordinates, with what else the file says of each.

    Coordinates stay in float64: surveyed scans lie millions of metres from the origin, where float32 has steps of
    half a metre. Centre first, then round (`vnt.data.batches.collate` does).

    Attributes:
        points: (N, 3), float64, finite.
        normals: (N, 3), float64, or None. Zero where the file has none for a point.
        attributes: name -> (N,), float32, finite: intensity, red, green, blue, ... Whole numbers above 2²⁴ and times in
            seconds since 1970 lose their last digits. NaN, which programs write where they know nothing (a curvature,
            a scalar field), becomes 0.

    >>> cloud = Cloud(np.zeros((2, 3)), attributes={"intensity": np.array([1, 2])})
    >>> len(cloud), cloud.attributes["intensity"].dtype
    (2, dtype('float32'))
    """

    points: NDArray
    normals: NDArray | None = None
    attributes: Mapping[str, NDArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        points = np.ascontiguousarray(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise ValueError(f"points must be (N, 3), got {points.shape}")
        if len(points) == 0:
            raise ValueError("a cloud needs at least one point, got none")
        _require_finite(points, "point")
        normals = None
        if self.normals is not None:
            normals = np.ascontiguousarray(self.normals, dtype=np.float64)
            if normals.shape != points.shape:
                raise ValueError(f"normals must be {points.shape}, as the points are, got {normals.shape}")
            _require_finite(normals, "normal")
        attributes = {}
        for name, values in self.attributes.items():
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(values, dtype=np.float32)
            if values.shape != (len(points),):
                raise ValueError(
                    f"attribute {name!r} must be ({len(points)},), one number per point, got {values.shape}"
                )
            values = np.where(np.isnan(values), np.float32(0), values)
            _require_finite(values, f"value of attribute {name!r}")
            attributes[name] = values
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "normals", normals)
        object.__setattr__(self, "attributes", attributes)

    def __len__(self) -> int:
        return len(self.points)

    def require(self, attributes: Sequence[str], who: str) -> None:
        """Refuse a cloud, by the name that its user knows it by, that lacks one of the attributes."""
        if missing := [name for name in attributes if name not in self.attributes]:
            raise ValueError(f"{who} has attributes {list(self.attributes)}, and not {', '.join(missing)}")

    def take(self, index: NDArray[np.intp]) -> "Cloud":
        """The points at these places, with all that belongs to them."""
        return Cloud(
            self.points[index],
            None if self.normals is None else self.normals[index],
            {name: values[index] for name, values in self.attributes.items()},
        )


def _require_finite(values: np.ndarray, what: str) -> None:
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"{int(wrong.sum())} numbers are not finite, the first is {what} {row}: {values[row]}")
