"""An audit as one page to look at: every table whole, the pictures, and what the words mean."""

import math

from matplotlib.figure import Figure

from vnt.equivariance.pictures import figures
from vnt.equivariance.report import AuditReport
from vnt.equivariance.rotation_pictures import describe_rotation
from vnt.equivariance.sweep import MOST_TOKENS
from vnt.equivariance.text import layer_rows, worst_rows
from vnt.equivariance.verdicts import EXACT, TOLERABLE, Word
from vnt.evaluation.report import Page

MEANINGS: dict[Word, str] = {
    "exact": f"at most {EXACT:.0e}: nothing is left but the last digits of float64.",
    "rounding": (
        f"float64 is exact or has far less, and this precision stays below {TOLERABLE['float32']:.0e} (float32) or "
        f"{TOLERABLE['bfloat16']:.0e} (bfloat16): the symmetry holds, the arithmetic is coarse."
    ),
    "ε-bias": "it goes away when the biases turn with the input: what ε > 0 was chosen to cost, and nothing else.",
    "ill-conditioned": (
        "rounding that the model amplifies beyond what a sound one does; the table of layers says where. The formula "
        "is equivariant, but in this precision the numbers are not."
    ),
    "broken": "float64 has it too, and no bias explains it: the formula, or the code, is not equivariant.",
    "undecided": "without float64 throughout, rounding cannot be told from a fault.",
}
"""What each verdict means."""


def as_page(report: AuditReport, source: str = "") -> Page:
    """The page of a report; ``source`` says where the model and its inputs came from."""
    page = Page(f"How equivariant is {report.name}?")
    sizes = ", ".join("×".join(map(str, shape)) for shape in report.shapes)
    mode = f", in {report.mode} mode" if report.mode else ""
    page.text(f"{report.name}, {report.parameters:,} parameters{mode}; inputs {sizes}, audited under {report.group}.")
    if source:
        page.note(source)
    drawn = figures(report)
    _violations(page, report)
    if "rotations" in drawn:
        page.heading("Over the rotations")
        page.figure(drawn["rotations"], _about_rotations(report))
    if report.checks:
        _checks(page, report)
    if report.law is not None:
        _law(page, report)
    if report.biases:
        _biases(page, report)
        _certificate(page, report)
    if "depth" in drawn:
        _layers(page, report, drawn["depth"])
    if report.sweep:
        _sweep(page, report)
        page.figure(drawn["sweep"], "Measured, to first order and certified, at each ε.")
    _words(page, report)
    return page


def _violations(page: Page, report: AuditReport) -> None:
    page.heading(f"Relative violation under {report.group}")
    page.table(["precision", "mean", "median", "95 %", "worst", "found by", "verdict"], worst_rows(report))
    for verdict in report.verdicts.values():
        page.text(f"{verdict.precision}: {verdict.word}: {verdict.evidence}.")
    for note in report.notes:
        page.text(f"Note: {note}.")
    page.note(
        "‖f(X·g) − f(X)·g‖ / ‖f(X)‖ at the inputs given; mean, median and 95 % are over all items and all elements g "
        "that were tried. Climbed: by gradients from the worst samples, to a local maximum."
    )


def _about_rotations(report: AuditReport) -> str:
    if report.group == "SO(2)":
        return "Each mark is a sample: one item, turned by one angle about the axis."
    if report.law is None or "float64" not in report.violations:
        return (
            "Each mark is a sample: one item, turned by one rotation. Above by its axis (x in the middle, y to the "
            "right, z above), below by its angle."
        )
    return (
        "Left: half-turns about every axis (x in the middle, y to the right, z above), by the first-order law. Right: "
        "the least and the most over all axes at each angle, and what was measured in float64."
    )


def _checks(page: Page, report: AuditReport) -> None:
    page.heading("Other symmetries")
    precisions = list(report.violations)
    rows = [
        [
            check.name,
            *(f"{check.worst[p]:.0e}, {check.verdicts[p].word}" if p in check.worst else "" for p in precisions),
        ]
        for check in report.checks
    ]
    page.table(["", *precisions], rows)
    page.note("Item alone: whether an item gives what it gives in a batch.")


