"""What a LAZ file claims of its compressed points, checked before the decoder believes it and allocates.

After the points' start: the place of the table of chunks (8 bytes), then the chunks. A chunk of point formats 6 and up
is layered: its first point, its number of points, the size of every layer, and the layers.
"""

import struct
from pathlib import Path

LAYERED = 3  # the compressor of point formats 6 and up
LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}  # by the type of an item: point, colour, colour and infrared, waveform
EXTRA_BYTES = 14  # an item with one layer for each of its bytes


def check_chunks(path: Path, start: int, count: int, point_size: int, laszip: bytes) -> None:
    """Refuse chunks and layers that the file is too short for. ``laszip`` is the record that describes them."""
    (compressor,) = struct.unpack_from("<H", laszip)
    (num_items,) = struct.unpack_from("<H", laszip, 32)
    items = [struct.unpack_from("<HH", laszip, 34 + 6 * i) for i in range(num_items)]
    packed_size = sum(size for _, size in items)
    if packed_size != point_size:
        raise ValueError(f"points of {point_size} bytes are compressed as {packed_size} bytes")
    data = path.read_bytes()
    (table,) = struct.unpack_from("<q", data, start)
    if table == -1:  # the writer could not go back: the place is at the very end
        (table,) = struct.unpack_from("<q", data, len(data) - 8)
    if not start + 8 <= table <= len(data) - 8:
        raise ValueError(f"the table of chunks at byte {table:,} is not in a file of {len(data):,}")
    (num_chunks,) = struct.unpack_from("<I", data, table + 4)
    if num_chunks > count:
        raise ValueError(f"{num_chunks:,} chunks for {count:,} points")
    if compressor != LAYERED:
        return
    num_layers = sum(size if kind == EXTRA_BYTES else LAYERS.get(kind, 0) for kind, size in items)
    at, found = start + 8, 0
    while found < count:
        at += point_size
        if at + 4 + 4 * num_layers > table:
            raise ValueError(f"{count:,} points promised, the chunks end after {found:,}")
        points, *layers = struct.unpack_from(f"<{1 + num_layers}I", data, at)
        at += 4 + 4 * num_layers + sum(layers)
        if points == 0 or at > table:
            raise ValueError(f"a chunk of {points:,} points and {sum(layers):,} bytes, which the file does not hold")
        found += points
