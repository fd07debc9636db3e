"""Writes what the readers read, sharing no code with them: TFRecords and `Scenario` messages byte by byte.

The ``*_in`` functions are for `fuzzing`, whose child imports them by name.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum from its definition, bit by bit for the table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


_TABLE = [_table_entry(byte) for byte in range(256)]


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15) + (crc << 17) % 2**32 + 0xA282EAD8) % 2**32)


def framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def write_records(path: Path, payloads: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(framed(payload) for payload in payloads))
    return path


def varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, wire: int, value) -> bytes:
    tag = varint(number << 3 | wire)
    if wire == VARINT:
        return tag + varint(value)
    if wire == BYTES:
        return tag + varint(len(value)) + value
    return tag + struct.pack("<d" if wire == DOUBLE else "<f", value)


def state(x: float, y: float, z: float, *, heading=0.5, vx=3.0, vy=4.0, size=(4.5, 2.0, 1.5), valid=True) -> bytes:
    """An ObjectState: centre, size, heading, velocity, valid."""
    out = b"".join(field(2 + axis, DOUBLE, value) for axis, value in enumerate((x, y, z)))
    out += b"".join(field(5 + axis, FLOAT, value) for axis, value in enumerate(size))
    return out + field(8, FLOAT, heading) + field(9, FLOAT, vx) + field(10, FLOAT, vy) + field(11, VARINT, int(valid))


def track(id: int, kind: int, states: Sequence[bytes]) -> bytes:
    return field(1, VARINT, id) + field(2, VARINT, kind) + b"".join(field(3, BYTES, each) for each in states)


def scenario(
    tracks: Sequence[bytes],
    *,
    steps: int,
    id: str = "abc",
    current: int = 10,
    own: int = 0,
    predict: Sequence[int] = (),
    dt=0.1,
) -> bytes:
    """A Scenario, with fields that no reader of ours knows: a map feature, lidar, an object of interest."""
    out = b"".join(field(1, DOUBLE, 5 + dt * step) for step in range(steps))
    out += b"".join(field(2, BYTES, each) for each in tracks)
    out += field(4, VARINT, 7) + field(5, BYTES, id.encode()) + field(6, VARINT, own)
    out += field(8, BYTES, field(1, VARINT, 3)) + field(10, VARINT, current)
    out += b"".join(field(11, BYTES, field(1, VARINT, index) + field(2, VARINT, 1)) for index in predict)
    return out + field(12, BYTES, b"\x00" * 40)


def driving(id: str = "abc", *, steps: int = 91, tracks: int = 3, lost: Sequence[tuple[int, int]] = ()) -> bytes:
    """Track i starts at (100 i, 0, 1) and drives 0.5 i m a step along x; not valid at the (track, step) in ``lost``."""
    made = [
        track(i + 40, 1 + i % 4, [state(100 * i + 0.5 * i * t, 0, 1, valid=(i, t) not in lost) for t in range(steps)])
        for i in range(tracks)
    ]
    return scenario(made, steps=steps, id=id, own=tracks - 1, predict=[0])


def scenarios_in(path: Path) -> list:
    from vnt.data.waymo import read_scenarios

    return list(read_scenarios(path))


def scenarios_in_reframed(path: Path) -> list:
    """As `scenarios_in`, after the checksums have been made right: damage then reaches the parser of messages."""
    return scenarios_in(write_records(path.with_name(f"reframed {path.name}"), [path.read_bytes()]))
