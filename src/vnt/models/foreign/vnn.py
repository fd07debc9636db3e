"""VN-PointNet and VN-DGCNN of Deng et al.'s program: FlyingGiraffe/vnn, and FlyingGiraffe/vnn-pc before it.

Layer by layer the mathematics is that of our rivals, given the program's guards: |v| + 1e-6 and a variance + 1e-5 in
VN-BatchNorm, |k|² + 1e-6 in VN-ReLU, and coordinates as they come. Two things have other names or another order, and
are rearranged: the names, and the invariants that enter the last MLP, which stand channel by channel there and frame
vector by frame vector here. Weights do not tell the number of neighbours.

Neighbours at exactly the k-th distance share its place here, there one of them takes it; so do equal maxima.
"""

from typing import Any

import torch
from torch import Tensor, nn

from vnt.models.foreign.states import State, fill, some
from vnt.models.kinds import build_model
from vnt.models.rivals.network_config import VNDGCNNConfig, VNPointNetConfig

NORM = {"gain": "weight", "shift": "bias", "running_mean": "running_mean", "running_var": "running_var"}
AS_THERE: dict[str, Any] = {
    "norm_eps": 1e-5,
    "length_eps": 1e-6,
    "relu_eps": 1e-6,
    "tie_tolerance": 0.0,
    "center": "none",
    "scale": "raw",
}
PARTS = ("convs1.weight", "conv11.weight")


def is_vnn(state: State) -> bool:
    """Whether the names are those of its vector-neuron layers."""
    return any(name.endswith("map_to_feat.weight") for name in state)


def import_vnn(state: State, num_neighbors: int = 20) -> nn.Module:
    """`VNPointNet` or `VNDGCNN` with these weights; whatever else there is in that program is refused."""
    if any(name in state for name in PARTS):
        raise ValueError(
            "these are weights of part segmentation (vn_pointnet_partseg, vn_dgcnn_partseg), which labels each point "
            "given the class of the cloud; vnt has no such network"
        )
    pointnet, dgcnn = "feat.conv_pos.map_to_feat.weight" in state, "linear1.weight" in state
    if not pointnet and not dgcnn:
        raise ValueError(
            "vector-neuron layers of Deng et al., but neither vn_pointnet_cls, which has feat.conv_pos, nor "
            f"vn_dgcnn_cls, which has linear1: {some(state)}"
        )
    frame = "feat.std_feature.vn_lin.weight" if pointnet else "std_feature.vn_lin.weight"
    if frame in state and state[frame].shape[:1] == (2,):
        raise ValueError(
            f"{frame} has 2 rows: made with normalize_frame=True, which makes two vectors orthonormal and takes their "
            "cross product for the third; ours are three vectors as they are"
        )
    first, last = ("fc1", "fc3") if pointnet else ("linear1", "linear3")
    for name in (f"{first}.weight", f"{last}.weight"):
        if name not in state or state[name].ndim != 2:
            raise ValueError(f"{name}, a matrix, is missing")
    sizes: dict[str, Any] = {
        "num_classes": len(state[f"{last}.weight"]),
        "width": len(state[f"{first}.weight"]) / 512,
        "num_neighbors": num_neighbors,
        "pooling": "max" if any(".pool" in f".{name}" for name in state) else "mean",
    }
    config = (VNPointNetConfig if pointnet else VNDGCNNConfig)(**sizes, **AS_THERE)
    names = _pointnet(config.pooling) if pointnet else _dgcnn(config.pooling)
    with torch.device("meta"):  # sizes alone: a file may promise more than there is memory for
        wanted = build_model(config).state_dict()
    program = "vn_pointnet_cls" if pointnet else "vn_dgcnn_cls"
    weights = _renamed(state, names, wanted, f"{program} of {config.width:g} times its width")
    columns = weights["head.first.linear.weight"]
    weights["head.first.linear.weight"] = frame_by_frame(columns, 6 * config.vector_channels(1024))
    return fill(build_model(config), weights)


