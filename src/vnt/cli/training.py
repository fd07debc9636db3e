"""What ``vnt train`` does once it knows what to do: run, show, and say what came out."""

import os
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vnt.cli.printing import result_width
from vnt.cli.progress import counting
from vnt.cli.tables import evaluation_table
from vnt.data.folder import labelled_files
from vnt.data.sets import SETS
from vnt.evaluation.evaluate import EmptySetError
from vnt.files import require_library
from vnt.models.saving import read_about
from vnt.training.config import TrainConfig
from vnt.training.loop import Moment, Trained, train
from vnt.training.run_folder import RunFolder, new_run_folder
from vnt.training.runs import evaluate
from vnt.training.task import load_split

if TYPE_CHECKING:
    from vnt.cli.train import Options, Resume

Watcher = Callable[[Moment], None]
LOG_SECONDS = 60.0
"""How long a log says nothing of a run that goes on."""


def start_run(name: str, options: "Options") -> None:
    """A new run of a recipe."""
    folder = options.out or new_run_folder(Path("runs"), name)
    config = options.config
    if config.dataset not in SETS and Path(config.dataset).exists():  # so that the run can be evaluated from anywhere
        config = replace(config, dataset=str(Path(config.dataset).resolve()))
    _run(config, folder, options)


def resume_run(options: "Resume") -> None:
    """Go on with a run."""
    run = RunFolder(options.folder)
    if not run.exists:
        raise ValueError(f"{options.folder}: there is no run to resume")
    if read_about(run.path).get("own_data"):
        raise ValueError(f"{options.folder}: trained on data of your own; resume it with vnt.train(..., resume=True)")
    if run.about().get("finished"):
        raise ValueError(f"{options.folder}: this run has finished; vnt evaluate {options.folder} looks at it")
    _run(run.config(), options.folder, options, resume=True, from_step=options.from_step)


def _run(
    config: TrainConfig,
    folder: Path,
    options: "Options | Resume",
    *,
    resume: bool = False,
    from_step: int | None = None,
) -> None:
    console = Console(stderr=True, quiet=not _is_first())
    model = type(config.model).__name__.removesuffix("Config")
    console.print(f"[bold]{escape(str(folder))}[/]: {escape(config.dataset)}, {model}")
    if idle := config.without_effect():
        console.print(f"without effect, since they are not of this task: {', '.join(idle)}")
    if config.dataset not in SETS and Path(config.dataset).is_dir() and _is_first():
        _read_folder(config, console)
    with watching(console) as show, _tensorboard(folder, wanted=options.tensorboard) as log:

        def watch(moment: Moment) -> None:
            show(moment)
            log(moment)

        trained = train(
            config,
            folder,
            resume=resume,
            from_step=from_step,
            data_folder=options.data,
            watch=watch if _is_first() else None,
        )
    if not _is_first():
        return
    finish(trained, console, data=options.data, test=options.test)


def _read_folder(config: TrainConfig, console: Console) -> None:
    """Say which classes a folder of clouds has, and read it, with a bar; training then finds it in the cache.

    One process of many does not read alone: the others would wait for it to join them, and not for long.
    """
    files = labelled_files(Path(config.dataset))
    classes = [f"{name} {count}" for name, count in sorted(Counter(file.name for file in files).items())]
    sides = Counter(file.side for file in files)
    console.print(f"{escape(', '.join(classes))}; {sides['test']} of {len(files)} clouds are for testing")
    tested = {file.name for file in files if file.side == "test"}
    trained = {file.name for file in files if file.side != "test"}
    for purpose, none in (("train", tested - trained), ("test", trained - tested)):
        if none:
            console.print(f"there is nothing to {purpose} on of {escape(', '.join(sorted(none)))}")
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        with counting(console, "reading") as progress:
            load_split(config, "train", progress=progress)


def finish(trained: Trained, console: Console, *, data: Path | None, test: bool) -> None:
    """Say what came out, and look at the test split once."""
    if not trained.finished:
        console.print(f"interrupted; saved. Go on with: [bold]vnt train --resume {escape(str(trained.folder))}[/]")
        raise SystemExit(1)
    if test:
        try:
            with counting(console, "testing") as progress:
                found = evaluate(trained.folder, data_folder=data, progress=progress)
            Console(width=result_width()).print(evaluation_table(found))
        except EmptySetError:
            console.print("not tested: the test split is empty")
    console.print(f"done: [bold]{escape(str(trained.folder))}[/]")


@contextmanager
def watching(console: Console) -> Generator[Watcher]:
    """A bar with the loss and the time left, and a line for each look at the validation split.

    In a file there is no bar: a line is written there whenever nothing was for `LOG_SECONDS`.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("training", total=None, loss=float("nan"))
    said = time.monotonic()
    begun: tuple[int, float] | None = None  # step and time of the first moment of a run

    def watch(moment: Moment) -> None:
        nonlocal said, begun
        progress.start()  # not before there is something to show: an error that comes first is one line
        about = f"epoch {moment.epoch + 1}"
        if moment.step < progress.tasks[task].completed:  # another run has begun
            progress.reset(task)
            begun = None
        begun = (moment.step, time.monotonic()) if begun is None else begun
        progress.update(task, completed=moment.step, total=moment.num_steps, loss=moment.loss, description=about)
        if moment.metrics is not None:
            progress.console.print(metrics_line(moment.metrics))
        elif not console.is_terminal and time.monotonic() - said >= LOG_SECONDS:
            console.print(f"epoch {moment.epoch + 1:4d}  loss {moment.loss:.4f}  {_how_far(moment, *begun)}")
        else:
            return
        said = time.monotonic()

    try:
        yield watch
    finally:
        if progress.live.is_started:
            progress.stop()


def _how_far(moment: Moment, first: int, since: float) -> str:
    """Steps done, and the time that the others will take if they go on as they did since the first that was seen."""
    steps = f"step {moment.step:,} of {moment.num_steps:,}"
    if moment.step == first:
        return steps
    seconds = (time.monotonic() - since) / (moment.step - first) * (moment.num_steps - moment.step)
    return f"{steps}, {timedelta(seconds=round(seconds))} left"


def metrics_line(metrics: dict) -> str:
    """One epoch in words."""
    shown = {"val_accuracy": "accuracy {:.1%}", "val_ade": "ADE {:.3f} m", "val_fde": "FDE {:.3f} m"}
    values = [text.format(metrics[name]) for name, text in shown.items() if name in metrics]
    return f"epoch {metrics['epoch']:4d}  loss {metrics['loss']:.4f}  validation {', '.join(values)}"


@contextmanager
def _tensorboard(folder: Path, *, wanted: bool) -> Generator[Watcher]:
    if not (wanted and _is_first()):
        yield lambda moment: None
        return
    require_library("tensorboard", "--tensorboard", "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder / "tensorboard")) as writer:

        def log(moment: Moment) -> None:
            writer.add_scalar("train/loss", moment.loss, moment.step, walltime=time.time())
            for name, value in (moment.metrics or {}).items():
                writer.add_scalar(name.replace("val_", "val/"), value, moment.step)

        yield log


def _is_first() -> bool:
    """Under torchrun only process 0 talks."""
    return os.environ.get("RANK", "0") == "0"
