"""Weights from elsewhere: taken where the mathematics agrees, refused with the reason where it does not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from torch import nn

from vnt.models.foreign.states import State, read_state, some
from vnt.models.foreign.vn_transformer import import_vn_transformer, is_vn_transformer
from vnt.models.foreign.vnn import import_vnn, is_vnn
from vnt.spelling import suggest

Origin = Literal["vnn", "VN-transformer"]


def import_weights(
    source: Path | str | Mapping[str, Any],
    origin: Origin | None = None,
    *,
    part: str = "",
    num_neighbors: int = 20,
    num_heads: int = 8,
) -> nn.Module:
    """A model of ours with weights of somebody else's program, in evaluation mode; its results are theirs.

    Where the mathematics of a part differs a ``ValueError`` says which part, and how. docs/import.md lists both.

    Args:
        source: a .pt, .pth, .t7 or .safetensors file, which is never unpickled beyond tensors and numbers, or a state
            dict. Wrappers ("model_state_dict" and the like) and prefixes ("module.") are taken off.
        origin: "vnn" is FlyingGiraffe/vnn (VN-PointNet and VN-DGCNN), "VN-transformer" the package of that name on
            PyPI; recognised by the names of the weights where not given, but for layers whose one name is "weight".
        part: only the weights below this name, "encoder.layers.0.0" for instance.
        num_neighbors: k, which the weights do not tell: vnn's ``--n_knn``, 20 unless said there.
        num_heads: H, which the weights do not tell: VN-transformer's ``heads``, 8 unless said there.
    """
    if origin is not None and origin not in get_args(Origin):
        raise ValueError(f"no origin {origin!r}; {suggest(origin, get_args(Origin))}")
    state = read_state(source, part)
    try:
        if (origin or recognize(state)) == "vnn":
            return import_vnn(state, num_neighbors)
        return import_vn_transformer(state, num_heads)
    except ValueError as error:
        raise ValueError(str(error) if isinstance(source, Mapping) else f"{source}: {error}") from error


def recognize(state: State) -> Origin:
    """Whose weights these are, by their names."""
    if is_vnn(state):
        return "vnn"
    if is_vn_transformer(state):
        return "VN-transformer"
    raise ValueError(
        "weights of no program that vnt knows, which are FlyingGiraffe/vnn (map_to_feat, map_to_dir) and PyPI's "
        f"VN-transformer (to_q, ln.gamma): {some(state)}"
    )
