"""Feed a reader thousands of damaged files, in a process of its own with limits on time and memory.

Each read must end in a value or in a ``ValueError`` that names the file: never in another exception, a crash, five
seconds, or a gibibyte. `assert_survives` is what tests call; the rest runs in the child, which does without torch.
"""

import faulthandler
import importlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SECONDS = 5
BYTES = 2**30
ABSURD = [0, 1, 0x7F, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
WORDS = [
    b"nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"-1",
    b"99999999999",
    b"4294967295",
    b"0",
    b"",
    b"\x00",
    b"big",
    b"\xff\xfe",
]


def assert_survives(reader: str, samples: list[Path], *, count: int = 2000, seed: int = 0) -> dict[str, int]:
    """Run ``reader`` ("module:function" of a path) on ``count`` mutations of the samples; returns how many it read.

    The samples must themselves be readable, so that a reader which refuses everything cannot pass.
    """
    command = [sys.executable, __file__, reader, str(count), str(seed), *map(str, samples)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert child.returncode == 0, (
        f"{reader} died with {child.returncode}:\n{child.stdout[-2000:]}\n{child.stderr[-4000:]}"
    )
    result = json.loads(child.stdout.splitlines()[-1])
    assert result["read"] + result["refused"] == count
    assert result["refused"] > count // 100, result
    assert result["memory"] < BYTES, result
    return result


def mutations(originals: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Truncations, flipped bits, absurd numbers, swapped endianness, broken words, repeated and missing pieces."""
    rng = random.Random(seed)
    yield b""
    for step in range(count - 1):
        data = bytearray(originals[step % len(originals)])
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            if not data:
                break
            # Half of the damage goes where headers are.
            at = rng.randrange(min(len(data), 512) if rng.random() < 0.5 else len(data))
            match rng.randrange(9):
                case 0:
                    del data[at:]
                case 1:
                    data[at] ^= 1 << rng.randrange(8)
                case 2:
                    data[at] = rng.randrange(256)
                case 3:
                    width = rng.choice([1, 2, 4, 8])
                    value = rng.choice(ABSURD) % 256**width
                    data[at : at + width] = value.to_bytes(width, rng.choice(["little", "big"]))
                case 4:
                    width = rng.choice([2, 4, 8])
                    data[at : at + width] = data[at : at + width][::-1]
                case 5:
                    end = at
                    while end < len(data) and data[end : end + 1].isalnum():
                        end += 1
                    data[at:end] = rng.choice(WORDS)
                case 6:
                    length = rng.choice([1, 7, 64, 1000])
                    del data[at : at + length]
                case 7:
                    length = rng.choice([1, 7, 64])
                    data[at:at] = data[at : at + length]
                case 8:
                    data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 16])))
        yield bytes(data)


def main() -> None:
    """The child: prints one line of JSON, or dies."""
    reader, count, seed, *samples = sys.argv[1:]
    # Run as a script, this folder leads the path: readers may be here, too.
    module, name = reader.split(":")
    read = getattr(importlib.import_module(module), name)
    originals = [Path(sample).read_bytes() for sample in samples]
    suffixes = [Path(sample).suffix for sample in samples]
    for sample in samples:
        read(Path(sample))
    before = _peak_memory()
    outcomes = {"read": 0, "refused": 0}
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        for step, data in enumerate(mutations(originals, int(count), int(seed))):
            # Mutation number step + 1 comes from original number step: the empty file is mutation 0.
            path = Path(folder) / f"mutated{suffixes[max(step - 1, 0) % len(suffixes)]}"
            path.write_bytes(data)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                read(path)
                outcomes["read"] += 1
            except ValueError as error:
                if path.name not in str(error):
                    raise AssertionError(f"{error!r} does not name the file") from error
                outcomes["refused"] += 1
            except BaseException:
                Path("/tmp/vnt-fuzz-failure" + path.suffix).write_bytes(data)
                raise
            faulthandler.cancel_dump_traceback_later()
    print(json.dumps(outcomes | {"memory": _peak_memory() - before}))  # noqa: T201


def _peak_memory() -> int:
    """The most bytes this process has held. (``getrusage`` would count its parent's from before it became a child.)"""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
