"""The first-order law: the identity it rests on, its nine columns, its worst rotation, and its shares."""

import dataclasses

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from vnt import (
    ClassifierConfig,
    ForecasterConfig,
    VNTransformerClassifier,
    VNTransformerForecaster,
    paper_classifier,
)
from vnt.equivariance import describe_subject, first_order_law, measure, violation
from vnt.equivariance.first_order import bias_layers, shifted_biases, with_turned_biases, worst_over_rotations
from vnt.geometry import random_rotation
from vnt.geometry.symmetry import Action, relative_difference

SMALL = {"channels": 8, "num_heads": 2}


def classifier(epsilon: float = 1e-8, **options):
    config = ClassifierConfig(num_classes=5, bias_epsilon=epsilon, point_channels=16, head_channels=16, **SMALL)
    return VNTransformerClassifier(dataclasses.replace(config, **options)).eval()


def forecaster(epsilon: float = 1e-8, **options):
    config = ForecasterConfig(num_future=6, bias_epsilon=epsilon, **SMALL)
    return VNTransformerForecaster(dataclasses.replace(config, **options)).eval()


def masked(count: int, tokens: int) -> torch.Tensor:
    mask = torch.ones(count, tokens, dtype=torch.bool)
    mask[0, -4:] = False
    mask[1, -1:] = False
    return mask


EARLY = {"num_attributes": 2, "fusion": "early"}
LATE = {"num_attributes": 2, "fusion": "late"}
READ_BACK = {"num_latents": 4, "read_back": True}
CASES = {
    "classifier": lambda e: (classifier(e), [torch.randn(3, 20, 3)]),
    "masked": lambda e: (classifier(e), [torch.randn(3, 20, 3), None, masked(3, 20)]),
    "early": lambda e: (classifier(e, **EARLY), [torch.randn(3, 20, 3), torch.randn(3, 20, 2), masked(3, 20)]),
    "late": lambda e: (classifier(e, **LATE), [torch.randn(3, 20, 3), torch.randn(3, 20, 2)]),
    "late pooled": lambda e: (
        classifier(e, attribute_pooling=True, **LATE),
        [torch.randn(3, 20, 3), torch.randn(3, 20, 2), masked(3, 20)],
    ),
    "latents": lambda e: (classifier(e, num_latents=4), [torch.randn(3, 20, 3), None, masked(3, 20)]),
    "read back": lambda e: (classifier(e, **READ_BACK), [torch.randn(3, 20, 3), None, masked(3, 20)]),
    "read back late": lambda e: (
        classifier(e, **READ_BACK, **LATE),
        [torch.randn(3, 20, 3), torch.randn(3, 20, 2), masked(3, 20)],
    ),
    "read back forecaster": lambda e: (
        forecaster(e, **READ_BACK),
        [torch.randn(3, 11, 3).cumsum(1), None, masked(3, 11).flip(-1)],
    ),
    "used twice": lambda e: (classifier(e, repeats=2), [torch.randn(3, 20, 3)]),
    "chirality": lambda e: (classifier(e, chirality=True), [torch.randn(3, 20, 3)]),
    "forecaster": lambda e: (forecaster(e), [torch.randn(3, 11, 3).cumsum(1)]),
    "smooth forecaster": lambda e: (forecaster(e, num_motions=4), [torch.randn(3, 11, 3).cumsum(1)]),
    "masked forecaster": lambda e: (forecaster(e), [torch.randn(3, 11, 3).cumsum(1), None, masked(3, 11).flip(-1)]),
    "early forecaster": lambda e: (
        forecaster(e, predict_attributes=True, **EARLY),
        [torch.randn(3, 11, 3).cumsum(1), torch.randn(3, 11, 2)],
    ),
}
NAMES = pytest.mark.parametrize("name", CASES)


@NAMES
@pytest.mark.parametrize("epsilon", [1e-6, 0.3])
def test_turning_the_input_is_turning_the_biases_back(name, epsilon):
    model, arguments = CASES[name](epsilon)
    subject = describe_subject(model, arguments)
    R = random_rotation(3)
    act = Action(rotation=R)
    with torch.no_grad():
        turned = subject.moved(act)
    expected = act(with_turned_biases(subject, R), subject.output)
    assert float(relative_difference(turned, expected).max()) <= 1e-12
    if epsilon > 0.1:  # and it is not that nothing happens
        assert float(violation(subject, act).min()) > 1e-4


