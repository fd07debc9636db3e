"""The tester itself: it must pass what is equivariant and fail what is not, for each group and kind."""

import pytest
import torch
from torch import nn

import vnt
from vnt.geometry import nearest_neighbors
from vnt.testing import assert_equivariant, concat, equivariance_error, point, scalar, vector

X = torch.randn(4, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
V = torch.randn(4, 9, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def centred(x):
    return x - x.mean(-2, keepdim=True)


PASS = {
    "norm is invariant": (lambda x: x.norm(dim=-1), [X], ["vector"], scalar(-2), "SO(3)"),
    "norm is invariant to reflections": (lambda x: x.norm(dim=-1), [X], ["vector"], "scalar", "O(3)"),
    "determinant is invariant to rotations": (lambda x: torch.det(x[:, :3]), [X], ["vector"], "scalar", "SO(3)"),
    "a fixed axis survives turns about it": (
        lambda x: x * torch.tensor([1.0, 1, 2]),
        [X],
        ["vector"],
        "vector",
        "SO(2)",
    ),
    "centring forgets translations": (centred, [X], ["point"], "vector", "translations"),
    "the mean moves along": (lambda x: x.mean(-2), [X], ["point"], point(None), "translations"),
    "a sum forgets order": (lambda x: x.sum(-2), [X], ["point"], point(None), "permutations"),
    "a map of points keeps order": (lambda x: x.exp(), [X], ["point"], "point", "permutations"),
    "attributes stay": (lambda x: x * x[..., 3:4], [torch.cat([X, X], -1)], ["concat"], concat(), "SO(3)"),
    "two arguments turn together": (
        lambda x, y: torch.linalg.cross(x, y),
        [X, X.flip(1)],
        ["vector"] * 2,
        "vector",
        "SO(3)",
    ),
    "scalars may come along": (lambda x, a: x * a, [X, X[..., :1]], ["point", "scalar"], "vector", "SO(3)"),
}
FAIL = {
    "a coordinate": (lambda x: x[..., 0], [X], ["vector"], "scalar", "SO(3)"),
    "a determinant against a mirror": (lambda x: torch.det(x[:, :3]), [X], ["vector"], "scalar", "O(3)"),
    "a stretched axis": (lambda x: x * torch.tensor([1.0, 1, 2]), [X], ["vector"], "vector", "SO(3)"),
    "a turn about another axis": (lambda x: x * torch.tensor([1.0, 2, 1]), [X], ["vector"], "vector", "SO(2)"),
    "absolute coordinates": (lambda x: x.norm(dim=-1), [X], ["point"], "scalar", "translations"),
    "the first point": (lambda x: x[:, 0], [X], ["point"], point(None), "permutations"),
    "a leak between batch items": (lambda x: x - x.mean((0, 1)), [X], ["point"], "vector", "translations"),
    "NaN": (lambda x: x * float("nan"), [X], ["vector"], "vector", "SO(3)"),
}


@pytest.mark.parametrize("name", PASS)
def test_passes(name):
    function, arguments, inputs, output, group = PASS[name]
    assert_equivariant(function, arguments, inputs, output, group=group)


@pytest.mark.parametrize("name", FAIL)
def test_fails(name):
    function, arguments, inputs, output, group = FAIL[name]
    with pytest.raises(AssertionError, match="more than the 1e-11 allowed"):
        assert_equivariant(function, arguments, inputs, output, group=group)


class OrdinaryBias(nn.Module):
    """VN-Linear with a bias that does not turn."""

    def __init__(self):
        super().__init__()
        self.linear = vnt.VNLinear(6, 6).double()

    def forward(self, V):
        return self.linear(V) + 0.1


class CoordinateReLU(nn.Module):
    """An ordinary rectifier on coordinates."""

    def forward(self, V):
        return V.relu()


class FixedAxisMaxPool(nn.Module):
    """The vector that reaches farthest along x."""

    def forward(self, V):
        index = V[..., 0].argmax(1)[:, None, :, None].expand(-1, 1, -1, 3)
        return V.gather(1, index).squeeze(1)


class NeighborByIndex(nn.Module):
    """The nearest neighbour's vector, ties broken by index."""

    def forward(self, x):
        distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
        distance.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
        index = distance.topk(2, largest=False).indices
        return torch.stack([item[rows].mean(1) for item, rows in zip(x, index, strict=True)])


@pytest.mark.parametrize("layer", [OrdinaryBias(), CoordinateReLU(), FixedAxisMaxPool()])
def test_broken_layers_fail(layer):
    output = vector(None) if isinstance(layer, FixedAxisMaxPool) else "vector"
    assert equivariance_error(layer, [V], ["vector"], output) > 1e-2


def lattice(dtype=torch.float64):
    axis = torch.arange(-1, 2, dtype=dtype)
    return torch.cartesian_prod(axis, axis, axis)


def test_a_lattice_breaks_neighbours_chosen_by_index_and_not_ours():
    """Six faces tie for the nearest neighbour of a lattice point: index order breaks the symmetry, sharing keeps it."""
    x = lattice()[None].expand(3, -1, -1)

    def shared(x):
        index, weight = nearest_neighbors(x, 2)
        rows = torch.stack([item[i] for item, i in zip(x, index, strict=True)])
        return (weight[..., None] * rows).sum(-2)

    assert equivariance_error(NeighborByIndex(), [x], ["point"], "vector") > 1e-2
    assert equivariance_error(shared, [x], ["point"], "vector") < 1e-13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("k", [1, 4, 6, 7, 13, 20, 26])
def test_edge_convolution_and_max_pool_on_a_lattice(dtype, k):
    x = lattice(dtype)[None].expand(3, -1, -1)[..., None, :].contiguous()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    edges = vnt.VNEdgeConv(1, 16, num_neighbors=k).to(dtype)
    assert equivariance_error(edges, [x], ["vector"], "vector") < tolerance
    pool = vnt.VNMaxPool(16).to(dtype)
    features = edges(x + 0.3)  # off centre, so that the pooled vectors are not zero by symmetry
    assert equivariance_error(pool, [features.detach()], ["vector"], vector(None)) < tolerance


def test_max_pool_of_points_that_a_half_turn_swaps():
    """Where a vector is at a right angle to its direction, its score is nothing but rounding."""
    half_turn, V = torch.diag(torch.tensor([-1.0, -1, 1])), torch.randn(20, 64, 3)
    pairs = torch.stack([V, V @ half_turn], 1)
    assert equivariance_error(vnt.VNMaxPool(64), [pairs], ["vector"], vector(None)) < 1e-6


def test_dropout_sees_the_same_numbers_both_times():
    drop = nn.Dropout(0.5).train()
    assert equivariance_error(lambda v: v * drop(v.norm(dim=-1, keepdim=True)), [V], ["vector"], "vector") < 1e-14


def test_none_is_passed_on():
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=3, channels=8, num_heads=2)).double().eval()
    mask = torch.arange(9).lt(torch.tensor([[9], [5], [2], [1]]))
    assert_equivariant(model, [X, None, mask], ["point", "scalar", "scalar"], "scalar")


def test_unbatched():
    assert equivariance_error(lambda v: 2 * v, [V[0]], ["vector"], "vector", batched=False) < 1e-15
    assert equivariance_error(lambda x: x.relu(), [X[0]], ["point"], "point", batched=False) > 1e-2


def test_the_plane():
    V2 = V[..., :2]
    layer = vnt.VNEncoder(6, 2, depth=2, spatial_dim=2).double()
    assert equivariance_error(layer, [V2], ["vector"], "vector", group="SO(2)") < 1e-13
    assert equivariance_error(lambda v: v.relu(), [V2], ["vector"], "vector", group="SO(2)") > 1e-2
