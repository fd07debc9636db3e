"""Pairs of neighbours: what fades, what is far away, what is not there."""

import pytest
import torch

import vnt
from helpers import assert_close
from models.cases import classifier
from vnt import functional
from vnt.geometry import fading_neighbors
from vnt.models.heads import MaskedBatchNorm
from vnt.models.pairs import PairDescriptor


def test_what_counts_as_tied_changes_nothing_else():
    """Coordinates that are known less exactly have more ties; other weights stay as they are."""
    x = torch.randn(200, 3, dtype=torch.float64)
    weights = [fading_neighbors(x, 16, resolution=torch.tensor(r).double())[1] for r in (0.0, 1e-4)]
    clear = weights[0] > 0.1
    assert bool((weights[0][~clear] != weights[1][~clear]).any())
    assert torch.equal(weights[0][clear], weights[1][clear])


@pytest.mark.parametrize("size", [1e-10, 1e-14, 1e-20])
def test_tight_clusters_have_finite_slopes(size):
    x = (torch.randn(12, 3) * size).requires_grad_()
    fading_neighbors(x, 100)[1].sum().backward()
    assert bool(x.grad.isfinite().all())


def test_statistics_weigh_what_fades():
    x, weight = torch.randn(50, 4, dtype=torch.float64), torch.rand(50, dtype=torch.float64)
    mean, variance, count = functional.moments(x, weight)
    assert_close(count, weight.sum())
    assert_close(mean, (weight[:, None] * x).sum(0) / weight.sum())
    assert_close(variance, (weight[:, None] * (x - mean).square()).sum(0) / weight.sum())
    ones = torch.ones(50, dtype=torch.float64)
    for weighted, plain in zip(functional.moments(x, ones), functional.moments(x), strict=True):
        assert_close(weighted, plain.to(weighted.dtype))


def test_a_token_that_fades_out_leaves_no_trace():
    """So that batch statistics do not jump where a neighbour is no longer one; under weight 0 there may be anything."""
    norm, x = MaskedBatchNorm(4).double(), torch.randn(9, 4, dtype=torch.float64)
    x[0] = 50
    results = [norm(x, torch.tensor([share, *[1.0] * 8]).double())[1:] for share in (1e-12, 0.0)]
    assert_close(results[0], results[1], 1e-8)
    x[0] = torch.nan
    assert_close(norm(x, torch.tensor([0.0, *[1.0] * 8]).double())[1:], results[1])


def test_half_precision_stands_an_outlier():
    x = torch.randn(1, 2048, 3)
    x[0, 0] = torch.tensor([1e4, 0, 0])
    model = classifier("pairs", torch.float32, depth=1, pair_divisor=512).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.float16):
        assert bool(model(x).isfinite().all())


def test_what_lies_under_the_mask_does_not_matter():
    x, mask = torch.randn(2, 9, 3), torch.arange(9) < torch.tensor([[3], [9]])
    x[0, 3:] = torch.nan
    bare = functional.local_moments(x[0, :3], (0.5,))
    around = functional.local_moments(x, (0.5,), mask)
    for padded, alone in zip(around, bare, strict=True):
        assert_close(padded[0, :3], alone, 1e-6)
        assert not padded[0, 3:].any()
    describe = PairDescriptor(1, 8, 2, divisor=3).eval()
    found = describe(x, around, mask)
    assert_close(found[0, :3], describe(x[0, :3], bare), 1e-5)
    assert bool(found[1].isfinite().all())


def test_half_precision_points_are_measured_in_full():
    x = (40 * torch.randn(30, 3)).half()
    index = torch.arange(30).expand(30, 30)
    e = functional.pair_invariants(x, functional.local_moments(x, (0.5,)), index, 0.15)
    assert e.dtype == torch.float32
    assert bool(e.isfinite().all())


def test_pairs_need_surroundings():
    with pytest.raises(ValueError, match="pairs are described by surroundings, got none with pair_rounds=1"):
        vnt.ClassifierConfig(num_classes=3, pair_rounds=1)
