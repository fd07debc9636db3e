"""From a name to a page: every table and figure of the paper."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from vnt.bench import attention_cost
from vnt.bench.timing import describe_machine
from vnt.reproduction import figures, pages
from vnt.reproduction.catalogue import EXPERIMENTS
from vnt.reproduction.classification import table2
from vnt.reproduction.experiments import Experiment
from vnt.reproduction.forecasting import table3
from vnt.reproduction.running import Outcome, Settings, carry_out
from vnt.reproduction.smoke import shrink, smoke
from vnt.training.distributed import choose_device
from vnt.training.loop import Moment
from vnt.training.recipes import recipe


@dataclass(frozen=True)
class Reproduction:
    """How everything is reproduced.

    Attributes:
        settings: of the runs.
        rows: names of rows, all that are not optional by default.
        is_smoke: small models on built-in data.
        say, watch: hear what begins, and how training goes on.
    """

    settings: Settings
    rows: tuple[str, ...] = ()
    is_smoke: bool = False
    say: Callable[[str], None] = lambda words: None
    watch: Callable[[Moment], None] | None = None

    def page(self, name: str) -> str:
        """Run what there is to run for a table or a figure, write its page, and return it as Markdown."""
        if name in EXPERIMENTS:
            return self._experiment(EXPERIMENTS[name]())
        return {"table4": self._table4, "fig6": self._fig6, "fig9": self._fig9, "fig10": self._fig10}[name]()

    def _experiment(self, experiment: Experiment) -> str:
        experiment = self._prepared(experiment.only(self.rows))
        outcomes = self._outcomes(experiment)
        drawn = figures.curve(experiment, outcomes) if experiment.against else None
        return pages.write(
            self.settings.folder,
            experiment.name,
            experiment.title + self._mark(),
            experiment.about,
            lines=pages.table(experiment, outcomes),
            notes=self._notes(experiment, outcomes),
            pictures=() if drawn is None else (drawn,),
            record=pages.record(experiment, outcomes),
        )

    def _prepared(self, experiment: Experiment) -> Experiment:
        return smoke(experiment) if self.is_smoke else experiment

    def _outcomes(self, experiment: Experiment) -> list[Outcome]:
        return carry_out(experiment, self.settings, say=self.say, watch=self.watch)

    def _notes(self, experiment: Experiment, outcomes: list[Outcome]) -> tuple[str, ...]:
        machines = ", ".join(dict.fromkeys(o.machine for o in outcomes if o.machine))
        split = "validation" if experiment.chooses or self.settings.split == "val" else "test"
        seeds = ", ".join(map(str, self.settings.seeds))
        how = f"The {split} split, last epoch, one pass, no voting; seeds {seeds}; {machines}. Minutes are of training."
        return (how, "Violation: the largest relative change of the output under a rotation, in float32.")

    def _mark(self) -> str:
        return " (smoke test: small models on built-in data)" if self.is_smoke else ""

    def _table4(self) -> str:
        device = choose_device(self.settings.device)
        self.say("table4: attention of both kinds, timed")
        text = attention_cost.table(device, 3 if self.is_smoke else 15)
        title = "Table 4: VN attention beside the SE(3)-Transformer's, with what both cost"
        return pages.write(self.settings.folder, "table4", title, f"{describe_machine(device)}.", notes=(text,))

    def _fig6(self) -> str:
        config = recipe("modelnet40_polka_dot")
        config = shrink(config) if self.is_smoke else config
        picture = figures.polka_dots(config, self.settings.data_folder)
        return self._picture("fig6", "Figure 6: polka dots", picture)

    def _fig9(self) -> str:
        experiment = self._prepared(table3().only(("transformer", "transformer_z", "vn_0")))
        titles = {row.name: row.title for row in experiment.rows}
        first = self.settings.seeds[:1]
        outcomes = replace(self, settings=replace(self.settings, seeds=first))._outcomes(experiment)
        chosen = {titles[o.row]: o for o in outcomes if o.scores}
        if not chosen:
            raise ValueError("every run of Figure 9 diverged")
        picture = figures.forecasts(chosen, self.settings.data_folder)
        return self._picture("fig9", "Figure 9: forecasts in a rotated frame", picture)

    def _fig10(self) -> str:
        first = replace(self.settings, seeds=self.settings.seeds[:1])
        outcomes = replace(self, settings=first)._outcomes(self._prepared(table2().only(("plain_eps",))))
        if outcomes[0].scores is None:
            raise ValueError(f"{outcomes[0].folder}: {outcomes[0].diverged}")
        picture = figures.depth(outcomes[0], self.settings.data_folder)
        return self._picture("fig10", "Figure 10: the violation through depth", picture)

    def _picture(self, name: str, title: str, picture: pages.Picture) -> str:
        return pages.write(self.settings.folder, name, title + self._mark(), picture[2], pictures=(picture,))
