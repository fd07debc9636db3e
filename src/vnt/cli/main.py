"""``vnt COMMAND``: finds the command and turns what goes wrong into one line.

Only this file is imported before the command is known, so that ``vnt --help`` answers at once.
"""

import os
import sys
import traceback
from importlib import import_module

from vnt.spelling import suggest
from vnt.version import __version__

COMMANDS = {
    "data": "list, inspect, convert and preview data sets and files",
    "demo": "five minutes on a CPU: turn the test data and see which model cares",
    "train": "train a model by a recipe, with overrides; resume a run",
    "evaluate": "accuracy or forecasting errors of a run, turned and not turned",
    "predict": "classes of clouds, futures of tracks, for your own files",
    "compare": "models side by side, trained on a budget: turned, counted, timed, audited",
    "reproduce": "every table and figure of the paper, beside what was published",
    "audit": "how equivariant a trained model is: measured, bounded, explained",
    "import": "weights of other programs, where their mathematics agrees with ours",
    "view": "a page in the browser: turn a cloud or a track by hand and watch the models answer",
    "export": "a trained model as ONNX or torch.export file, checked before it is written",
    "bench": "how fast it is on this machine, beside others",
    "runs": "list runs, compare two of them",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; returns the exit code.

    0 done, 1 interrupted, or not all of it could be done, 2 something was wrong with what was asked.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or bool(os.environ.get("VNT_DEBUG"))
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_help())
        return 0
    if words[0] == "--version":
        sys.stdout.write(f"vnt {__version__}\n")
        return 0
    command, *rest = words
    try:
        if command not in COMMANDS:
            raise ValueError(f"no command {command!r}; {suggest(command, COMMANDS)}")
        module = "importing" if command == "import" else command  # the word is Python's own
        code = import_module(f"vnt.cli.{module}").run(rest)
    except KeyboardInterrupt:
        sys.stderr.write("\nvnt: interrupted\n")
        return 1
    except BrokenPipeError:  # `vnt ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ModuleNotFoundError, RuntimeError, MemoryError) as error:
        is_memory = isinstance(error, MemoryError) or "memory" in str(error)
        if isinstance(error, RuntimeError) and not is_memory:
            raise  # a mistake of ours: show where
        if debug:
            traceback.print_exc()
        advice = ": lower batch_size, num_points or the size of the model" if is_memory else ""
        sys.stderr.write(f"vnt: {' '.join(str(error).split())[:2000]}{advice}\n")
        return 2
    return code or 0


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    return (
        "vnt: rotation-equivariant transformers on point clouds and trajectories\n\n"
        "usage: vnt COMMAND ...    (vnt COMMAND --help says more)\n\n"
        + "\n".join(lines)
        + "\n\n  --version  the version of vnt\n  --debug    with any command: show where an error came from\n"
    )
