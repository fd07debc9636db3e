"""Verdicts: sound models pass, planted bugs are caught and named, and what cannot be judged is refused."""

import dataclasses
import json

import pytest
import torch
from torch import nn

import vnt
from vnt import ClassifierConfig, ForecasterConfig, VNLinear, VNTransformerClassifier, VNTransformerForecaster
from vnt.bench.toy import toy_clouds, toy_tracks, train_classifier, train_forecaster
from vnt.equivariance.tracing import trace
from vnt.equivariance.verdicts import judge
from vnt.geometry import random_rotation
from vnt.models.rivals.config import TransformerClassifierConfig
from vnt.models.rivals.transformer import TransformerClassifier
from vnt.testing import oracles, scalar, vector

SMALL = {"channels": 16, "num_heads": 4}


def words(report):
    return [report.verdicts[p].word for p in ("float64", "float32", "bfloat16")]


@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["classifier", "forecaster"])
def test_default_models(kind, epsilon):
    if kind == "classifier":
        model = VNTransformerClassifier(ClassifierConfig(num_classes=5, bias_epsilon=epsilon))
        points = toy_clouds(3, 64)[0]
    else:
        model = VNTransformerForecaster(ForecasterConfig(bias_epsilon=epsilon))
        points = toy_tracks(3, 11)
    report = vnt.audit(model.eval(), points)
    assert words(report)[:2] == (["exact", "rounding"] if epsilon == 0 else ["ε-bias", "ε-bias"])
    assert words(report)[2] == "rounding"
    assert not report.broken
    assert {check.name for check in report.checks} >= {"translations", "item alone"}
    for check in report.checks:
        assert check.verdicts["float64"].word == "exact"
        assert check.verdicts["float32"].word in ("exact", "rounding")
    if epsilon == 0:
        assert report.violations["float64"].worst <= 1e-11
        assert report.law is None
        assert "nothing to bound" in report.no_certificate
    else:
        assert report.unexplained <= 1e-12
        assert report.violations["float64"].worst <= report.certificate.worst
        assert "goes away when the biases turn" in report.verdicts["float64"].evidence
        assert all(bound.exact <= bound.paper for bound in report.biases)


def test_a_bias_is_a_bias_under_turns_about_an_axis_and_in_training_too():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=4, bias_epsilon=1e-6, mlp_norm="batch", **SMALL))
    for report in (
        vnt.audit(model.eval(), torch.randn(3, 20, 3), group="SO(2)"),
        vnt.audit(model.train(), torch.randn(3, 20, 3)),
    ):
        assert words(report)[0] == "ε-bias"
        assert report.law is None
        assert "law and certificate are for" in report.no_certificate


def test_masks_attributes_and_latents_are_audited_too():
    config = ClassifierConfig(
        num_classes=4, num_attributes=2, fusion="early", num_latents=4, bias_epsilon=1e-6, **SMALL
    )
    mask = torch.ones(3, 20, dtype=torch.bool)
    mask[0, 15:] = False
    model = VNTransformerClassifier(config).eval()
    report = vnt.audit(model, torch.randn(3, 20, 3), torch.randn(3, 20, 2), mask)
    assert words(report)[:2] == ["ε-bias", "ε-bias"]
    assert not report.broken
    assert {check.name for check in report.checks} == {"translations", "permutations", "item alone"}


def test_the_papers_arrangement_is_ill_conditioned_and_told_where():
    torch.manual_seed(0)
    model = VNTransformerForecaster(dataclasses.replace(vnt.paper_forecaster(), bias_epsilon=0.0))
    train_forecaster(model, steps=20)
    report = vnt.audit(model.eval(), toy_tracks(4, 11))
    assert words(report)[1] == "ill-conditioned"
    assert words(report)[0] in ("exact", "ill-conditioned")
    assert not report.broken
    assert "together they make it" in report.advice[0]
    assert "Norm" in report.advice[0]


def test_a_norm_that_blows_up_short_channels_is_named_with_their_number():
    """VN-ReLU on freshly lifted points, whose channels are parallel, zeroes half of them; the norm divides rounding."""
    torch.manual_seed(0)
    model = nn.Sequential(VNLinear(1, 64), vnt.VNReLU(64), vnt.VNLayerNorm(64, eps=0.0), VNLinear(64, 8)).eval()
    report = vnt.audit(model, torch.randn(3, 20, 1, 3), inputs=["vector"], output="vector")
    assert words(report)[1] == "ill-conditioned"
    text = next(text for text in report.advice if text.startswith("2 (VNLayerNorm)"))
    assert "channels that enter it are shorter than 1e-05 of their token's longest" in text
    assert "VNRMSNorm does not" in text


