"""LZF, the compression of PCD files: literal runs, and copies of what came at most 8 KiB before."""


def decompress(data: bytes, size: int) -> bytes:
    """Expand to exactly ``size`` bytes, or raise; never to more, whatever the data ask for.

    >>> decompress(bytes([1, 97, 98, 0x40, 1]), 6)
    b'ababab'
    """
    out = bytearray()
    at = 0
    while at < len(data):
        control = data[at]
        at += 1
        if control < 32:  # a run of control + 1 literal bytes
            length = control + 1
            piece = data[at : at + length]
            at += length
        else:  # three bits of length, thirteen of distance; length 7 means another byte of it
            length = control >> 5
            if length == 7:
                length += data[at]
                at += 1
            distance = ((control & 31) << 8 | data[at]) + 1
            at += 1
            length += 2
            if distance > len(out):
                raise ValueError("the compressed data refer to what is before their start")
            # A copy may reach into itself: the piece that is there repeats.
            piece = out[-distance:][:length]
            piece = (piece * (length // len(piece) + 1))[:length]
        out += piece
        if len(piece) < length or len(out) > size:
            break
    if len(out) != size or at != len(data):
        raise ValueError(f"the compressed data are damaged: {size:,} bytes promised, {len(out):,} found")
    return bytes(out)
