"""What an audit found, as data: printed, written as JSON, or drawn as a page."""

from dataclasses import dataclass, field
from typing import Any

from vnt.equivariance.certificate import Certificate
from vnt.equivariance.first_order import FirstOrderLaw
from vnt.equivariance.subject import Precision
from vnt.equivariance.sweep import SweepPoint
from vnt.equivariance.tracing import Step
from vnt.equivariance.verdicts import Verdict
from vnt.equivariance.violation import Violation
from vnt.geometry.symmetry import Group


@dataclass(frozen=True)
class BiasBound:
    """What one bias costs, per token: the exact worst case over rotations, and the paper's bound."""

    layer: str
    epsilon: float
    exact: float
    paper: float


@dataclass(frozen=True)
class Check:
    """Another symmetry: the worst relative violation in each precision, and what it means."""

    name: str
    worst: dict[Precision, float]
    verdicts: dict[Precision, Verdict]


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What an audit found. Print it, or write `html` to a file.

    Attributes:
        name, parameters, shapes, mode: of what was audited.
        violations: in each precision, under the group asked for.
        verdicts: a word for each of them, with the evidence.
        unexplained: in float64, the violation that is left once the biases turn with the input; None without biases.
        checks: other symmetries, and whether an item alone gives what it gives in a batch.
        law: the first-order law of the biases, in float64.
        biases: what each bias costs at the layer where it is.
        certificate: what no rotation exceeds, at the worst items; ``no_certificate`` says why there is none.
        steps: where the violation arises, module by module, in float64 and float32.
        advice: in words.
        fault: where a broken model breaks, in words.
        sweep: what other ε would cost.
        notes: what could not be measured, and why.
    """

    name: str
    parameters: int
    shapes: tuple[tuple[int, ...], ...]
    mode: str
    group: Group
    violations: dict[Precision, Violation]
    verdicts: dict[Precision, Verdict]
    unexplained: float | None = None
    checks: list[Check] = field(default_factory=list)
    law: FirstOrderLaw | None = None
    biases: list[BiasBound] = field(default_factory=list)
    certificate: Certificate | None = None
    no_certificate: str = ""
    steps: dict[Precision, list[Step]] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)
    fault: str = ""
    sweep: list[SweepPoint] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def broken(self) -> bool:
        """Whether any symmetry that was checked is broken in any precision."""
        every = [*self.verdicts.values(), *(v for check in self.checks for v in check.verdicts.values())]
        return any(verdict.word == "broken" for verdict in every)

    def __str__(self) -> str:
        from vnt.equivariance.text import as_text

        return as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, ready for JSON."""
        from vnt.equivariance.text import as_dict

        return as_dict(self)

    def html(self) -> str:
        """One self-contained page with tables and pictures."""
        from vnt.equivariance.page import as_page

        return as_page(self).html()
