"""A report in words and as numbers."""

import math
from itertools import zip_longest
from typing import Any

from vnt.equivariance.report import AuditReport
from vnt.equivariance.subject import Precision
from vnt.equivariance.tracing import Step, innermost
from vnt.files import for_json

MOST_LINES = 12
"""Of a table in the terminal; the page has all of them."""


def rounding_share(single: float, double: float) -> float:
    """Of a float32 violation, the part that float64 does not have: rounding. What is left is the bias, or a fault."""
    return 1.0 - min(1.0, (double / single) ** 2) if single > 0 else 0.0


def layer_rows(report: AuditReport) -> list[tuple[Step, float, float]]:
    """Each module without parts of its own: its step in float32 (or float64), share of ε, share of rounding."""
    precision: Precision = "float32" if "float32" in report.steps else "float64"
    steps, exact = report.steps.get(precision, []), report.steps.get("float64", [])
    rows = []
    for step, double in zip_longest(innermost(steps), innermost(exact)):
        if step is not None:
            rounding = rounding_share(step.violation_out, 0.0 if double is None else double.violation_out)
            rows.append((step, 1.0 - rounding, rounding))
    return rows


def worst_rows(report: AuditReport) -> list[list[str]]:
    """Precision, mean, median, 95 %, worst, how the worst was found, verdict."""
    return [
        [
            precision,
            f"{found.mean:.1e}",
            f"{found.quantile(0.5):.1e}",
            f"{found.quantile(0.95):.1e}",
            f"{found.worst:.2e}",
            found.method,
            report.verdicts[precision].word,
        ]
        for precision, found in report.violations.items()
    ]


def as_text(report: AuditReport) -> str:
    """The report for a terminal."""
    sizes = " ".join("×".join(map(str, shape)) for shape in report.shapes)
    mode = f", in {report.mode} mode" if report.mode else ""
    lines = [f"{report.name}, {report.parameters:,} parameters, input {sizes}{mode}", ""]
    lines.append(f"relative violation under {report.group}")
    header = ["", "mean", "median", "95 %", "worst", "found by", "verdict"]
    lines += _columns([header, *worst_rows(report)])
    lines += ["", *(f"{v.precision}: {v.word}: {v.evidence}" for v in report.verdicts.values())]
    for check in report.checks:
        words = ", ".join(f"{v.word} in {name} ({check.worst[name]:.0e})" for name, v in check.verdicts.items())
        lines.append(f"{check.name}: {words}")
    if report.law is not None:
        lines += ["", *_law_lines(report)]
    if report.sweep:
        lines += ["", "what other ε would cost: measured, to first order, certified"]
        lines += [
            f"  {p.epsilon:.0e}  {p.measured:.1e}  {p.first_order:.1e}  {_or_dash(p.certified)}" for p in report.sweep
        ]
    if report.advice:
        lines += ["", *report.advice[:MOST_LINES]]
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines)


def _law_lines(report: AuditReport) -> list[str]:
    assert report.law is not None
    item = int(report.law.worst.argmax())
    lines = [f"first-order law: worst {float(report.law.worst[item]):.2e}, of which"]
    shares = sorted(report.law.shares.items(), key=lambda pair: -abs(float(pair[1][item])))
    lines += [f"  {float(share[item]):+.0%}  {name}" for name, share in shares[:5]]
    if report.certificate is not None:
        items = len(report.certificate.relative)
        where = "the worst item" if items == 1 else f"the {items} worst items"
        lines.append(f"certified: no rotation exceeds {report.certificate.worst:.1e}, at {where}")
    elif report.no_certificate:
        lines.append(f"no certificate: {report.no_certificate}")
    return lines


def _or_dash(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1e}"


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def as_dict(report: AuditReport) -> dict[str, Any]:
    """The numbers of a report, ready for JSON: what is infinite or not a number is None."""
    values = {
        "name": report.name,
        "parameters": report.parameters,
        "shapes": [list(shape) for shape in report.shapes],
        "mode": report.mode,
        "group": report.group,
        "violations": {
            precision: {
                "mean": found.mean,
                "median": found.quantile(0.5),
                "quantile_95": found.quantile(0.95),
                "worst": found.worst,
                "worst_item": found.worst_item,
                "worst_rotation": None if found.worst_rotation is None else found.worst_rotation.tolist(),
                "method": found.method,
                "verdict": report.verdicts[precision].word,
                "evidence": report.verdicts[precision].evidence,
            }
            for precision, found in report.violations.items()
        },
        "unexplained": report.unexplained,
        "checks": {
            check.name: {
                precision: {"worst": check.worst[precision], "verdict": verdict.word}
                for precision, verdict in check.verdicts.items()
            }
            for check in report.checks
        },
        "law": None
        if report.law is None
        else {
            "worst": report.law.worst.tolist(),
            "worst_rotation": report.law.worst_rotation.tolist(),
            "gram": report.law.gram.tolist(),
            "shares": {name: share.tolist() for name, share in report.law.shares.items()},
        },
        "biases": [vars(bound) for bound in report.biases],
        "certified": None if report.certificate is None else report.certificate.relative.tolist(),
        "no_certificate": report.no_certificate,
        "layers": {precision: [vars(step) for step in steps] for precision, steps in report.steps.items()},
        "advice": report.advice,
        "fault": report.fault,
        "sweep": [vars(p) for p in report.sweep],
        "notes": report.notes,
    }
    return for_json(values)
