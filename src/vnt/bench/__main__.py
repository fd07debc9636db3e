"""The comparisons without the command line's own packages: ``python -m vnt.bench NAME ...``, else ``vnt bench``."""

import argparse
import os
from pathlib import Path

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler that counts memory is talkative

import torch

from vnt.bench.comparisons import COMPARISONS, Settings, carry_out


def main() -> None:
    """Run the comparisons and print them as Markdown."""
    parser = argparse.ArgumentParser(prog="vnt.bench", description="speed, memory, exactness and data, as tables")
    parser.add_argument("names", nargs="*", choices=[*COMPARISONS, []], help="which comparisons (all)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in which each contender runs once (%(default)s)")
    parser.add_argument("--device", default="cpu", help="where to run (%(default)s)")
    parser.add_argument("--output", type=Path, help="folder for a page of each, and for records and pictures")
    arguments = parser.parse_args()
    settings = Settings(torch.device(arguments.device), arguments.rounds)
    carry_out(arguments.names or list(COMPARISONS), settings, arguments.output, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
