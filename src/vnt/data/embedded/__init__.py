"""Sets that are generated from a seed, so that everything runs with no download."""

from vnt.data.embedded.motion import Motion as Motion
from vnt.data.embedded.motion import make_motion as make_motion
from vnt.data.embedded.shapes import SHAPE_CLASSES as SHAPE_CLASSES
from vnt.data.embedded.shapes import make_shapes as make_shapes
