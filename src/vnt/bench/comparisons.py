"""Every comparison by name, and what it leaves behind: a page, and for the scaling one a record and a picture."""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

from vnt.bench import attention_cost, audit, data, encoder, exactness, inference, large, loop, ragged, scaling, step
from vnt.bench.timing import describe_machine
from vnt.files import atomic_write


@dataclass(frozen=True)
class Settings:
    """What all comparisons may be told: where to run, how many rounds, and the sizes of the scaling comparison."""

    device: torch.device
    rounds: int = 15
    points: tuple[int, ...] = scaling.POINTS


def _scaling(settings: Settings, folder: Path | None) -> str:
    ceilings, rows = scaling.measure(settings.device, settings.points, settings.rounds)
    absolute = settings.device.type == "cuda"
    if folder is not None:
        record = scaling.record(ceilings, rows, describe_machine(settings.device), absolute=absolute)
        with atomic_write(folder / f"scaling-{settings.device.type}.json") as path:
            path.write_text(json.dumps(record, indent=1) + "\n")
        if importlib.util.find_spec("matplotlib") is not None:
            draw(folder / f"scaling-{settings.device.type}.json")
    return scaling.table(ceilings, rows, absolute=absolute)


COMPARISONS: dict[str, Callable[[Settings, Path | None], str]] = {
    "encoder": lambda settings, _: encoder.compare(settings.rounds),
    "scaling": _scaling,
    "step": lambda settings, _: step.table(),
    "loop": lambda settings, _: loop.table(settings.device, max(1, settings.rounds // 3)),
    "large": lambda settings, _: large.table(settings.device, rounds=max(1, settings.rounds // 3)),
    "ragged": lambda settings, _: ragged.table(settings.device, settings.rounds),
    "attention": lambda settings, _: attention_cost.table(settings.device, settings.rounds),
    "inference": lambda settings, _: inference.table(settings.rounds),
    "exactness": lambda settings, _: exactness.table(),
    "audit": lambda settings, _: audit.table(),
    "data": lambda settings, _: data.table(str(settings.device)),
}


ON_CPU, ON_GPU = ("encoder", "inference", "exactness", "audit"), ("step",)
"""Comparisons that run there, whatever the device."""


def carry_out(names: list[str], settings: Settings, folder: Path | None, say: Callable[[str], None]) -> None:
    """Run the comparisons one after the other; each is printed, and written to ``folder`` where one is given."""
    for name in names:
        device = torch.device("cpu") if name in ON_CPU else settings.device
        if name in ON_GPU and device.type != "cuda":
            say(f"\n## {name}\n\nneeds a CUDA device, and was left out")
            continue
        machine = f"{describe_machine(device)}, {date.today():%d %B %Y}, seed 0"
        say(f"\n## {name}\n\n{machine}\n")
        text = COMPARISONS[name](settings, folder)
        say(text)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            kind = device.type
            page = f"# {name.capitalize()}\n\n`vnt bench {name} --device {kind}`; {machine}.\n\n{text}\n"
            with atomic_write(folder / f"{name}-{kind}.md") as path:
                path.write_text(page, encoding="utf-8")


def draw(record: Path) -> Path:
    """The picture of a scaling record, beside it."""
    from vnt.bench.picture import scaling_picture

    picture = record.with_suffix(".png")
    content = json.loads(record.read_text())
    if not isinstance(content, dict) or not content.get("rows") or "absolute" not in content:
        raise ValueError(f"{record}: not the record of a scaling comparison")
    scaling_picture(content, picture)
    return picture
