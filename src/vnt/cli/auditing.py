"""What ``vnt audit`` does once it knows what to do: find inputs, audit, say and write what was found."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from torch import Generator, Tensor, nn

from vnt.data.batches import CloudBatch, MotionBatch
from vnt.data.sets import as_batch
from vnt.data.transforms import AXES
from vnt.equivariance.audit import audit
from vnt.equivariance.page import as_page
from vnt.equivariance.pictures import figures
from vnt.equivariance.report import AuditReport
from vnt.equivariance.sweep import EPSILONS
from vnt.evaluation.evaluate import device_of
from vnt.files import atomic_write
from vnt.geometry.symmetry import Group
from vnt.layers import VNLinear
from vnt.models.saving import load, model_folder, read_about
from vnt.training.distributed import choose_device
from vnt.training.run_folder import RunFolder
from vnt.training.task import load_split

if TYPE_CHECKING:
    from vnt.cli.audit import Options

GROUPS: dict[str, Group] = {"SO3": "SO(3)", "O3": "O(3)", "SO2": "SO(2)"}
PICTURES = ("rotations", "depth", "sweep")
RANDOM_POINTS = 1024


def carry_out(options: "Options") -> None:
    """Audit a checkpoint, print the report, write files where asked; code 1 under ``strict`` where it is not sound."""
    console = Console(stderr=True, soft_wrap=True)
    folder = model_folder(options.checkpoint)
    about = read_about(folder)
    model = load(folder).to(choose_device(options.device))
    batch, source = inputs(folder, about, options, console)
    group: Group = GROUPS.get(options.group, options.group)  # type: ignore[bad-assignment]
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)  # before the work, so that it is not lost on a bad name
    with console.status("auditing") as status:
        report = audit(
            model,
            *arguments_of(batch.to(device_of(model))),
            group=group,
            axis=AXES[about.get("up", "z")],
            num_samples=options.samples,
            num_certified=options.certified,
            epsilons=epsilons_for(model, group, options, console),
            seed=options.seed,
            progress=lambda words: status.update(escape(words)),
        )
    numbers = {"checkpoint": str(options.checkpoint), "inputs": source, "broken": report.broken, **report.to_dict()}
    as_json = json.dumps(numbers, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if options.out is not None:
        write(options.out, report, as_json, f"The model in {options.checkpoint}; inputs: {source}.")
        console.print(f"written: [bold]{escape(str(options.out / 'report.html'))}[/], audit.json and pictures")
    sys.stdout.write(as_json if options.json else f"inputs: {source}\n{report}\n")
    if options.strict and not is_sound(report):
        raise SystemExit(1)


def is_sound(report: AuditReport) -> bool:
    """Whether nothing is broken, and rounding is nowhere amplified beyond what a sound model does."""
    every = [*report.verdicts.values(), *(v for check in report.checks for v in check.verdicts.values())]
    return not report.broken and all(verdict.word != "ill-conditioned" for verdict in every)


def inputs(
    folder: Path, about: dict[str, Any], options: "Options", console: Console
) -> tuple[CloudBatch | MotionBatch, str]:
    """What to audit the model on, and that in words: its own data, or random ones where asked or where it has none."""
    why = ""
    if about.get("own_data"):
        why = "was trained on data of your own"
    elif "training" not in about:
        why = "says nothing of its training data"
    if why or options.random:
        if why and not options.random:
            console.print(f"note: {escape(str(folder))} {why}: auditing on random inputs")
        batch = random_batch(about, options)
        kind = "Gaussian clouds" if isinstance(batch, CloudBatch) else "random-walk tracks"
        return batch, f"{len(batch)} {kind}, seed {options.seed}"
    config = RunFolder(folder).config()
    try:
        split = load_split(config, options.split, options.data, may_have_moved=True)
        whole = as_batch(split, config.attributes)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} Or audit on random inputs: --random") from error
    generator = Generator().manual_seed(options.seed)
    batch = whole.rows(torch.randperm(len(whole), generator=generator)[: options.count].sort().values)
    if isinstance(batch, CloudBatch) and 0 < options.num_points < batch.points.shape[1]:
        batch = some_points(batch, options.num_points, generator)
    kind = "clouds" if isinstance(batch, CloudBatch) else "tracks"
    return batch, f"{len(batch)} {kind} of {config.dataset}, {options.split} split, seed {options.seed}"


def some_points(batch: CloudBatch, count: int, generator: Generator) -> CloudBatch:
    """A random subset of the points that exist, in each cloud. None twice: that would make ties of its own."""
    key = torch.rand(batch.points.shape[:2], generator=generator)
    if batch.mask is not None:
        key = torch.where(batch.mask, key, 2)
    return batch.take_points(key.argsort(1)[:, :count])


def random_batch(about: dict[str, Any], options: "Options") -> CloudBatch | MotionBatch:
    """Gaussian clouds of a size that the model knows, or random walks of as many steps as it was trained on."""
    model, generator = about["model"], Generator().manual_seed(options.seed)
    is_classifier = "num_classes" in model
    length = (options.num_points or RANDOM_POINTS) if is_classifier else int(about.get("past") or 11)

    def draw(*shape: int) -> Tensor:
        return torch.randn(options.count, length, *shape, generator=generator)

    x = draw(3)
    attributes = draw(model["num_attributes"]) if model.get("num_attributes") else None
    vectors = draw(model["num_vectors"], 3) if model.get("num_vectors") else None
    if not is_classifier:
        past = x.cumsum(1)
        return MotionBatch(past=past - past[:, -1:], future=x[:, :1], attributes=attributes, vectors=vectors)
    radii = about.get("radius") or (math.sqrt(3), math.sqrt(3))
    return CloudBatch(points=math.sqrt(radii[0] * radii[1] / 3) * x, attributes=attributes, vectors=vectors)


def arguments_of(batch: CloudBatch | MotionBatch) -> tuple[Tensor | None, ...]:
    """What a model is called with, as `vnt.evaluation.evaluate.forward` does."""
    first = batch.points if isinstance(batch, CloudBatch) else batch.past
    rest = () if batch.vectors is None else (batch.vectors,)
    return first, batch.attributes, batch.mask, *rest


def epsilons_for(model: nn.Module, group: Group, options: "Options", console: Console) -> tuple[float, ...]:
    """The bias norms to try: none where no layer could have such a bias, or for another group than SO(3)."""
    if not options.sweep or group != "SO(3)":
        return ()
    if not any(isinstance(layer, VNLinear) for layer in model.modules()):
        console.print("note: no sweep over ε: the model has no VN-Linear that could carry a bias")
        return ()
    return EPSILONS


def write(folder: Path, report: AuditReport, as_json: str, source: str) -> None:
    """The page, the numbers and the pictures; a picture of an earlier audit that this one lacks goes."""
    drawn = figures(report)
    _write_text(folder / "report.html", as_page(report, source).html())
    _write_text(folder / "audit.json", as_json)
    for name in PICTURES:
        if name in drawn:
            _write_picture(folder / f"{name}.png", drawn[name])
        else:
            (folder / f"{name}.png").unlink(missing_ok=True)


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _write_picture(path: Path, figure: Figure) -> None:
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=140, facecolor="white")
