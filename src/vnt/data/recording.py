"""Tracks of one scene on one clock: what Waymo, Argoverse, KITTI and a user's table have in common."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Recording:
    """n tracks over T steps of one scene, sampled at one rate.

    Attributes:
        name: the scenario's id, the sequence's name or the file's stem; all windows of a recording share it.
        dt: seconds between steps.
        positions: (n, T, 3), float64, metres; anything where not valid.
        valid: (n, T), whether the track was seen at the step.
        track_ids: n names, unique within the recording.
        types: n words: "vehicle", "pedestrian", "cyclist", "other", ... ("unknown" where nothing is said).
        attributes: (n, T, d), float32, with d ``attribute_names`` (speed, heading, ...); zero where not valid.
        start: when the first step was, in seconds on the clock of the file.
        current: the step that is "now" (Waymo: 10), or None.
        to_predict, own: (n,), tracks that the set's authors want predicted, and the recording car itself.
    """

    name: str
    dt: float
    positions: NDArray[np.float64]
    valid: NDArray[np.bool_]
    track_ids: tuple[str, ...]
    types: tuple[str, ...]
    attributes: NDArray[np.float32]
    attribute_names: tuple[str, ...] = ()
    start: float = 0.0
    current: int | None = None
    to_predict: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    own: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        n, T = self.valid.shape
        for name in ("to_predict", "own"):
            if getattr(self, name).size == 0:
                object.__setattr__(self, name, np.zeros(n, bool))
        expected = {
            "positions": (n, T, 3),
            "attributes": (n, T, len(self.attribute_names)),
            "to_predict": (n,),
            "own": (n,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} of recording {self.name!r} must be {shape}, got {getattr(self, name).shape}")
        if len(self.track_ids) != n or len(self.types) != n:
            raise ValueError(
                f"recording {self.name!r} has {n} tracks, {len(self.track_ids)} ids, {len(self.types)} types"
            )
        if len(set(self.track_ids)) != n:
            raise ValueError(
                f"recording {self.name!r} has {n} tracks but only {len(set(self.track_ids))} different ids"
            )
        if not (np.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt of recording {self.name!r} must be positive, got {self.dt}")
        if not np.isfinite(self.positions[self.valid]).all() or not np.isfinite(self.attributes[self.valid]).all():
            raise ValueError(f"recording {self.name!r} has positions or attributes that are not finite")

    @property
    def num_tracks(self) -> int:
        """How many tracks there are."""
        return self.valid.shape[0]

    @property
    def num_steps(self) -> int:
        """How many steps each track has, seen or not."""
        return self.valid.shape[1]
