"""Data: users' own files, the sets of the paper, two sets that ship inside the package, and batches of them."""

from typing import TYPE_CHECKING

from vnt._exports import lazy_exports

if TYPE_CHECKING:
    from vnt.data.batches import Batches as Batches
    from vnt.data.batches import CloudBatch as CloudBatch
    from vnt.data.batches import MotionBatch as MotionBatch
    from vnt.data.batches import collate as collate
    from vnt.data.cloud import Cloud as Cloud
    from vnt.data.cloud_files import read_cloud as read_cloud
    from vnt.data.cloud_set import CloudSet as CloudSet
    from vnt.data.conversion import convert as convert
    from vnt.data.conversion import recordings_in as recordings_in
    from vnt.data.modelnet import load_modelnet as load_modelnet
    from vnt.data.motion_set import MotionSet as MotionSet
    from vnt.data.motion_set import cut_windows as cut_windows
    from vnt.data.polka_dot import add_polka_dots as add_polka_dots
    from vnt.data.recording import Recording as Recording
    from vnt.data.scanobjectnn import load_scanobjectnn as load_scanobjectnn
    from vnt.data.sets import SETS as SETS
    from vnt.data.sets import as_batch as as_batch
    from vnt.data.sets import load_set as load_set
    from vnt.data.track_tables import read_tracks as read_tracks

# Readers and generators need no torch, so neither does importing this.
__getattr__, __all__ = lazy_exports(  # pyright: ignore
    __name__,
    {
        "vnt.data.batches": ["Batches", "CloudBatch", "MotionBatch", "collate"],
        "vnt.data.cloud": ["Cloud"],
        "vnt.data.cloud_files": ["read_cloud"],
        "vnt.data.cloud_set": ["CloudSet"],
        "vnt.data.conversion": ["convert", "recordings_in"],
        "vnt.data.modelnet": ["load_modelnet"],
        "vnt.data.motion_set": ["MotionSet", "cut_windows"],
        "vnt.data.polka_dot": ["add_polka_dots"],
        "vnt.data.recording": ["Recording"],
        "vnt.data.scanobjectnn": ["load_scanobjectnn"],
        "vnt.data.sets": ["SETS", "as_batch", "load_set"],
        "vnt.data.track_tables": ["read_tracks"],
    },
    submodules=["transforms"],
)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
