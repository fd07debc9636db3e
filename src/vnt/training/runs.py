"""Trained runs: evaluate one, list and compare many."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from vnt.data.cloud_set import CloudSet, Split
from vnt.data.motion_set import MotionSet
from vnt.data.sets import as_batch
from vnt.data.transforms import Protocol
from vnt.evaluation.protocols import PROTOCOLS, Evaluation, evaluate_model
from vnt.models.saving import PRETRAINED, load, model_folder, read_about
from vnt.training.distributed import choose_device
from vnt.training.run_folder import RunFolder, find_runs
from vnt.training.task import load_split


def evaluate(
    folder: Path | str,
    *,
    split: Split = "test",
    protocols: tuple[Protocol, ...] = PROTOCOLS,
    num_points: int = 0,
    device: str = "auto",
    data_folder: Path | None = None,
    others: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """The model of a run on a split of the data it was trained on, under each test rotation.

    Results on the test split are kept in the run's ``run.json``, those of some points only as "I/SO3@256". Look at it
    once, at the end.

    Args:
        folder: of the run.
        split: "test", or "val" while you are still choosing.
        protocols: test rotations.
        num_points: a fixed random subset of each cloud; 0 takes all points.
        device: "auto" takes a GPU where there is one.
        data_folder: where data sets are (else ``VNT_DATA``, else ``./data``).
        others: clouds or windows of one's own to look at instead, of the same classes, or the same steps. Their results
            are not kept, unless they are those of training, moved.
        progress: called with (items done, items in all), each rotation counted by itself.
    """
    run = RunFolder(model_folder(folder))
    about, config = read_about(run.path), run.config()
    if about.get("own_data"):
        raise ValueError(f"{run.path}: trained on data of your own: call vnt.evaluation.protocols.evaluate_model")
    if not protocols:
        raise ValueError("evaluate needs at least one test rotation: I, z, SO3")
    model = load(run.path)
    asked = config if others is None else replace(config, dataset=str(Path(others).absolute()))
    test = load_split(asked, split, data_folder, may_have_moved=True)
    _require_fit(test, about, f"{run.path}: trained", asked.dataset)
    found = evaluate_model(
        model,
        as_batch(test, config.attributes),
        trained=config.rotation,
        protocols=protocols,
        up=about.get("up", "z"),
        num_points=num_points,
        class_names=tuple(about.get("class_names", ())),
        device=choose_device(device),
        progress=progress,
    )
    are_its_own = others is None or _are_moved(Path(config.dataset), Path(others))
    if split == "test" and are_its_own and not run.path.is_relative_to(PRETRAINED):
        drawn = num_points if isinstance(test, CloudSet) else 0
        of_so_many = f"@{drawn}" if drawn else ""  # beside what whole clouds gave, not in its place
        noted = {name + of_so_many: numbers | {"num_points": drawn} for name, numbers in found.summary().items()}
        try:
            run.note({"test": run.about().get("test", {}) | noted})
        except OSError as error:
            warnings.warn(f"{run.path}: the result could not be kept ({error})", stacklevel=2)
    return found


def _require_fit(test: CloudSet | MotionSet, about: dict[str, Any], trained: str, name: str) -> None:
    """The classes, or the steps, must be those of training."""
    if isinstance(test, CloudSet):
        if test.class_names != tuple(about["class_names"]):
            theirs, now = (", ".join(names) for names in (about["class_names"], test.class_names))
            raise ValueError(f"{trained} to tell {theirs}; the classes of {name} are now {now}")
        return
    now = (test.past.shape[1], test.future.shape[1], test.dt)
    then = (about.get("past") or now[0], about["model"]["num_future"], about.get("dt") or now[2])
    if now[:2] != then[:2] or abs(now[2] - then[2]) > 0.01 * then[2]:
        steps = [f"{past} + {future} steps of {dt:g} s" for past, future, dt in (then, now)]
        raise ValueError(f"{trained} on windows of {steps[0]}; those of {name} have {steps[1]}")


def _are_moved(then: Path, now: Path) -> bool:
    """Whether one's own data are those of training in another place: of the same name, and gone from where they lay."""
    return now.resolve() == then.resolve() or (now.name == then.name and not then.exists())


def summarize(root: Path | str) -> list[dict[str, Any]]:
    """One line for each run below a folder: what it was, how far it came, and its last numbers."""
    lines: list[dict[str, Any]] = []
    for run in find_runs(Path(root)):
        name = str(run.path.relative_to(root))
        try:
            config, about, metrics = run.config(), run.about(), run.metrics()
            is_own = bool(read_about(run.path).get("own_data"))
        except (ValueError, OSError) as error:
            lines.append({"run": name, "state": str(error)})
            continue
        last = metrics[-1] if metrics else {}
        lines.append(
            {
                "run": name,
                "data": "your own" if is_own else config.dataset,
                "model": type(config.model).__name__.removesuffix("Config"),
                "rotation": config.rotation,
                "epoch": f"{last.get('epoch', 0)}/{config.epochs}",
                "loss": last.get("loss"),
                "val": last.get("val_accuracy", last.get("val_ade")),
                "test": {
                    name: found.get("accuracy", found.get("ade"))
                    for name, found in about.get("test", {}).items()
                    if not found.get("num_points")
                },
                "seconds": about.get("seconds", last.get("seconds")),
                "state": _state(run, about),
            }
        )
    return lines


def _state(run: RunFolder, about: dict[str, Any]) -> str:
    if run.is_training():
        return "running"
    return "finished" if about.get("finished") else "diverged" if about.get("diverged") else "stopped"


def differences(first: Path | str, second: Path | str) -> dict[str, tuple[Any, Any]]:
    """The settings, and the results, in which two runs differ: name -> (in the first, in the second)."""
    runs = [RunFolder(Path(path)) for path in (first, second)]
    one, two = (_flat(run.config().to_dict()) | _results(run) for run in runs)
    return {key: (one.get(key), two.get(key)) for key in {**one, **two} if one.get(key) != two.get(key)}


def _results(run: RunFolder) -> dict[str, Any]:
    last = (run.metrics() or [{}])[-1]
    found = {"validation": last.get("val_accuracy", last.get("val_ade"))}
    tests = run.about().get("test", {}).items()
    return found | {f"test {name}": numbers.get("accuracy", numbers.get("ade")) for name, numbers in tests}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