def _law(page: Page, report: AuditReport) -> None:
    assert report.law is not None
    law, item = report.law, int(report.law.worst.argmax())
    page.heading("First-order law of the biases")
    page.text(
        f"Nine Jacobian-vector products tell the violation for every rotation at once, up to ε². The worst is "
        f"{float(law.worst[item]):.2e}, of item {item}, at {describe_rotation(law.worst_rotation[item])}. "
        "Of that, along its direction in the output:"
    )
    shares = sorted(law.shares.items(), key=lambda pair: -abs(float(pair[1][item])))
    page.table(["share", "layer"], [[_percent(float(share[item])), name] for name, share in shares])
    if report.unexplained is not None:
        page.note(
            f"With biases that turn with the input, {report.unexplained:.1e} of the violation is left in float64."
        )


def _biases(page: Page, report: AuditReport) -> None:
    page.heading("What each bias costs where it is")
    rows = [
        [
            f"{bound.exact:.2e}",
            f"{bound.paper:.2e}",
            f"{bound.exact / bound.paper:.0%}",
            f"{bound.epsilon:.0e}",
            bound.layer,
        ]
        for bound in report.biases
    ]
    page.table(["worst case over SO(3)", "paper: 2ε√C′", "ratio", "ε", "layer"], rows)
    page.note(
        "Absolute, of one token, before the layers behind it. The paper's bound is that of −I, which is no rotation; "
        "the exact worst case is 2ε√(C′ − λ), with λ the least eigenvalue of UᵀU."
    )


def _certificate(page: Page, report: AuditReport) -> None:
    page.heading("Certificate")
    if report.certificate is None:
        page.text(f"There is none: {report.no_certificate or 'not asked for'}.")
        return
    found = report.certificate
    count = len(found.relative)
    page.text(
        f"At the worst {'item' if count == 1 else f'{count} items'}, no rotation exceeds {_bound(found.worst)}. "
        f"Of that bound {float(found.first_order[found.relative.argmax()]):.1e} is of first order in ε; what is left "
        "bounds all higher orders."
    )
    page.table(["first order", "rest", "behind"], [[_bound(a), _bound(b), name] for name, a, b in found.stages])
    page.note("Relative to the length of the median token at each stage; the output as a whole.")


def _layers(page: Page, report: AuditReport, picture: Figure) -> None:
    page.heading("Where it is lost")
    for words in report.advice:
        page.text(words if words.endswith(".") else f"{words}.")
    page.figure(picture, "The violation out of each module without parts of its own, in the order in which they ran.")
    precision = "float32" if "float32" in report.steps else "float64"
    rows = [
        [
            f"{step.violation_in:.1e}",
            f"{step.violation_out:.1e}",
            f"{step.amplification(precision):,.1f}",
            f"{bias:.0%}",
            f"{rounding:.0%}",
            f"{step.name or 'the model itself'} ({step.kind})",
        ]
        for step, bias, rounding in layer_rows(report)
    ]
    page.table(["in", "out", "times", "share of ε" if report.law else "not rounding", "rounding", "module"], rows)
    page.note(
        f"In {precision}. Rounding: the part of the violation out of the module, squared, that float64 does not have; "
        f"the rest is {'what the biases cost' if report.law else 'of another kind'}. An input that is exact counts "
        "as half a unit in the last place."
    )


def _sweep(page: Page, report: AuditReport) -> None:
    page.heading("What other ε would cost")
    rows = [
        [f"{p.epsilon:.0e}", f"{p.measured:.1e}", f"{p.first_order:.1e}", _bound(p.certified)] for p in report.sweep
    ]
    page.table(["ε", "measured", "first order", "certified"], rows)
    page.note(
        "The weights of this model with biases of another length, in random directions where it has none; the worst "
        f"item, at most {MOST_TOKENS} of its points, at the rotation that is worst to first order. A model trained at "
        "that ε has other weights."
    )


def _words(page: Page, report: AuditReport) -> None:
    page.heading("What the verdicts mean")
    used = {verdict.word for verdict in report.verdicts.values()}
    used |= {verdict.word for check in report.checks for verdict in check.verdicts.values()}
    page.table(["verdict", "means"], [[word, about] for word, about in MEANINGS.items() if word in used])
    page.note(
        "A formula that is wrong but equivariant passes: this says nothing of accuracy. The worst is what a local "
        "search found at these inputs, and no proof; only a certificate is one."
    )


def _percent(share: float) -> str:
    return f"{round(share, 3) + 0.0:.1%}"  # no negative zero


def _bound(value: float) -> str:
    """A bound, or that there is none."""
    return f"{value:.1e}" if math.isfinite(value) else "no bound"
