"""The certificate: never below what is measured, and near enough to say something."""

import itertools

import pytest
import torch

from equivariance.test_first_order import CASES, classifier, forecaster
from vnt import ClassifierConfig, VNTransformerClassifier
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier
from vnt.equivariance import certify, describe_subject, first_order_law, measure
from vnt.equivariance.sweep import sweep, with_bias
from vnt.models.rivals.config import TransformerClassifierConfig
from vnt.models.rivals.transformer import TransformerClassifier


def measured_and_certified(model, arguments):
    subject = describe_subject(model, arguments)
    law = first_order_law(subject)
    starts = [law.worst_rotation]
    found = measure(subject, num_samples=4, starts=starts, num_starts=1, num_steps=6)
    return found, certify(subject)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("epsilon", [1e-8, 1e-6, 1e-3, 0.3])
def test_measured_is_never_above_certified(name, epsilon):
    model, arguments = CASES[name](epsilon)
    found, certificate = measured_and_certified(model, arguments)
    assert bool((found.sampled.amax(0) <= certificate.relative + 1e-11).all())
    assert found.worst <= certificate.worst + 1e-11
    if epsilon == 1e-8:
        assert certificate.worst <= 30 * found.worst


@pytest.mark.parametrize(("depth", "most"), [(1, 1e3), (2, 1e6)])
@pytest.mark.parametrize("trained", [False, True], ids=["fresh", "trained"])
def test_certificate_of_the_default_classifier_says_something(depth, most, trained):
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5, bias_epsilon=1e-6, depth=depth))
    if trained:
        train_classifier(model, steps=10)
    found, certificate = measured_and_certified(model.eval(), [toy_clouds(3, 64)[0]])
    assert found.worst <= certificate.worst <= most * found.worst
    assert float(certificate.first_order.max()) >= 0.99 * found.worst  # √8 σ(A) is above the law's own worst case


@pytest.mark.parametrize("num_motions", [0, 4])
def test_certificate_of_the_forecaster(num_motions):
    found, certificate = measured_and_certified(forecaster(1e-6, num_motions=num_motions), [toy_tracks(4, 11)])
    assert found.worst <= certificate.worst <= 10 * found.worst


def test_first_order_part_is_the_laws():
    model, arguments = CASES["classifier"](1e-9)
    subject = describe_subject(model, arguments)
    law = first_order_law(subject)
    spectral = 8**0.5 * torch.linalg.matrix_norm(law.columns, 2) / law.scale
    assert torch.allclose(certify(subject).first_order, spectral, rtol=1e-9)


def test_exact_models_are_certified_exact():
    certificate = certify(describe_subject(classifier(0.0), [torch.randn(2, 20, 3)]))
    assert certificate.worst == 0


def test_what_has_no_certificate_says_why():
    points = [torch.randn(2, 12, 3)]
    plain = TransformerClassifier(TransformerClassifierConfig(num_classes=3)).eval()
    with pytest.raises(ValueError, match="TransformerClassifier"):
        certify(describe_subject(plain, points))
    with pytest.raises(ValueError, match="evaluation mode"):
        certify(describe_subject(classifier().train(), points))
    late = classifier(num_attributes=2, fusion="late", num_latents=3)
    with pytest.raises(ValueError, match="late fusion"):
        certify(describe_subject(late, [*points, torch.randn(2, 12, 2)]))


def test_sweep_is_ordered_and_grows():
    subject = describe_subject(classifier(1e-6), [torch.randn(1, 20, 3)])
    points = sweep(subject, (1e-8, 1e-6, 1e-4, 1e-2, 1e-1))
    for point in points:
        assert point.measured <= point.certified + 1e-11
    for small, large in itertools.pairwise(points):
        assert small.measured < large.measured
    for small, large in itertools.pairwise(points[:3]):
        assert small.certified < large.certified
    assert points[0].first_order == pytest.approx(points[0].measured, rel=0.01)
    assert points[1].first_order == pytest.approx(100 * points[0].first_order, rel=0.01)


def test_sweep_gives_an_exact_model_random_biases_and_leaves_it_alone():
    model = classifier(0.0)
    biased = with_bias(model, 0.1)
    assert not any("bias_direction" in name for name, _ in model.named_parameters())
    assert any("bias_direction" in name for name, _ in biased.named_parameters())
    assert sweep(describe_subject(model, [torch.randn(1, 12, 3)]), (1e-3,))[0].measured > 1e-6
    with pytest.raises(ValueError, match="positive"):
        sweep(describe_subject(model, [torch.randn(1, 12, 3)]), (0.0,))
    with pytest.raises(ValueError, match="no VN-Linear"):
        sweep(describe_subject(torch.sin, [torch.randn(1, 12, 3)], ["point"], "point"), (1e-3,))