@NAMES
def test_prediction_of_the_worst_case_within_5_percent_of_the_measured_one(name):
    model, arguments = CASES[name](1e-8)
    subject = describe_subject(model, arguments)
    law = first_order_law(subject)
    measured = measure(subject, num_samples=8, num_starts=2, num_steps=20)
    assert measured.method == "climbed"
    assert float(law.worst.max()) == pytest.approx(measured.worst, rel=0.05)
    # At every rotation, and for each item.
    R = random_rotation(3)
    assert torch.allclose(law.predict(R), violation(subject, Action(rotation=R)), rtol=1e-3)


@NAMES
def test_columns_are_those_of_torchs_own_forward_mode(name):
    model, arguments = CASES[name](1e-3)
    item = describe_subject(model, arguments).items(slice(0, 1))
    layers = bias_layers(item.module)

    def network(M):
        with shifted_biases(layers, dict.fromkeys(layers, M)):
            return item(*item.arguments).flatten()

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        expected = torch.stack(
            [
                torch.func.jvp(network, (torch.zeros(3, 3, dtype=torch.float64),), (entry,))[1]
                for entry in torch.eye(9, dtype=torch.float64).unflatten(-1, (3, 3))
            ],
            -1,
        )
    columns = first_order_law(item).columns[0]
    assert float((columns - expected).norm() / expected.norm()) <= 1e-12


@NAMES
def test_shares_of_the_layers_sum_to_one(name):
    model, arguments = CASES[name](1e-6)
    law = first_order_law(describe_subject(model, arguments))
    assert torch.allclose(torch.stack(list(law.shares.values())).sum(0), torch.ones(3, dtype=torch.float64))
    # A key's bias changes all scores of a query by the same number, which softmax does not see.
    assert all(
        float(share.abs().max()) < 1e-9 for layer, share in law.shares.items() if layer.endswith("attention.key")
    )


@pytest.mark.parametrize("make", [classifier, forecaster])
def test_clouds_that_are_taken_in_chunks_have_the_same_law(make):
    chunked, whole = (make(1e-4, depth=1, num_latents=4, chunk_size=size) for size in (5, 100))
    whole.load_state_dict(chunked.state_dict())
    X = torch.randn(2, 16, 3)
    one, two = (first_order_law(describe_subject(model, [X])) for model in (chunked, whole))
    assert torch.allclose(one.worst, two.worst, rtol=1e-6)
    for name, share in one.shares.items():
        assert torch.allclose(share, two.shares[name], atol=1e-6)


def test_the_worst_direction_is_where_the_output_goes():
    subject = describe_subject(classifier(1e-7), [torch.randn(3, 20, 3)])
    law = first_order_law(subject)
    with torch.no_grad():
        change = subject.moved(Action(rotation=law.worst_rotation)) - subject.value()
    cosine = torch.nn.functional.cosine_similarity(change, law.worst_direction)
    assert float(cosine.min()) > 1 - 1e-6


def test_worst_over_rotations_beats_a_fine_grid():
    A = torch.randn(20, 7, 9, dtype=torch.float64)
    gram = A.mT @ A
    value, R = worst_over_rotations(gram)
    m = (random_rotation(20000).mT - torch.eye(3, dtype=torch.float64)).flatten(-2)
    sampled = torch.einsum("ri,bij,rj->br", m, gram, m).amax(-1)
    assert bool((value >= sampled).all())
    assert float((value / sampled).max()) < 1.1
    assert torch.allclose(R @ R.mT, torch.eye(3, dtype=torch.float64).expand(20, 3, 3), atol=1e-9)


def test_the_papers_arrangement_obeys_the_law_too():
    torch.manual_seed(1)
    model = VNTransformerClassifier(dataclasses.replace(paper_classifier(5), bias_epsilon=1e-10)).eval()
    subject = describe_subject(model, [torch.randn(2, 32, 3)])
    law = first_order_law(subject)
    measured = measure(subject, num_samples=8, num_starts=1, num_steps=15)
    assert float(law.worst.max()) == pytest.approx(measured.worst, rel=0.05)


def test_no_bias_no_law():
    assert first_order_law(describe_subject(classifier(0.0), [torch.randn(1, 8, 3)])) is None
