"""What the numbers mean: exact, rounding, ill-conditioned, ε-bias, broken."""

from dataclasses import dataclass
from typing import Literal

from vnt.equivariance.subject import Precision

Word = Literal["exact", "rounding", "ill-conditioned", "ε-bias", "broken", "undecided"]

EXACT = 1e-11
"""What a sound model keeps in float64."""
TOLERABLE: dict[Precision, float] = {"float64": EXACT, "float32": 1e-3, "bfloat16": 5e-2}
"""Above this, rounding has been amplified by more than a sound model does."""
SHRINKS = 2e-6
"""Rounding in float64 is 2e-9 of that in float32; amplified, with luck and without, at most this share of it."""


@dataclass(frozen=True)
class Verdict:
    """One word for one precision, with the evidence for it."""

    precision: Precision
    word: Word
    evidence: str


def judge(
    worst: dict[Precision, float],
    unexplained: float | None,
    epsilon: float,
    fault: str = "",
    *,
    rounds_inside: bool = False,
) -> dict[Precision, Verdict]:
    """A verdict for each precision.

    Args:
        worst: the worst relative violation in each precision.
        unexplained: in float64, what is left of the violation once the biases turn with the input; None without any.
        epsilon: the largest ε of the model's biases.
        fault: where the violation first appears, in words.
        rounds_inside: whether the model makes float32 numbers even where it is run in float64.
    """
    verdicts: dict[Precision, Verdict] = {}
    double = worst.get("float64")
    cause = None
    if double is not None:
        cause = _cause(double, worst.get("float32"), unexplained, epsilon, fault, rounds_inside)
    for precision, value in worst.items():
        verdicts[precision] = Verdict(precision, *_judge(precision, value, double, cause))
    return verdicts


def _cause(
    double: float, single: float | None, unexplained: float | None, epsilon: float, fault: str, rounds_inside: bool
) -> tuple[Word, str]:
    """What float64 says: there rounding is out of the way."""
    if double <= EXACT:
        return "exact", f"{double:.1e} ≤ {EXACT:.0e}"
    rest = double if unexplained is None else unexplained
    is_rounding = single is not None and rest <= SHRINKS * single
    if unexplained is not None and (rest <= max(EXACT, 1e-6 * double) or (is_rounding and 10 * rest < double)):
        return "ε-bias", (
            f"{double:.1e}, of which all but {unexplained:.1e} goes away when the biases turn with the input; "
            f"ε = {epsilon:.0e} comes out {double / epsilon:,.0f} times as large"
        )
    if is_rounding:
        return "ill-conditioned", f"{rest:.1e}: rounding, since float32 has {single:.1e}, but amplified"
    if rounds_inside and rest <= TOLERABLE["float32"]:
        return "rounding", f"{rest:.1e}: the model makes float32 numbers inside, and float64 cannot say more"
    if rounds_inside:
        return "undecided", f"{rest:.1e}; the model makes float32 numbers inside, so this may be rounding or a fault"
    where = f"; it first appears in {fault}" if fault else ""
    bias = "" if unexplained is None else f", and {unexplained:.1e} of it is not the biases'"
    return "broken", f"{double:.1e} in float64, where rounding is 1e-15{bias}{where}"


def _judge(
    precision: Precision, value: float, double: float | None, cause: tuple[Word, str] | None
) -> tuple[Word, str]:
    if cause is None or double is None:
        if value <= EXACT:
            return "exact", f"{value:.1e} ≤ {EXACT:.0e}"
        return "undecided", f"{value:.1e}; without float64, rounding cannot be told from a fault"
    if precision == "float64":
        return cause
    if value <= EXACT:
        return "exact", f"{value:.1e} ≤ {EXACT:.0e}"
    if cause[0] in ("ε-bias", "broken") and value <= 10 * double:
        return cause[0], f"{value:.1e}, as in float64 ({double:.1e})"
    if cause[0] == "undecided":
        return cause[0], f"{value:.1e}, while float64 has {double:.1e}"
    limit = TOLERABLE[precision]
    if value <= limit:
        return "rounding", f"{value:.1e} ≤ {limit:.0e}, while float64 has {double:.1e}"
    return "ill-conditioned", f"{value:.1e} > {limit:.0e}, while float64 has {double:.1e}: rounding, amplified"
