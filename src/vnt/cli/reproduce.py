"""``vnt reproduce table1``: the paper's tables and figures, trained here, beside what was published."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT
from vnt.cli.printing import result_width

NAMES = ("table1", "table2", "table3", "table4", "table5", "fig6", "fig7", "fig8", "fig9", "fig10")
Name = Literal["table1", "table2", "table3", "table4", "table5", "fig6", "fig7", "fig8", "fig9", "fig10", "all"]


@dataclass(frozen=True)
class Options:
    """Train what a table or a figure of the paper needs, and write a page with the published numbers beside ours.

    Stopped, the same command goes on where it was. Most of it wants a GPU and ModelNet40 or Waymo Open Motion (see
    `vnt data list`); --smoke runs all of it small, on built-in data.

    For example: vnt reproduce table3 --list, and then vnt reproduce table3 --rows vn_0 transformer_z --seeds 0 1 2
    """

    names: Positional[tuple[Name, ...]]
    """Which."""
    show_rows: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Show the rows of a table by name, and what has been run of them, and train nothing."""
    smoke: bool = False
    """Small models on built-in data: minutes on a CPU, to see that everything runs."""
    rows: tuple[str, ...] = ()
    """Rows by name, of one table; all by default, but those that are quoted and take long."""
    rotations: tuple[Literal["I", "z", "SO3"], ...] = ()
    """Of the training data, in tables that have several; all of them by default."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """A run for each; the page shows the mean and the standard deviation. A smoke test takes the first alone."""
    split: Literal["test", "val"] = "test"
    """Which split is scored: "val" while you are still choosing."""
    out: Annotated[Path, OUT] = Path("runs/reproduce")
    """Folder of the pages and runs. What has finished there is not trained again."""
    data: Path | None = None
    """Folder that holds the data sets (else VNT_DATA, else ./data)."""
    device: str = "auto"
    """Where to compute; "auto" takes a GPU where there is one."""

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError(f"name a table or a figure: {', '.join(NAMES)}, or all")
        if not self.seeds:
            raise ValueError("name at least one seed")
        if self.rows and (len(self.names) > 1 or self.names == ("all",)):
            raise ValueError("--rows goes with one table")


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt reproduce ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt reproduce")
    from rich.console import Console

    folder = options.out / "smoke" if options.smoke else options.out
    names = NAMES if "all" in options.names else tuple(dict.fromkeys(options.names))
    if options.show_rows:
        for name in names:
            _list(name, folder, is_smoke=options.smoke)
        return
    from vnt.cli.training import watching
    from vnt.reproduction.reproduce import Reproduction
    from vnt.reproduction.running import Settings

    console = Console(stderr=True)
    seeds = options.seeds[:1] if options.smoke else options.seeds
    settings = Settings(folder, seeds, options.split, options.device, options.data, options.rotations)
    for name in names:
        with watching(console) as watch:
            say = lambda words: console.print(words, markup=False)  # noqa: E731
            text = Reproduction(settings, options.rows, options.smoke, say, watch).page(name)
        sys.stdout.write(f"{text}\n{folder / f'{name}.html'}\n\n")


def _list(name: str, folder: Path, *, is_smoke: bool) -> None:
    """The rows of a table, and what has been run of them."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from vnt.reproduction.catalogue import EXPERIMENTS, effort, needs, runs_of
    from vnt.reproduction.smoke import smoke

    console = Console(width=result_width())
    if name not in EXPERIMENTS:
        console.print(f"[bold]{name}[/] has no rows to choose among\n")
        return
    experiment = smoke(EXPERIMENTS[name]()) if is_smoke else EXPERIMENTS[name]()
    table = Table("row", "what", "published", "trained", "after", "run", box=None, header_style="bold", pad_edge=False)
    for row in experiment.rows:
        published = "" if row.published is None else f"{row.published:.1%}"
        if experiment.score == "ade" and row.published is not None:
            published = f"{row.published:.2f} m"
        runs = ", ".join(runs_of(experiment, row, folder))
        table.add_row(row.name, escape(row.title), published, effort(row), needs(row), runs)
    console.print(f"[bold]{escape(experiment.title)}[/]")
    console.print(table, "")
