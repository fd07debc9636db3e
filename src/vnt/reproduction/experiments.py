"""What an experiment of the paper is: rows that are trained here, beside the numbers that were published. No torch."""

from dataclasses import dataclass, replace

from vnt.training.config import Rotation, TrainConfig


@dataclass(frozen=True)
class Teacher:
    """The runs that a row learns from, under its own rotation.

    Attributes:
        row: how they are trained.
        seeds: one run for each.
        hold_out: without the validation split. What a teacher says of what it has learned by heart is the label, so
            that of classes it should not know all.
    """

    row: "Row"
    seeds: tuple[int, ...] = (0,)
    hold_out: bool = True


@dataclass(frozen=True)
class Row:
    """One line of a table, or one point of a curve.

    Attributes:
        name: of its runs' folders.
        title: as it is printed.
        config: how it is trained; None where it is only quoted.
        published: accuracy as a share, or average displacement error in metres; None where the paper has no number.
        optional: it is quoted, and trained only when it is asked for by name: it takes long.
        teacher: the runs that it learns from.
        start: the row whose run, under the same rotation and with the same seed, it goes on from.
        parts: shape and evidence, two rows whose runs, with the same seed, are put together; nothing else is trained.
    """

    name: str
    title: str
    config: TrainConfig | None
    published: float | None = None
    optional: bool = False
    teacher: Teacher | None = None
    start: "Row | None" = None
    parts: "tuple[Row, Row] | None" = None


@dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Attributes:
        name: what `vnt reproduce` calls it.
        title: what the paper calls it.
        about: what to look at, in a sentence or two.
        rows: what is trained.
        rotations: of the training data; each row is trained under each. None leaves it to the row's config.
        against: for a curve, what its rows differ in.
        chooses: whether rows are there to be chosen among, and so must not see the test split.
    """

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]
    rotations: tuple[Rotation, ...] | None = None
    against: str | None = None
    chooses: bool = False

    @property
    def score(self) -> str:
        """What is measured: "accuracy" or "ade"."""
        return "accuracy" if self._configs()[0].task == "classify" else "ade"

    def _configs(self) -> list[TrainConfig]:
        return [row.config for row in self.rows if row.config is not None]

    def only(self, names: tuple[str, ...]) -> "Experiment":
        """With the rows of these names alone; by default with those that are not optional trained, the others quoted.

        >>> from vnt.reproduction.classification import table1
        >>> [row.name for row in table1().only(("vn_dgcnn",)).rows]
        ['vn_dgcnn']
        """
        unknown = set(names) - {row.name for row in self.rows}
        if unknown:
            known = ", ".join(row.name for row in self.rows)
            raise ValueError(f"{self.name} has no row {', '.join(sorted(unknown))}; it has {known}")
        if names:
            return replace(self, rows=tuple(row for row in self.rows if row.name in names))
        return replace(self, rows=tuple(replace(row, config=None) if row.optional else row for row in self.rows))
