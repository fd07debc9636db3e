"""What a careless audit would get wrong: each was a false verdict or a crash once."""

import pytest
import torch
from torch import nn

import vnt
from vnt import ClassifierConfig, VNEncoder, VNLinear, VNRMSNorm, VNTransformerClassifier, VNTransformerForecaster
from vnt.bench.toy import toy_tracks
from vnt.testing import scalar, vector

POINTS = torch.randn(4, 16, 3, generator=torch.Generator().manual_seed(0))


def audit(f, x=POINTS, inputs=("vector",), output="vector", **options):
    return vnt.audit(f, x, inputs=list(inputs), output=output, **options)


def word(report, precision="float64"):
    return report.verdicts[precision].word


def check(report, name, precision="float64"):
    return next(check for check in report.checks if check.name == name).verdicts[precision].word


def test_permutations_are_of_the_points_and_not_of_the_batch():
    by_order = audit(lambda x: x * x.new_tensor(range(1, x.shape[1] + 1))[None, :, None], also=["permutations"])
    assert check(by_order, "permutations") == "broken"
    sound = audit(lambda x: x - x.mean(1, keepdim=True), also=["permutations"])
    assert check(sound, "permutations") == "exact"
    pooled = audit(lambda x: x.mean(1), inputs=["point"], also=["permutations"])
    assert check(pooled, "permutations") == "exact"
    per_point = audit(
        lambda x: (x - x.mean(1, keepdim=True)).norm(dim=-1), output=scalar(token_axis=-1), also=["permutations"]
    )
    assert check(per_point, "permutations") == "exact"
    with pytest.raises(ValueError, match="the first axis counts batch items"):
        audit(lambda x: x, inputs=[vector(-3)], output=vector(-2), also=["permutations"])


class UpAndOut(nn.Module):
    """Height and distance from the z axis of each point: sound under turns about z."""

    def __init__(self, leak: float):
        super().__init__()
        self.leak, self.mix = leak, nn.Linear(2, 4)

    def forward(self, x):
        out = self.mix(torch.stack([x[..., 2], x[..., :2].norm(dim=-1)], -1)).mean(1)
        return out + self.leak * x[..., 0].mean(1, keepdim=True)


def test_turns_about_an_axis_are_traced_as_such():
    report = audit(UpAndOut(0.0), output="scalar", group="SO(2)")
    assert word(report) == "exact"
    assert all(step.violation_out < 1e-12 for step in report.steps["float64"])
    assert audit(UpAndOut(1.0), output="scalar", group="SO(2)").fault == "UpAndOut itself"


@pytest.mark.parametrize("epsilon", [0.0, 1e-3])
def test_modules_in_the_plane(epsilon):
    encoder = VNEncoder(8, 2, 1, spatial_dim=2, bias_epsilon=epsilon).eval()
    report = audit(encoder, torch.randn(3, 6, 8, 2), group="SO(2)")
    assert word(report) == ("exact" if epsilon == 0 else "ε-bias")


def test_float32_inside_is_not_a_fault():
    def sound(x):
        return (x - x.mean(1, keepdim=True)).float().norm(dim=-1).to(x.dtype).mean(1)[:, None]

    report = audit(sound, output="scalar")
    assert word(report) == "rounding"
    assert "float32 numbers inside" in report.verdicts["float64"].evidence
    leaky = audit(lambda x: sound(x) + x[:, 0, :1], output="scalar")
    assert word(leaky) == "undecided"


def test_nothing_but_rounding_is_refused():
    with pytest.raises(ValueError, match="nothing but rounding"):
        audit(lambda x: (x - x.mean(1, keepdim=True)).mean(1), POINTS[:, :15])


def test_a_bias_far_from_the_origin_is_still_a_bias():
    torch.manual_seed(0)
    model = VNTransformerForecaster(vnt.ForecasterConfig(bias_epsilon=1e-6)).eval()
    assert word(vnt.audit(model, toy_tracks(3, 11).double() + 1e5)) == "ε-bias"


def test_no_change_at_all_is_remarked_upon():
    report = audit(lambda x: torch.ones_like(x[:, 0, :1]), output="scalar")
    assert word(report) == "exact"
    assert any("does it depend on these inputs" in note for note in report.notes)


def test_one_item_alone_is_no_check():
    report = audit(lambda x: x - x.mean((0, 1)), POINTS[:1])
    assert not any(check.name == "item alone" for check in report.checks)
    assert any("one item only" in note for note in report.notes)


