"""The audit: how equivariant a model is, why it is not more so, and where it is lost."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from vnt.equivariance.bounds import bias_worst_case, paper_bias_bound
from vnt.equivariance.certificate import Certificate, certify
from vnt.equivariance.first_order import FirstOrderLaw, bias, bias_layers, first_order_law, with_turned_biases
from vnt.equivariance.fitness import PRECISIONS, refuse_unfit, rounds_inside, runnable, with_token_axis
from vnt.equivariance.report import AuditReport, BiasBound, Check
from vnt.equivariance.subject import Precision, Subject, describe_subject
from vnt.equivariance.sweep import SweepPoint, sweep
from vnt.equivariance.tracing import advice, culprit, trace
from vnt.equivariance.verdicts import judge
from vnt.equivariance.violation import ROTATIONS, Violation, measure
from vnt.geometry.packing import padded
from vnt.geometry.symmetry import Action, Argument, Group, Kind, relative_difference

Progress = Callable[[str], None]


@padded()
def audit(
    function: Callable[..., Any],
    *arguments: Tensor | None,
    inputs: Sequence[Argument | Kind] | None = None,
    output: Argument | Kind | None = None,
    read: Callable[..., Tensor] | None = None,
    group: Group = "SO(3)",
    axis: Sequence[float] = (0.0, 0.0, 1.0),
    also: Sequence[Group] | None = None,
    precisions: Sequence[Precision] = PRECISIONS,
    num_samples: int = 12,
    num_starts: int = 1,
    num_steps: int = 8,
    num_certified: int = 1,
    epsilons: Sequence[float] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> AuditReport:
    """Measure, predict, bound and explain the equivariance violation of a model at the inputs given.

    The model is copied and never changed; it is audited in the mode it is in, so call ``eval()`` first.

    Args:
        function: a classifier or forecaster of this library, or any module or function with a description.
        arguments: what it takes; the first axis of each tensor counts batch items. Two items or more show leaks.
        inputs: how each argument transforms: "vector", "point", "scalar", "concat", or one of `vnt.testing.vector` ...
            with a token axis. Known for the models of this library.
        output: how the result transforms.
        read: (result, *arguments) -> the tensor to compare, where the result is not just that.
        group: which symmetry; the worst case of a rotation group is climbed, not only sampled.
        axis: of SO(2).
        also: further symmetries to check; by default those that a model of this library has.
        precisions: which to run; verdicts need float64.
        num_samples: random group elements for each item.
        num_starts: climb to the worst rotation from so many of the worst samples of each item.
        num_steps: evaluations with gradient for each climb, at most.
        num_certified: how many items to certify, the worst first.
        epsilons: bias norms to try instead of the model's own (`AuditReport.sweep`).
        seed: of everything drawn.
        progress: called with a few words before each part.

    >>> import vnt
    >>> model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, channels=8, num_heads=2)).eval()
    >>> report = audit(model, torch.randn(2, 16, 3))
    >>> [verdict.word for verdict in report.verdicts.values()]
    ['exact', 'rounding', 'rounding']
    """
    say = progress or (lambda words: None)
    notes: list[str] = []
    exact = describe_subject(function, arguments, inputs, output, read)
    say("looking at the model")
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}")
    subjects = runnable(exact, precisions, notes)
    refuse_unfit(subjects)
    value = next(iter(subjects.values())).value()
    subjects = {precision: with_token_axis(subject, value) for precision, subject in subjects.items()}
    main = next(iter(subjects.values()))

    law = None
    is_rotation = group in ROTATIONS
    has_biases = "float64" in subjects and is_rotation and bool(bias_layers(main.module, main.dim))
    if has_biases and group == "SO(3)" and main.module is not None and not main.module.training:
        say("nine Jacobian-vector products for the first-order law")
        law = first_order_law(main)
    violations: dict[Precision, Violation] = {}
    starts = [] if law is None else [law.worst_rotation]
    for precision, subject in subjects.items():
        say(f"violation in {precision}")
        climbs = num_starts if subject is main else 0
        violations[precision] = measure(
            subject,
            group,
            axis=axis,
            num_samples=num_samples,
            starts=starts,
            num_starts=climbs,
            num_steps=num_steps,
            seed=seed,
        )
        found = violations[precision]
        if subject is main and found.worst_rotation is not None:
            starts = [found.worst_rotation.expand(subject.num_items, -1, -1)]
    first = violations[main.precision]
    if is_rotation and first.method == "sampled" and first.why and "rounding" not in first.why:
        notes.append(first.why)

    unexplained = None
    if has_biases and first.rotations is not None:
        tried = [first.rotations[0], *starts]
        unexplained = max(float(_unexplained(main, R).max()) for R in tried)
    steps, fault = {}, ""
    worst = {precision: found.worst for precision, found in violations.items()}
    if is_rotation and main.module is not None:
        say("where it is lost")
        R = _trace_rotations(main, first, axis, seed)
        few = _few_items(first)
        for precision in ("float64", "float32"):
            if precision in subjects:
                steps[precision] = trace(subjects[precision].items(few), R)
        if "float64" in subjects:
            left = worst["float64"] if unexplained is None else unexplained
            fault = culprit(trace(main.items(few), R, cancel_biases=True), left)
    epsilon = max((layer.bias_epsilon for layer in bias_layers(main.module, main.dim).values()), default=0.0)
    rounded = main.precision == "float64" and rounds_inside(main)
    verdicts = judge(worst, unexplained, epsilon, fault, rounds_inside=rounded)
    if first.worst == 0 and is_rotation and _stands_still(main, group, axis, seed):
        notes.append(f"{exact.name} does not change at all under {group}: does it depend on these inputs?")
    report_precision: Precision = "float32" if "float32" in steps else "float64"
    certificate, why = None, "something else than biases breaks the symmetry, and no bound holds for that"
    if verdicts[main.precision].word != "broken":
        certificate, why = _certificate(main, law, first, num_certified, say)

    groups = _usual_groups(exact) if also is None else also
    checks = [_check(subjects, other, axis, seed, rounded, say) for other in groups if other != group]
    if main.num_items > 1:
        checks.append(_alone(subjects, rounded, say))
    else:
        notes.append("one item only: leaks between the items of a batch were not looked for")
    points: list[SweepPoint] = []
    if epsilons and group != "SO(3)":
        notes.append("the sweep over ε is for SO(3)")
    elif epsilons and main.precision != "float64":
        notes.append("the sweep over ε needs float64 among the precisions")
    elif epsilons:
        say("other bias norms")
        points = sweep(main.items([first.worst_item]), epsilons, seed=seed)
    return AuditReport(
        name=exact.name,
        parameters=0 if exact.module is None else sum(p.numel() for p in exact.module.parameters()),
        shapes=tuple(tuple(x.shape) for x, _ in exact.given),
        mode="" if exact.module is None else ("training" if exact.module.training else "evaluation"),
        group=group,
        violations=violations,
        verdicts=verdicts,
        unexplained=unexplained,
        checks=checks,
        law=law,
        biases=_bias_bounds(main.module),
        certificate=certificate,
        no_certificate=why,
        steps=steps,
        advice=advice(steps[report_precision], report_precision) if steps else [],
        fault=fault if any(verdict.word == "broken" for verdict in verdicts.values()) else "",
        sweep=points,
        notes=notes,
    )


def _unexplained(subject: Subject, R: Tensor) -> Tensor:
    """‖f(XR)R⁻¹ − g(R⁻¹ − I)‖ / ‖f(X)‖: zero where only biases break the symmetry."""
    act = Action(rotation=R)
    with torch.no_grad():
        moved = subject.moved(act)
    return relative_difference(moved, act(with_turned_biases(subject, R), subject.output))


def _few_items(found: Violation, most: int = 4) -> list[int]:
    """The worst item and some others, so that leaks between items show."""
    count = found.sampled.shape[1]
    others = [i for i in range(count) if i != found.worst_item]
    return [found.worst_item, *others[: most - 1]]


def _stands_still(subject: Subject, group: Group, axis: Sequence[float], seed: int) -> bool:
    """Whether the result is the same to the last digit where the arguments are turned."""
    with torch.no_grad():
        turned = subject.moved(subject.draw(group, axis, torch.Generator().manual_seed(seed)))
    return torch.equal(turned, subject.value())


def _trace_rotations(subject: Subject, found: Violation, axis: Sequence[float], seed: int) -> Tensor:
    """The worst rotation for the worst item, and one of its own for each other, of the same group."""
    few = subject.items(_few_items(found))
    R = few.draw(found.group, axis, torch.Generator().manual_seed(seed)).rotation
    assert R is not None
    assert found.worst_rotation is not None
    return torch.cat([found.worst_rotation[None].to(R), R[1:]])


def _certificate(
    subject: Subject, law: FirstOrderLaw | None, found: Violation, count: int, say: Progress
) -> tuple[Certificate | None, str]:
    if not bias_layers(subject.module, subject.dim):
        return None, "no ε bias: there is nothing to bound but rounding"
    if law is None:
        return None, "law and certificate are for SO(3), in float64 and in evaluation mode"
    if count == 0:
        return None, "not asked for"
    say("certificate")
    try:
        return certify(subject.items(_few_items(found, count))), ""
    except ValueError as error:
        return None, str(error)


def _bias_bounds(module: nn.Module | None) -> list[BiasBound]:
    return [
        BiasBound(
            layer=name,
            epsilon=layer.bias_epsilon,
            exact=float(bias_worst_case(bias(layer).detach().double(), 1.0)),
            paper=paper_bias_bound(layer.out_channels, layer.bias_epsilon),
        )
        for name, layer in bias_layers(module).items()
    ]


def _usual_groups(subject: Subject) -> list[Group]:
    """What a model of this library promises beside rotations."""
    config = getattr(subject.function, "config", None)
    groups: list[Group] = []
    if config is None or not type(subject.function).__module__.startswith("vnt."):
        return groups
    if getattr(config, "center", "mean") != "none":
        groups.append("translations")
    if any(how.token_axis is not None for _, how in subject.given):
        groups.append("permutations")
    return groups


def _check(
    subjects: dict[Precision, Subject], group: Group, axis: Sequence[float], seed: int, rounded: bool, say: Progress
) -> Check:
    """Another group, sampled twice in each precision."""
    say(f"violation under {group}")
    worst = {
        precision: measure(subject, group, axis=axis, num_samples=2, num_starts=0, seed=seed).worst
        for precision, subject in subjects.items()
    }
    return Check(group, worst, judge(worst, None, 0.0, rounds_inside=rounded))


def _alone(subjects: dict[Precision, Subject], rounded: bool, say: Progress) -> Check:
    """Whether an item alone gives what it gives in a batch."""
    say("items alone")
    worst: dict[Precision, float] = {}
    for precision, subject in subjects.items():
        together = subject.value()
        few = range(min(3, subject.num_items))
        alone = torch.cat([subject.items(slice(i, i + 1)).value() for i in few])
        worst[precision] = float(relative_difference(alone, together[: len(few)]).max())
    fault = "a batch that is more than its items: statistics, a mean or a reshape over the batch axis"
    return Check("item alone", worst, judge(worst, None, 0.0, fault, rounds_inside=rounded))
