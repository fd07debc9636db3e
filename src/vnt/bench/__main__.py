"""Print every comparison: ``python -m vnt.bench``."""

import argparse
import os

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler that counts memory is talkative

from vnt.bench import encoder, exactness
from vnt.bench.timing import describe_machine


def main() -> None:
    """Run the comparisons and print them as Markdown."""
    parser = argparse.ArgumentParser(prog="vnt.bench", description="speed, memory and exactness, as tables")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which each contender runs once (%(default)s)")
    arguments = parser.parse_args()
    print(describe_machine(), flush=True)
    print(encoder.compare(arguments.rounds), end="\n\n", flush=True)
    print(exactness.table())


if __name__ == "__main__":
    main()
