"""``vnt bench`` where the command line's own packages are not: ``python -m vnt.bench NAME ...``."""

import argparse
import os
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler that counts memory is talkative

import torch

from vnt.bench.comparisons import COMPARISONS, Settings, carry_out


def main() -> None:
    """Run the comparisons and print them as Markdown."""
    parser = argparse.ArgumentParser(prog="vnt.bench", description="speed, memory, exactness and data, as tables")
    parser.add_argument("names", nargs="+", choices=list(COMPARISONS), help="which comparisons")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which each contender runs once (%(default)s)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where to run (%(default)s)")
    parser.add_argument("--output", type=Path, help="folder for a page of each, and for records and pictures")
    arguments = parser.parse_args()
    settings = Settings(torch.device(arguments.device), arguments.rounds)
    carry_out(arguments.names, settings, arguments.output, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