def test_a_tiny_fault_is_not_taken_for_rounding():
    class Faulty(VNTransformerClassifier):
        def forward(self, points):
            return super().forward(points) + 1e-8 * points[:, 0, :1] * torch.arange(4).to(points)

    report = vnt.audit(Faulty(ClassifierConfig(num_classes=4, **SMALL)).eval(), torch.randn(3, 20, 3))
    assert words(report)[0] == "broken"


def test_a_fault_under_a_bias_is_not_taken_for_the_bias():
    class Faulty(VNTransformerClassifier):
        def forward(self, points):
            return super().forward(points) + 1e-4 * points[:, 0, :1] * torch.arange(4).to(points)

    config = ClassifierConfig(num_classes=4, bias_epsilon=1e-6, **SMALL)
    report = vnt.audit(Faulty(config).eval(), torch.randn(3, 20, 3))
    assert words(report)[0] == "broken"
    assert "not the biases'" in report.verdicts["float64"].evidence
    assert report.fault == "Faulty itself"


# Planted bugs: each replaces one part of a sound model.


class OrdinaryBias(nn.Module):
    """x + b, as nn.Linear has it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.bias = nn.Parameter(0.1 * torch.randn(3))

    def forward(self, V):
        return self.inner(V) + self.bias


class AbsoluteLeak(nn.Module):
    """Lengths along z scale the channels."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, V):
        return self.inner(V) * (1 + 0.1 * V[..., :1, 2:].tanh())


class BatchLeak(nn.Module):
    """The mean of the batch is taken away."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, V):
        return self.inner(V - V.mean(0, keepdim=True))


class FixedAxisMaxPool(nn.Module):
    """The largest of each coordinate."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, V):
        return self.inner(V) + V.amax(-3, keepdim=True)


