"""Files of windows as plain arrays: our own (safetensors), and the ready-made ``.npz`` sets.

Our own are written part by part, so that a set gathered from a thousand shards is never in memory twice, and carry a
checksum. They are ordinary safetensors files, which any other program can open.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from vnt.data.archives import read_npz
from vnt.files import atomic_write

FORMAT = "vnt motion set 1"
_DTYPES = {"<f8": "F64", "<f4": "F32", "<i4": "I32", "|u1": "U8", "|b1": "BOOL"}


def write_arrays(path: Path | str, arrays: Mapping[str, Sequence[np.ndarray]], about: Mapping[str, Any]) -> None:
    """Write arrays, each given as parts to be joined along the first axis, and ``about`` them what JSON can say."""
    header: dict[str, Any] = {}
    offset, text = 0, json.dumps(about)
    checksum = zlib.crc32(text.encode())
    arrays = dict(sorted(arrays.items()))  # the order of the checksum, which a reader can restore
    for name, parts in arrays.items():
        shape = [sum(len(part) for part in parts), *parts[0].shape[1:]]
        size = sum(part.nbytes for part in parts)
        header[name] = {"dtype": _DTYPES[parts[0].dtype.str], "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
        for part in parts:
            checksum = zlib.crc32(_bytes(part), checksum)
    header["__metadata__"] = {"format": FORMAT, "checksum": str(checksum), "about": text}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)  # data begin at a multiple of eight
    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for parts in arrays.values():
            for part in parts:
                file.write(_bytes(part))


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays of a file of ours and what is said about them; raises what the damage brings, to be put in words."""
    try:
        opened = safe_open(path, framework="numpy")
    except SafetensorError as error:
        raise ValueError(f"not a file of windows, which vnt data convert writes, or a damaged one: {error}") from error
    with opened as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise ValueError(f"not a motion set: its format is {metadata.get('format')!r}, not {FORMAT!r}")
        arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
    checksum = zlib.crc32(metadata["about"].encode())
    for array in arrays.values():
        checksum = zlib.crc32(_bytes(array), checksum)
    if str(checksum) != metadata.get("checksum"):
        raise ValueError("the file is damaged: its checksum is wrong")
    return arrays, json.loads(metadata["about"])


def pack_words(words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Words as (M,) indices and the bytes of a JSON list: names repeat, and a tensor file has no strings."""
    names, index = np.unique(words, return_inverse=True)
    return index.astype(np.int32), np.frombuffer(json.dumps(names.tolist()).encode(), np.uint8)


def unpack_words(index: np.ndarray, names: np.ndarray) -> np.ndarray:
    """The inverse of `pack_words`."""
    return words_at(np.array(json.loads(names.tobytes()), dtype=np.str_), index)


def words_at(names: np.ndarray, index: np.ndarray) -> np.ndarray:
    """``names[index]``, where a negative index is an error and not the last word."""
    if index.size and not (index.min() >= 0 and index.max() < len(names)):
        raise ValueError(f"a name is number {index.min()} or {index.max()} of {len(names)}")
    return names[index] if index.size else np.zeros(index.shape, np.str_)


def read_ready(path: Path, subset: str | None = None) -> dict[str, Any]:
    """The fields of a `MotionSet` from ``womd_vehicles.npz``, ``kitti_ego.npz`` or ``av2_sensor_vehicles.npz``."""
    arrays = read_npz(path)
    needed = ("past", "future", "past_speed", "scenario", "moving", "is_test", "dt")
    missing = [name for name in needed if name not in arrays]
    if missing:
        raise ValueError(f"not a ready motion set: it has no {', '.join(missing)}")
    M = len(arrays["past"])
    attributes, names = [arrays["past_speed"]], ["speed"]
    if "past_heading" in arrays:
        attributes, names = [*attributes, arrays["past_heading"]], [*names, "heading"]
    if "past_vel" in arrays:
        attributes, names = [*attributes, arrays["past_vel"]], [*names, "velocity_x", "velocity_y", "velocity_z"]

    # What a file does not say: Waymo's has vehicles only, and tracks by number; KITTI's is of the recording car.
    types, track, scenario = np.full(M, "vehicle"), np.full(M, "ego"), arrays["scenario"].astype(np.str_)
    own = np.full(M, "window_start" in arrays)
    if "category" in arrays:
        types, track = np.char.lower(arrays["category"]), np.full(M, "unknown")
        own = types == "ego_vehicle"
    if "track_index" in arrays:
        track = arrays["track_index"].astype(np.str_)
    if "scenario_id" in arrays:
        scenario = words_at(arrays["scenario_id"], arrays["scenario"])
    fields: dict[str, Any] = {
        "past": arrays["past"],
        "future": arrays["future"],
        "attributes": np.concatenate(attributes, axis=-1),
        "origin": arrays.get("origin", np.zeros((M, 3))),
        "scenario": scenario,
        "track": track,
        "types": types,
        "moving": arrays["moving"],
        "to_predict": arrays.get("is_track_to_predict", np.zeros(M, bool)),
        "own": own,
        "is_test": arrays["is_test"],
    }
    keep = arrays["valid"].all(axis=1) if "valid" in arrays else np.ones(M, bool)
    if subset is not None:
        if subset not in ("paper", "paper_test"):
            raise ValueError(f"subset must be None, 'paper' or 'paper_test', got {subset!r}")
        if "paper_size_subset" not in arrays:
            raise ValueError(f"the file has no subset {subset!r}")
        chosen, is_test = arrays["paper_size_subset"], arrays["paper_size_is_test"]
        keep = keep & (chosen if subset == "paper" else (chosen & is_test) | ~arrays["is_test"])
        fields["is_test"] = chosen & is_test
    dt = round(float(arrays["dt"]), 6)
    fields = {name: values[keep] for name, values in fields.items()}
    return fields | {"attribute_names": tuple(names), "dt": dt, "name": path.stem}


def _bytes(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
