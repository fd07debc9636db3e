"""What "rotate" means: rotations, group actions, centring, neighbours, masks. No learning."""

from vnt.geometry.actions import permute, rotate, translate
from vnt.geometry.centering import Centering, center, geometric_median, rms_radius
from vnt.geometry.masking import masked_max, masked_mean
from vnt.geometry.neighbors import at_neighbors, fading_neighbors, nearest_neighbors
from vnt.geometry.packing import Packing, pack_ragged, padded
from vnt.geometry.rotations import random_orthogonal, random_rotation, rotation_about, rotation_in_plane

__all__ = [
    "Centering",
    "Packing",
    "at_neighbors",
    "center",
    "fading_neighbors",
    "geometric_median",
    "masked_max",
    "masked_mean",
    "nearest_neighbors",
    "pack_ragged",
    "padded",
    "permute",
    "random_orthogonal",
    "random_rotation",
    "rms_radius",
    "rotate",
    "rotation_about",
    "rotation_in_plane",
    "translate",
]
