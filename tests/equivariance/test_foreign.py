"""Other people's networks: PyPI's VN-transformer and one built of e3nn's parts."""

import warnings

import pytest
import torch
from torch import nn

import vnt


def peer(**options):
    module = pytest.importorskip("VN_transformer.VN_transformer", reason="the extra 'bench' is not installed")
    return module.VNTransformer(dim=16, depth=2, dim_head=8, heads=2, **options).eval()


def words(report):
    return {precision: verdict.word for precision, verdict in report.verdicts.items()}


def test_the_peer_is_sound_under_rotations_as_it_comes():
    report = vnt.audit(peer(), torch.randn(3, 20, 3), inputs=["vector"], output="vector")
    assert words(report)["float64"] in ("exact", "ill-conditioned")
    assert not report.broken


def test_the_peers_translation_mode_leaks_between_the_items_of_a_batch():
    """It takes away the mean of all coordinates of the batch, not of each cloud."""
    model = peer(translation_equivariance=True)
    report = vnt.audit(
        model, torch.randn(3, 20, 3), inputs=["point"], output="point", also=["translations"], num_samples=6
    )
    assert words(report)["float64"] == "broken"
    assert report.fault == "the forward of VNTransformer itself, before vn_proj_in (Sequential)"
    checks = {check.name: check.verdicts["float64"].word for check in report.checks}
    assert checks == {"translations": "broken", "item alone": "broken"}
    assert report.broken
    # One cloud at a time there is nobody to leak to: then it is what it promises.
    alone = vnt.audit(model, torch.randn(1, 20, 3), inputs=["point"], output="point", also=["translations"])
    assert not alone.broken


def test_the_peers_bias_is_found_and_is_not_one_of_ours():
    """Its ε is one number for all three coordinates, so it points along (1, 1, 1); the audit says broken, and where."""
    report = vnt.audit(peer(bias_epsilon=1e-3), torch.randn(3, 20, 3), inputs=["vector"], output="vector")
    assert words(report)["float64"] == "broken"
    assert report.fault == "vn_proj_in.1 (VNLinear)"


class PointNetwork(nn.Module):
    """A small tensor field network of e3nn's parts: messages of spherical harmonics, gated, to one vector per point."""

    def __init__(self, o3):
        super().__init__()
        hidden = o3.Irreps("8x0e + 4x1o")
        self.harmonics = o3.SphericalHarmonics("1x0e + 1x1o", normalize=True)
        self.first = o3.FullyConnectedTensorProduct("1x0e", "1x0e + 1x1o", hidden)
        self.second = o3.FullyConnectedTensorProduct(hidden, "1x0e + 1x1o", "1x1o")
        self.radial = nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, x):
        difference = x[:, None, :, :] - x[:, :, None, :]
        distance = difference.norm(dim=-1, keepdim=True)
        edges = self.harmonics(difference)
        weight = self.radial(distance) * (distance > 0)
        ones = torch.ones_like(distance)
        tokens = (weight * self.first(ones, edges)).mean(2)
        messages = self.second(tokens[:, None].expand(-1, x.shape[1], -1, -1), edges)
        return (weight * messages).mean(2)


@pytest.fixture
def o3():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        e3nn = pytest.importorskip("e3nn", reason="the extra 'rivals' is not installed")
        from e3nn import o3

        e3nn.set_optimization_defaults(jit_script_fx=False)
        return o3


@pytest.mark.filterwarnings("ignore")
def test_an_e3nn_network_is_exact_in_its_own_axes(o3):
    """e3nn keeps l = 1 as x, y, z; SO(3), O(3), translations and permutations all hold."""
    report = vnt.audit(
        PointNetwork(o3),
        torch.randn(3, 12, 3),
        inputs=["point"],
        output=vnt.testing.vector(-2),
        also=["translations", "permutations", "O(3)"],
        precisions=["float64", "float32"],
    )
    assert words(report) == {"float64": "exact", "float32": "rounding"}
    assert not report.broken
    assert [check.name for check in report.checks] == ["translations", "permutations", "O(3)", "item alone"]


@pytest.mark.filterwarnings("ignore")
def test_an_e3nn_network_with_a_wrong_parity_is_caught(o3):
    """Reading three scalars as a vector breaks the symmetry at that layer."""

    class Wrong(PointNetwork):
        def __init__(self, o3):
            super().__init__(o3)
            self.second = o3.FullyConnectedTensorProduct("8x0e + 4x1o", "1x0e + 1x1o", "3x0e")

    report = vnt.audit(
        Wrong(o3), torch.randn(3, 12, 3), inputs=["point"], output=vnt.testing.vector(-2), precisions=["float64"]
    )
    assert words(report)["float64"] == "broken"
