"""Pictures and the page of an audit: there where they can be, and saying what was found."""

import html
import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import vnt
from vnt.equivariance.page import MEANINGS, as_page
from vnt.equivariance.pictures import draw_depth, draw_rotations, draw_sweep, figures
from vnt.equivariance.rotation_pictures import axis_angle, describe_rotation
from vnt.equivariance.sweep import SweepPoint
from vnt.equivariance.verdicts import Verdict
from vnt.geometry import random_orthogonal, random_rotation, rotation_about, rotation_in_plane


def classifier(**settings):
    torch.manual_seed(0)
    config = vnt.ClassifierConfig(num_classes=4, channels=8, num_heads=2, depth=1, point_channels=16, **settings)
    return vnt.VNTransformerClassifier(config).eval()


@pytest.fixture(scope="module")
def points():
    return torch.randn(2, 12, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def biased(points):
    return vnt.audit(classifier(bias_epsilon=1e-5), points, num_samples=6, epsilons=(1e-6, 1e-3, 1e-1))


@pytest.fixture(scope="module")
def exact(points):
    return vnt.audit(classifier(), points, num_samples=4)


def stretched(x):
    """Not equivariant in the plane, nor in space."""
    return x * torch.tensor([1.0, 1.5, 1.0], dtype=x.dtype)[: x.shape[-1]]


def audit_stretched(group, dim=3):
    x = torch.randn(2, 5, dim, generator=torch.Generator().manual_seed(0))
    return vnt.audit(stretched, x, inputs=["vector"], output="vector", group=group, num_samples=6)


def drawn(figure):
    """The figure as a picture; whatever matplotlib has to complain about is an error."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=40)
    return stream.getvalue()


def test_axis_and_angle_of_any_rotation():
    generator = torch.Generator().manual_seed(0)
    axis = torch.nn.functional.normalize(torch.randn(40, 3, dtype=torch.float64, generator=generator), dim=-1)
    angle = math.pi * torch.rand(40, dtype=torch.float64, generator=generator)
    angle[:3] = torch.tensor([math.pi, 1e-7, math.pi - 1e-9], dtype=torch.float64)
    R = torch.stack([rotation_about(a.tolist(), t) for a, t in zip(axis, angle, strict=True)])
    for turned in (R, -R):  # a reflection has the axis and the angle of its rotation
        found, by = axis_angle(turned)
        torch.testing.assert_close(by, angle, rtol=0, atol=1e-8)
        sign = torch.where(angle > math.pi - 1e-6, (found * axis).sum(-1).sign(), 1.0)[:, None]
        torch.testing.assert_close((found * sign)[angle > 1e-6], axis[angle > 1e-6], rtol=0, atol=1e-7)
    assert axis_angle(torch.eye(3))[1] == 0


def test_a_rotation_in_words():
    quarter = torch.tensor(math.pi / 2, dtype=torch.float64)
    assert describe_rotation(rotation_about((0.0, 0.0, 1.0), quarter)) == "90° about (0.00, 0.00, 1.00)"
    assert describe_rotation(-rotation_about((0.0, 0.0, 1.0), quarter)) == "−I times 90° about (0.00, 0.00, 1.00)"
    assert describe_rotation(rotation_in_plane(-quarter)) == "-90° in the plane"


def test_all_pictures_of_a_biased_model(biased):
    found = figures(biased)
    assert set(found) == {"rotations", "depth", "sweep"}
    for figure in found.values():
        assert len(drawn(figure)) > 5000


def test_the_law_in_the_picture_is_the_law(biased):
    """The band holds the law at every sample, and its top is the worst case."""
    figure = draw_rotations(biased)
    axes = figure.subfigs[1].axes[0]
    (band,) = axes.collections
    top = band.get_paths()[0].vertices[:, 1].max()
    item = int(biased.law.worst.argmax())
    assert top == pytest.approx(float(biased.law.worst[item]), rel=5e-3)
    law = biased.law.predict(biased.violations["float64"].rotations)[:, item]
    assert float(law.max()) <= top * 1.005
    (dots,) = [line for line in axes.lines if line.get_label() == f"measured, item {item}"]
    np.testing.assert_allclose(np.sort(dots.get_ydata()), biased.violations["float64"].sampled[:, item].sort().values)
    np.testing.assert_allclose(np.sort(dots.get_ydata()), law.sort().values, rtol=0.05)


def test_an_exact_model_has_its_samples_alone(exact):
    found = figures(exact)
    assert set(found) == {"rotations", "depth"}
    titles = [axes.get_title() for axes in found["rotations"].axes]
    assert sum(title.startswith(("float64", "float32", "bfloat16")) for title in titles) == 3
    drawn(found["rotations"])
    lines = {line.get_label(): line for line in found["depth"].axes[0].lines}
    assert np.median(lines["float64"].get_ydata()) < 1e-13 < np.median(lines["float32"].get_ydata())


def test_the_picture_of_depth_names_every_module_and_marks_what_amplifies(biased, exact):
    labels = [label.get_text() for label in draw_depth(biased).axes[0].get_xticklabels()]
    assert labels[0] == "lift.lift"
    assert all(len(label) <= 32 for label in labels)
    steps = [replace(step, violation_out=1e-3) if step.name == "invariant.frame.contract" else step
             for step in exact.steps["float32"]]  # fmt: skip
    axes = draw_depth(replace(exact, steps={"float32": steps})).axes[0]
    red = [label.get_text() for label in axes.get_xticklabels() if label.get_color() != "#333333"]
    assert red == ["invariant.frame.contract"]
    assert any("more than 100 times" in text.get_text() for text in axes.get_legend().get_texts())


def test_a_deep_model_keeps_its_names_apart(exact):
    many = replace(exact, steps={"float64": exact.steps["float64"] * 20})
    axes = draw_depth(many).axes[0]
    assert 20 < len(axes.get_xticks()) <= 70
    drawn(axes.figure)


def test_bounds_that_are_none_are_left_out_of_the_sweep(biased):
    points = [SweepPoint(1e-6, 1e-5, 1e-5, 2e-5), SweepPoint(1e-3, 1e-2, 1e-2, math.inf)]
    points.append(SweepPoint(1e-1, 1.0, 1.0, math.nan))
    lines = {line.get_label(): line for line in draw_sweep(replace(biased, sweep=points)).axes[0].lines}
    assert list(lines["certified: no rotation exceeds"].get_xdata()) == [1e-6]
    assert list(lines["measured at its worst rotation"].get_ydata()) == [1e-5, 1e-2, 1.0]
    assert "the model's own ε, 1e-05" in lines
    page = as_page(replace(biased, sweep=points)).html()
    assert "no bound" in page
    assert "nan" not in page.split("What other ε would cost")[1].split("<figure>")[0]


@pytest.mark.parametrize(("group", "dim"), [("SO(2)", 3), ("SO(2)", 2), ("O(3)", 3), ("SO(3)", 3)])
def test_a_plain_function_under_any_rotation_group(group, dim):
    report = audit_stretched(group, dim)
    found = figures(report)
    assert set(found) == {"rotations"}
    drawn(found["rotations"])
    axes = next(axes for axes in found["rotations"].axes if axes.get_xlabel().startswith("angle"))
    assert axes.get_xlim() == ((-180, 180) if group == "SO(2)" else (0, 180))
    angles = np.concatenate([line.get_xdata() for line in axes.lines if line.get_label() == "float64"])
    assert len(angles) == 12
    assert (angles.min() < 0) == (group == "SO(2)")
    assert "broken" in as_page(report).html()


def test_a_biased_model_under_other_groups(points):
    for group in ("O(3)", "SO(2)"):
        report = vnt.audit(classifier(bias_epsilon=1e-5), points, num_samples=4, group=group)
        drawn(draw_rotations(report))
        page = as_page(report).html()
        assert "There is none: " in page
        assert "paper: 2ε√C′" in page


def test_translations_have_no_picture_of_rotations(points):
    report = vnt.audit(classifier(), points, group="translations", num_samples=2)
    assert figures(report) == {}
    page = as_page(report).html()
    assert "Relative violation under translations" in page
    assert "<img" not in page


def test_no_violation_at_all_is_drawn_and_said():
    def same(x):
        return torch.ones_like(x[..., 0])

    x = torch.randn(2, 3, 3)
    report = vnt.audit(same, x, inputs=["vector"], output="scalar", num_samples=2)
    figure = draw_rotations(report)
    drawn(figure)
    assert any("no violation at all" in text.get_text() for axes in figure.axes for text in axes.texts)


def test_random_orthogonal_matrices_have_axes():
    axis, angle = axis_angle(random_orthogonal(50, generator=torch.Generator().manual_seed(0)))
    R = random_rotation(50, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(torch.einsum("bi,bij->bj", axis, R), axis)
    assert bool(((angle >= 0) & (angle <= math.pi)).all())


def test_the_page_says_what_was_found(biased, exact):
    page = as_page(biased, "From <somewhere> & elsewhere").html()
    for words in (
        "VNTransformerClassifier",
        "ε-bias",
        "goes away when the biases turn with the input",
        "First-order law of the biases",
        describe_rotation(biased.law.worst_rotation[int(biased.law.worst.argmax())]),
        "lift.lift",
        "paper: 2ε√C′",
        "no rotation exceeds",
        "behind",
        "share of ε",
        "What other ε would cost",
        "item alone",
        "From &lt;somewhere&gt; &amp; elsewhere",
        html.escape(MEANINGS["ε-bias"]),
    ):
        assert words in page, words
    assert "http" not in page
    assert page.count("<img") == 3
    assert MEANINGS["broken"] not in page  # only the words that were used
    plain = exact.html()
    assert "First-order law" not in plain
    assert "Certificate" not in plain
    assert "exact" in plain


def test_advice_and_notes_are_on_the_page(exact):
    verdict = Verdict("float32", "ill-conditioned", "2e-1 > 1e-3")
    report = replace(exact, advice=["norm (VNLayerNorm) is bad"], notes=["no bfloat16 here"])
    report = replace(report, verdicts=report.verdicts | {"float32": verdict})
    page = report.html()
    assert "norm (VNLayerNorm) is bad." in page
    assert "Note: no bfloat16 here." in page
    assert MEANINGS["ill-conditioned"].split(";")[0] in page
