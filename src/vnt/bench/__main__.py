"""Print every comparison: ``python -m vnt.bench``."""

import argparse
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler that counts memory is talkative

from vnt.bench import audit, data, encoder, exactness, loop, step
from vnt.bench.timing import describe_machine


def main() -> None:
    """Run the comparisons and print them as Markdown."""
    parser = argparse.ArgumentParser(prog="vnt.bench", description="speed, memory, exactness and data, as tables")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which each contender runs once (%(default)s)")
    parser.add_argument(
        "--only", choices=["encoder", "exactness", "audit", "data", "loop", "step"], help="one of the comparisons (all)"
    )
    parser.add_argument("--device", default="cpu", help="where the data comparison runs (%(default)s)")
    arguments = parser.parse_args()
    comparisons = {
        "data": lambda: data.table(arguments.device),
        "encoder": lambda: encoder.compare(arguments.rounds),
        "exactness": exactness.table,
        "audit": audit.table,
        "loop": loop.table,
        "step": step.table,
    }
    print(describe_machine(), flush=True)
    for name, compare in comparisons.items():
        if arguments.only in (None, name):
            print(compare(), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
