"""TFRecord files: length, checksum, payload, checksum, and so on to the end.

Both checksums of every record are checked: a shard of half a gigabyte that was copied badly must not pass for data.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from vnt.files import blame, require_file, require_library

FRAME = 16
"""Bytes that a record takes beside its payload."""

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")


def read_records(path: Path | str) -> Iterator[bytes]:
    """The payloads of a TFRecord file, in order.

    Raises:
        ValueError: a record is cut off or fails a checksum. The message has the file, the record's number from 0, and
            the byte at which it starts.
    """
    path = require_file(path)
    crc32c = require_library("google_crc32c", "reading TFRecord files")
    size = path.stat().st_size
    offset = number = 0
    with blame(path), open(path, "rb") as file:
        while offset < size:
            where = f"{path}: record {number} at byte {offset}"
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                raise ValueError(f"{where} is cut off in its header")
            length, checksum = _HEADER.unpack(header)
            if _masked(crc32c.value(header[:8])) != checksum:
                raise ValueError(f"{where} has a damaged length: its checksum is wrong")
            # The length decides how much is read, so it is held against the file first.
            if length > size - offset - FRAME:
                raise ValueError(f"{where} is cut off: {length:,} bytes announced, {size - offset:,} left in the file")
            payload, footer = file.read(length), file.read(_FOOTER.size)
            if len(payload) < length or len(footer) < _FOOTER.size:
                raise ValueError(f"{where} is cut off: the file shrank while it was read")
            if _masked(crc32c.value(payload)) != _FOOTER.unpack(footer)[0]:
                raise ValueError(f"{where} is damaged: the checksum of its {length:,} bytes is wrong")
            yield payload
            offset += FRAME + length
            number += 1


def _masked(crc: int) -> int:
    """TFRecord's mask, which keeps a checksum of data that itself holds checksums from being weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