def frame_by_frame(columns: Tensor, width: int) -> Tensor:
    """Columns for [c, k], channel by channel, as columns for [k, c], frame vector k by frame vector, in each group.

    >>> import torch
    >>> frame_by_frame(torch.arange(12)[None], 6)
    tensor([[ 0,  3,  1,  4,  2,  5,  6,  9,  7, 10,  8, 11]])
    """
    return columns.unflatten(-1, (-1, width // 3, 3)).transpose(-1, -2).flatten(-3)


def _renamed(state: State, names: dict[str, str], wanted: State, what: str) -> dict[str, Tensor]:
    """The tensors under our names; all of theirs, none but theirs, each of the shape that it should have."""
    if missing := [theirs for theirs in names.values() if theirs not in state]:
        raise ValueError(f"{missing[0]} is missing, one of {len(missing)} that a {what} has beside these")
    taken = set(names.values())
    if more := [name for name in state if name not in taken and not name.endswith("num_batches_tracked")]:
        raise ValueError(f"{more[0]} is none of the weights of a {what}")
    for ours, theirs in names.items():
        if state[theirs].shape != wanted[ours].shape:
            expected, got = tuple(wanted[ours].shape), tuple(state[theirs].shape)
            raise ValueError(f"{theirs} has shape {got}, of a {what} it has {expected}")
    return {ours: state[theirs] for ours, theirs in names.items()}


def _dgcnn(pooling: str) -> dict[str, str]:
    """Our names and theirs."""
    names = _layer("join", "conv5") | _frame("std_feature.") | _head("linear")
    for number in range(4):
        names |= _layer(f"edges.{number}.layer", f"conv{number + 1}")
        if pooling == "max":
            names[f"pools.{number}.farthest.weight"] = f"pool{number + 1}.map_to_dir.weight"
    return names


def _pointnet(pooling: str) -> dict[str, str]:
    """Our names and theirs."""
    names = _frame("feat.std_feature.") | _head("fc") | _norm("norm", "feat.bn3.bn")
    names |= {
        "third.weight": "feat.conv3.map_to_feat.weight",
        "transform.last.weight": "feat.fstn.fc3.map_to_feat.weight",
    }
    layers = {"edges": "feat.conv_pos", "first": "feat.conv1", "second": "feat.conv2"}
    layers |= {f"transform.on_points.{number}": f"feat.fstn.conv{number + 1}" for number in range(3)}
    layers |= {f"transform.on_clouds.{number}": f"feat.fstn.fc{number + 1}" for number in range(2)}
    for ours, theirs in layers.items():
        names |= _layer(ours, theirs)
    if pooling == "max":
        names |= {"pool.farthest.weight": "feat.pool.map_to_dir.weight"}
        names |= {"transform.pool.weight": "feat.fstn.pool.map_to_dir.weight"}
    return names


def _layer(ours: str, theirs: str) -> dict[str, str]:
    linear = {"feature": "map_to_feat", "direction": "map_to_dir"}
    names = {f"{ours}.{one}.weight": f"{theirs}.{other}.weight" for one, other in linear.items()}
    return names | _norm(f"{ours}.norm", f"{theirs}.batchnorm.bn")


def _norm(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.{one}": f"{theirs}.{other}" for one, other in NORM.items()}


def _frame(theirs: str) -> dict[str, str]:
    return (
        _layer("frame.first", f"{theirs}vn1")
        | _layer("frame.second", f"{theirs}vn2")
        | {"frame.last.weight": f"{theirs}vn_lin.weight"}
    )


def _head(theirs: str) -> dict[str, str]:
    names = {f"head.last.{kind}": f"{theirs}3.{kind}" for kind in ("weight", "bias")}
    for number, ours in ((1, "head.first"), (2, "head.second")):
        names |= {f"{ours}.linear.{kind}": f"{theirs}{number}.{kind}" for kind in ("weight", "bias")}
        names |= _norm(f"{ours}.norm", f"bn{number}")
    return names