def test_small_noise_and_memory_are_refused():
    class Counts(nn.Module):
        calls = 0

        def forward(self, x):
            Counts.calls += 1
            return x * (1 + 1e-5 * Counts.calls)

    with pytest.raises(ValueError, match="stochastic, or remembers"):
        audit(Counts())
    with pytest.raises(ValueError, match="stochastic"):
        audit(lambda x: x + 1e-6 * torch.randn_like(x))


def test_what_overflows_in_one_precision_is_left_out_with_a_word():
    report = audit(lambda x: (x.norm(dim=-1) * 1e30) ** 2 / 1e60, output="scalar")
    assert word(report) == "exact"
    assert "float32" not in report.verdicts
    assert any("not finite in float32" in note for note in report.notes)


def test_complex_and_boolean_results_are_refused():
    with pytest.raises(ValueError, match=r"complex128.*give read="):
        audit(lambda x: torch.complex(x.norm(dim=-1), x[..., 0]), output="scalar")
    with pytest.raises(ValueError, match=r"torch\.bool"):
        audit(lambda x: x > 0)


def test_modules_that_work_in_place_do_not_fool_the_trace():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(3))

        def forward(self, V):
            return V.add_(self.bias)

    model = nn.Sequential(VNLinear(4, 4), InPlace(), VNLinear(4, 4), VNRMSNorm(4)).eval()
    assert audit(model, torch.randn(3, 6, 4, 3)).fault == "1 (InPlace)"


def test_flattened_vectors_are_recognised():
    model = nn.Sequential(VNLinear(4, 4), nn.Flatten(-2), nn.Linear(12, 5)).eval()
    assert audit(model, torch.randn(3, 6, 4, 3), output="scalar").fault == "2 (Linear)"


def test_tokens_of_all_items_in_one_axis():
    class Flattened(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = VNLinear(4, 8, bias_epsilon=1e-4)

        def forward(self, V):
            return self.layer(V.flatten(0, 1)).unflatten(0, V.shape[:2])

    report = audit(Flattened(), torch.randn(3, 6, 4, 3))
    assert word(report) == "ε-bias"
    assert report.unexplained < 1e-12


def test_a_module_that_keeps_an_activation_is_told_so():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = VNLinear(4, 4), None

        def forward(self, V):
            self.last = self.layer(V)
            return self.last

    model = Keeps()
    model(torch.randn(2, 3, 4, 3))
    with pytest.raises(ValueError, match="cannot be copied"):
        audit(model, torch.randn(2, 3, 4, 3))


def test_functions_that_work_in_place_leave_the_users_tensors_alone():
    x = POINTS.double()
    before = x.clone()
    report = audit(lambda x: x.sub_(x.mean(1, keepdim=True)).norm(dim=-1), x, output="scalar")
    assert torch.equal(x, before)
    assert word(report) == "exact"


def test_compiled_models_are_audited_as_what_they_were_compiled_from():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=3, channels=8, num_heads=2)).eval()
    assert word(vnt.audit(torch.compile(model), POINTS)) == "exact"


def test_reflections_are_climbed_to_on_their_own_side():
    """f = x + b with b of full rank: worst at −I, which no rotation reaches."""
    layer = VNLinear(3, 3, bias_epsilon=1e-3)
    with torch.no_grad():
        layer.bias_direction.copy_(torch.eye(3))
    for seed in range(3):
        report = audit(layer, torch.randn(1, 1, 3, 3), group="O(3)", seed=seed, num_steps=30)
        scale = float(report.violations["float64"].scale)
        assert report.violations["float64"].worst == pytest.approx(2e-3 * 3**0.5 / scale, rel=1e-4)
        assert report.certificate is None


def test_a_sweep_puts_biases_where_the_config_would():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=3, channels=8, num_heads=2, chirality=True)).eval()
    with torch.no_grad():
        model.trunk.chirality.right.weight.mul_(1e3)
        model.trunk.chirality.left.weight.mul_(1e-3)
    (point,) = vnt.audit(model, POINTS, epsilons=[1e-8], precisions=["float64"]).sweep
    assert point.measured <= point.certified


def test_small_messages():
    with pytest.raises(ValueError, match="a list such as"):
        vnt.audit(lambda x: x, POINTS, inputs="vector", output="vector")
    with pytest.raises(ValueError, match="num_samples"):
        audit(lambda x: 2 * x, num_samples=0)
    report = audit(lambda x: 2 * x, group="translations", inputs=["point"], output="point", also=["translations"])
    assert [check.name for check in report.checks] == ["item alone"]