class TiesByIndex(nn.Module):
    """The mean of the three nearest tokens, as `topk` finds them."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, V):
        flat = V.flatten(-2)
        index = torch.cdist(flat, flat).topk(3, largest=False).indices
        near = torch.stack([cloud[rows] for cloud, rows in zip(V, index, strict=True)]).mean(-3)
        return self.inner(V) + near


def lattice():
    axis = torch.arange(3.0)
    grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(1, 27, 3)
    return grid.repeat(2, 1, 1)


@pytest.mark.parametrize("bug", [OrdinaryBias, AbsoluteLeak, BatchLeak, FixedAxisMaxPool, TiesByIndex])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
def test_planted_bugs_are_flagged_and_named(bug, epsilon):
    torch.manual_seed(0)
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5, bias_epsilon=epsilon, **SMALL)).eval()
    attention = model.trunk.encoder.blocks[1].attention
    if bug is TiesByIndex:  # ties show where there are ties: on a lattice
        model.lift.lift, points = bug(model.lift.lift), lattice()
    else:
        attention.output, points = bug(attention.output), torch.randn(4, 30, 3)
    report = vnt.audit(model, points, num_samples=6)
    assert words(report)[0] == "broken"
    assert report.broken
    named = "lift.lift" if bug is TiesByIndex else "trunk.encoder.blocks.1.attention.output"
    assert named in report.fault
    assert bug.__name__ in report.fault
    assert report.certificate is None
    assert named in report.verdicts["float64"].evidence
    if bug is BatchLeak:
        alone = next(check for check in report.checks if check.name == "item alone")
        assert alone.verdicts["float64"].word == "broken"


def test_a_wrong_projection_keeps_the_symmetry_and_is_caught_by_the_oracle_instead():
    class WrongReLU(vnt.VNReLU):
        """k instead of k̂: the slip of a public port."""

        def forward(self, V):
            q, k = vnt.functional.linear(V, self.weight), vnt.functional.linear(V, self.direction)
            along = (q * k).sum(-1, keepdim=True).clamp(max=0)
            return q - along / (k.norm(dim=-1, keepdim=True) + 1e-12) * k

    layer = WrongReLU(6).eval()
    V = torch.randn(3, 5, 6, 3)
    report = vnt.audit(layer, V, inputs=["vector"], output="vector")
    assert words(report)[:2] == ["exact", "rounding"]
    expected = torch.as_tensor(oracles.relu(V[0, 0], layer.weight, layer.direction))
    assert float((layer(V)[0, 0].detach() - expected).abs().max()) > 1e-2


def test_an_ordinary_transformer_is_broken_at_its_first_layer():
    model = TransformerClassifier(TransformerClassifierConfig(num_classes=4)).eval()
    report = vnt.audit(model, torch.randn(3, 20, 3))
    assert words(report) == ["broken"] * 3
    assert "encoder.embed (Linear)" in report.fault
    assert all(check.verdicts["float64"].word == "exact" for check in report.checks)  # moved and reordered, it is sound


def test_plain_functions_and_what_they_need_described():
    def nearest(points):
        return torch.cdist(points, points).sort(-1).values[..., 1]

    report = vnt.audit(nearest, torch.randn(2, 10, 3), inputs=["point"], output=scalar(-1), also=["translations"])
    assert words(report)[:2] == ["exact", "rounding"]
    with pytest.raises(ValueError, match="say how"):
        vnt.audit(nearest, torch.randn(2, 10, 3))
    with pytest.raises(ValueError, match="2 arguments but 1"):
        vnt.audit(nearest, torch.randn(2, 10, 3), torch.randn(2, 10, 3), inputs=["point"], output="scalar")
    with pytest.raises(ValueError, match="that turns"):
        vnt.audit(torch.sin, torch.randn(2, 3), inputs=["scalar"], output="scalar")
    with pytest.raises(ValueError, match="count batch items"):
        vnt.audit(torch.add, torch.randn(2, 3), torch.randn(4, 3), inputs=["vector", "vector"], output="vector")
    with pytest.raises(ValueError, match="precisions"):
        vnt.audit(nearest, torch.randn(2, 10, 3), inputs=["point"], output="scalar", precisions=["float16"])


def test_only_what_stands_still_is_asked_whether_it_depends_on_its_inputs():
    X, how = torch.randn(2, 4, 3), {"inputs": ["vector"], "precisions": ("float64",)}
    turns = vnt.audit(lambda p: p, X, output="vector", **how)
    stands = vnt.audit(lambda p: torch.ones_like(p[:, 0]), X, output="scalar", **how)
    asked = [any("does it depend" in note for note in report.notes) for report in (turns, stands)]
    assert asked == [False, True]


def test_a_sweep_without_float64_says_so():
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=5, channels=8, num_heads=2, depth=1)).eval()
    report = vnt.audit(model, torch.randn(2, 8, 3), precisions=("float32",), epsilons=(1e-3,), also=())
    assert report.sweep == []
    assert "the sweep over ε needs float64 among the precisions" in report.notes


def test_a_function_tied_to_one_dtype_gets_no_verdict():
    weight = torch.randn(3, 3)
    report = vnt.audit(lambda x: x @ weight, torch.randn(2, 10, 3), inputs=["vector"], output="vector")
    assert "float64" not in report.verdicts
    assert report.verdicts["float32"].word == "undecided"
    assert "does not run in float64" in report.notes[0]
    assert "give the module itself" in report.notes[0]


def test_stochastic_models_are_refused():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=4, dropout=0.5, **SMALL)).train()
    with pytest.raises(ValueError, match=r"stochastic.*dropout is on in head.3; call eval"):
        vnt.audit(model, torch.randn(2, 10, 3))
    with pytest.raises(ValueError, match="stochastic"):
        vnt.audit(lambda x: x + torch.randn_like(x), torch.randn(2, 10, 3), inputs=["vector"], output="vector")


def test_numbers_that_are_not_finite_are_refused_with_the_layer():
    class Root(nn.Module):
        def forward(self, V):
            return (V - 1).sqrt()

    model = nn.Sequential(VNLinear(4, 4), Root(), VNLinear(4, 4))
    with pytest.raises(ValueError, match=r"not finite in float64, first in 1 \(Root\)"):
        vnt.audit(model, torch.randn(2, 5, 4, 3), inputs=["vector"], output="vector")


def test_shapes_that_do_not_fit_are_refused():
    points = torch.randn(2, 10, 3)
    with pytest.raises(ValueError, match="returned tuple"):
        vnt.audit(lambda x: (x, x), points, inputs=["vector"], output="vector")
    with pytest.raises(ValueError, match="first axis of the result must count them"):
        vnt.audit(lambda x: x.sum(0), points, inputs=["vector"], output="vector")
    with pytest.raises(ValueError, match="cannot turn"):
        vnt.audit(lambda x: x[..., :2], points, inputs=["vector"], output="vector")
    with pytest.raises(ValueError, match="nothing but zeros"):
        vnt.audit(torch.zeros_like, points, inputs=["vector"], output="vector")


def test_what_is_not_differentiable_is_judged_by_samples_and_says_so():
    class Rounds(nn.Module):
        def forward(self, x):
            return (8 * x).round()

    report = vnt.audit(Rounds(), torch.randn(2, 10, 3), inputs=["vector"], output="vector")
    assert report.verdicts["float64"].word == "broken"
    report = vnt.audit(
        lambda x: torch.from_numpy(x.numpy().round()), torch.randn(2, 10, 3), inputs=["vector"], output="vector"
    )
    assert report.violations["float64"].method == "sampled"
    assert any("no gradient" in note for note in report.notes)


def test_the_model_is_left_as_it_was():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=4, mlp_norm="batch", bias_epsilon=1e-3, **SMALL))
    train_classifier(model, steps=1, num_classes=4)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    points = torch.randn(2, 10, 3, requires_grad=True)
    vnt.audit(model, points, epsilons=(1e-6,))
    assert model.training
    assert points.grad is None
    for name, x in model.state_dict().items():
        assert torch.equal(x, before[name])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_reports_print_and_survive_json():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=4, bias_epsilon=1e-6, **SMALL)).eval()
    said = []
    report = vnt.audit(model, torch.randn(2, 16, 3), epsilons=(1e-6, 1e-1), progress=said.append)
    assert "certificate" in said
    text = str(report)
    for expected in ("ε-bias", "first-order law", "certified: no rotation exceeds", "item alone", "climbed"):
        assert expected in text
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert values["violations"]["float64"]["verdict"] == "ε-bias"
    assert len(values["sweep"]) == 2


def test_trace_guesses_how_tensors_turn():
    """Whatever the axis of the vectors, and also where the batch has been flattened into the tokens."""

    class Layouts(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Identity() for _ in range(4))

        def forward(self, V):
            first = self.parts[0](V)  # (B, N, C, 3)
            second = self.parts[1](first.movedim(-1, 1))  # (B, 3, N, C)
            third = self.parts[2](first.flatten(0, 1))  # (B·N, C, 3)
            return (
                self.parts[3](third.norm(dim=-1)).unflatten(0, first.shape[:2])
                + second.sum((1, 2, 3)).mul(0)[:, None, None]
            )

    subject = vnt.equivariance.describe_subject(Layouts(), [torch.randn(3, 5, 4, 3)], ["vector"], "scalar")
    steps = trace(subject, random_rotation(3))
    assert len(steps) == 5
    assert all(step.violation_out < 1e-14 for step in steps)


def test_verdict_words():
    def word(f64, f32, unexplained=None):
        found = judge({"float64": f64, "float32": f32}, unexplained, 1e-6)
        return found["float64"].word, found["float32"].word

    assert word(1e-15, 1e-6) == ("exact", "rounding")
    assert word(1e-13, 1e-2) == ("exact", "ill-conditioned")
    assert word(1e-9, 1e-1) == ("ill-conditioned", "ill-conditioned")
    assert word(1e-5, 1e-5, 1e-14) == ("ε-bias", "ε-bias")
    assert word(1e-8, 1e-6, 1e-14) == ("ε-bias", "rounding")
    assert word(1e-5, 1e-5, 1e-6) == ("broken", "broken")
    assert word(1e-9, 1e-6) == ("broken", "rounding")
    assert word(0.5, 0.5) == ("broken", "broken")
    assert judge({"float32": 1e-6}, None, 0.0)["float32"].word == "undecided"


def test_tokens_first_descriptions():
    report = vnt.audit(
        vnt.VNMeanPool(),
        torch.randn(2, 9, 4, 3),
        inputs=[vector(-3)],
        output=vector(None),
        also=["permutations", "O(3)"],
    )
    assert words(report)[0] == "exact"
    assert [check.name for check in report.checks] == ["permutations", "O(3)", "item alone"]


@pytest.mark.parametrize("lengths", [(12, 7), (12, 8)])
def test_ragged_batches_are_audited_item_by_item(lengths):
    """Packed tokens would count as items: lengths that sum to an even number used to pair the wrong ones."""
    torch.manual_seed(0)
    config = vnt.ClassifierConfig(num_classes=5, channels=8, num_heads=2, depth=2, bias_epsilon=1e-3)
    model = vnt.VNTransformerClassifier(config).eval()
    mask = torch.arange(12) < torch.tensor(lengths)[:, None]
    report = vnt.audit(model, torch.randn(2, 12, 3), None, mask, num_certified=0)
    assert report.verdicts["float64"].word == "ε-bias"
    assert report.unexplained is not None
    assert report.unexplained < 1e-12
