from dataclasses import replace

import pytest
import torch

from vnt.data.batches import CloudBatch, MotionBatch
from vnt.data.transforms import (
    DropPoints,
    FarthestPoints,
    Jitter,
    MixClouds,
    RandomRotation,
    RandomSample,
    RandomScale,
    RandomShift,
    SlideWindow,
    UnitSphere,
    _argsort,
    farthest_points,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def batch(B=6, N=20, *, masked=False, vectors=False):
    mask = torch.arange(N) < torch.randint(1, N + 1, (B, 1)) if masked else None
    points = torch.randn(B, N, 3)
    if mask is not None:
        points = torch.where(mask[..., None], points, 1e9)
    normals = torch.randn(B, N, 1, 3) if vectors else None
    index = torch.arange(N).float().expand(B, N)[..., None].clone()
    return CloudBatch(points=points, labels=torch.arange(B), mask=mask, attributes=index, vectors=normals)


TRANSFORMS = [
    RandomRotation("SO3"),
    RandomRotation("z", up="y"),
    RandomSample(10),
    RandomSample(20),
    FarthestPoints(10),
    RandomScale(),
    RandomScale(per_axis=False),
    RandomShift(),
    Jitter(),
    MixClouds(0.5, 6),
    DropPoints(),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
@pytest.mark.parametrize("masked", [False, True])
def test_seeded_and_harmless(transform, masked):
    x = batch(masked=masked)
    before = x.map(torch.clone)
    first, again, other = (transform(x, generator(seed)) for seed in (0, 0, 1))
    for name, value in first.tensors().items():
        assert torch.equal(value, again.tensors()[name])
    assert not all(torch.equal(value, other.tensors()[name]) for name, value in first.tensors().items())
    for name, value in before.tensors().items():
        assert torch.equal(value, x.tensors()[name]), "the input was changed"
    assert isinstance(transform, MixClouds) or torch.equal(first.labels, x.labels)
    assert first.mask is None or first.mask.any(1).all()


@pytest.mark.parametrize("up", ["x", "y", "z"])
def test_protocol_z_keeps_the_up_axis(up):
    x = batch(vectors=True)
    turned = RandomRotation("z", up=up)(x, generator())
    axis = "xyz".index(up)
    assert torch.allclose(turned.points[..., axis], x.points[..., axis], atol=1e-6)
    assert torch.allclose(turned.vectors[..., axis], x.vectors[..., axis], atol=1e-6)
    rest = [a for a in range(3) if a != axis]
    assert (turned.points - x.points)[..., rest].abs().amax((1, 2)).min() > 1e-3


def test_protocol_so3_is_uniform():
    """A uniformly turned vector is uniform on the sphere: mean zero, each coordinate of variance one third."""
    x = CloudBatch(points=torch.tensor([0.0, 0.0, 1.0]).expand(20_000, 1, 3).contiguous())
    turned = RandomRotation("SO3")(x, generator()).points[:, 0]
    assert turned.mean(0).abs().max() < 0.02
    assert torch.allclose(turned.T.cov(), torch.eye(3) / 3, atol=0.01)


def test_protocol_i_does_nothing():
    x = batch()
    assert RandomRotation("I")(x, generator()) is x


def test_rotation_of_tracks():
    x = MotionBatch(past=torch.randn(4, 5, 3), future=torch.randn(4, 6, 3))
    turned = RandomRotation("z")(x, generator())
    assert torch.allclose(turned.past[..., 2], x.past[..., 2])
    together = torch.cat([x.past, x.future], 1), torch.cat([turned.past, turned.future], 1)
    assert torch.allclose(torch.cdist(together[0], together[0]), torch.cdist(together[1], together[1]), atol=1e-4)


def test_samples_are_distinct_existing_points_with_their_attributes():
    x = batch(masked=False)
    sample = RandomSample(10)(x, generator())
    for row, index in enumerate(sample.attributes[..., 0].long()):
        assert len(set(index.tolist())) == 10
        assert torch.equal(sample.points[row], x.points[row, index])


def test_sampling_is_uniform():
    x = batch(B=4000, N=8)
    counts = RandomSample(2)(x, generator()).attributes.flatten().long().bincount(minlength=8)
    assert (counts - 1000).abs().max() < 130


@pytest.mark.parametrize("transform", [RandomSample(30), FarthestPoints(30)], ids=repr)
@pytest.mark.parametrize("masked", [False, True])
def test_small_clouds_repeat_points_and_never_padding(transform, masked):
    x = batch(masked=masked)
    sample = transform(x, generator())
    assert sample.points.shape == (6, 30, 3)
    assert sample.mask is None
    assert sample.points.abs().max() < 100
    for row in range(6):
        exists = x.attributes[row, :, 0] if x.mask is None else x.attributes[row, x.mask[row], 0]
        assert set(sample.attributes[row, :, 0].tolist()) == set(exists.tolist())


def test_farthest_points_by_hand():
    line = torch.tensor([0.0, 1.0, 2.0, 3.0, 10.0])[None, :, None] * torch.tensor([1.0, 0.0, 0.0])
    assert farthest_points(line, 4).tolist() == [[4, 0, 3, 1]]
    mask = torch.tensor([[True, True, True, True, False]])
    assert farthest_points(line, 3, mask).tolist() == [[0, 3, 1]]


def test_farthest_points_cover_better_than_chance():
    points = torch.randn(8, 500, 3)
    far = points[torch.arange(8)[:, None], farthest_points(points, 50)]
    assert torch.cdist(points, far).amin(2).amax() < torch.cdist(points, points[:, :50]).amin(2).amax()


def test_scale_ranges():
    x = batch(B=500)
    factor = RandomScale(0.5, 2.0)(x, generator()).points / x.points
    assert torch.allclose(factor, factor[:, :1], atol=1e-4)  # one for all points of a cloud
    assert factor.min() >= 0.4999
    assert factor.max() <= 2.0001
    assert (factor[:, 0, 0] - factor[:, 0, 1]).abs().mean() > 0.1
    equal = RandomScale(0.5, 2.0, per_axis=False)(x, generator()).points / x.points
    assert torch.allclose(equal, equal[:, :1, :1], atol=1e-4)


def test_jitter_is_clipped():
    x = batch(B=100)
    noise = Jitter(std=0.1, clip=0.05)(x, generator()).points - x.points
    assert 0.04 < noise.abs().max() < 0.0501


def test_dropped_shares_vary_and_one_point_stays():
    x = batch(B=400, N=50)
    kept = DropPoints(0.8)(x, generator()).mask.float().mean(1)
    assert kept.min() < 0.35
    assert kept.max() > 0.9
    one = CloudBatch(points=torch.randn(50, 1, 3), mask=torch.ones(50, 1, dtype=torch.bool))
    assert DropPoints(1.0)(one, generator()).mask.all()


def test_dropping_keeps_padding_out():
    x = batch(masked=True)
    assert not (DropPoints(0.1)(x, generator()).mask & ~x.mask).any()


@pytest.mark.parametrize("masked", [False, True])
def test_mixing_takes_points_and_labels_in_the_same_share(masked):
    """Clouds of which each has its own number as attribute: what came from whom can be counted."""
    B, N = 64, 40
    mask = torch.arange(N) < torch.randint(5, N, (B, 1)) if masked else None
    x = CloudBatch(points=torch.randn(B, N, 3), labels=torch.arange(B), mask=mask)
    x = replace(x, attributes=x.labels[:, None, None].expand(B, N, 1).float(), vectors=x.points[:, :, None] + 1)
    mixed = MixClouds(0.7, B)(x, generator())
    exists = torch.ones(B, N, dtype=torch.bool) if mixed.mask is None else mixed.mask
    assert torch.equal(mixed.vectors[:, :, 0][exists], mixed.points[exists] + 1)
    for row in range(B):
        sources = mixed.attributes[row, exists[row], 0].long()
        assert torch.allclose(mixed.labels[row], sources.bincount(minlength=B) / len(sources), atol=1e-6)
        assert set(sources.tolist()) <= {row, (row - 1) % B}
    changed = (mixed.labels.amax(1) < 1).float().mean()
    assert 0.2 < changed < 0.9


def test_mixed_clouds_are_cut_by_a_plane():
    x = CloudBatch(points=torch.randn(32, 60, 3), labels=torch.arange(32))
    x = replace(x, attributes=x.labels[:, None, None].expand(32, 60, 1).float())
    mixed = MixClouds(1.0, 32)(x, generator())
    assert (mixed.labels.amax(1) < 1).sum() > 25
    for row in range(32):
        own = mixed.attributes[row, :, 0] == row
        kept = {tuple(p) for p in mixed.points[row, own].tolist()}
        lost = [p for p in x.points[row].tolist() if tuple(p) not in kept]
        if lost and kept:
            assert separable(torch.tensor(sorted(kept)), torch.tensor(lost))


def separable(a, b):
    """Whether some plane has all of a on one side and all of b on the other: a perceptron finds it."""
    x = torch.cat([torch.cat([a, torch.ones(len(a), 1)], 1), -torch.cat([b, torch.ones(len(b), 1)], 1)]).double()
    w = torch.zeros(4, dtype=torch.float64)
    for _ in range(20000):
        wrong = (x @ w <= 0).nonzero()
        if len(wrong) == 0:
            return True
        w = w + x[wrong[0, 0]]
    return False


def test_clouds_without_labels_are_not_mixed():
    with pytest.raises(ValueError, match="clouds without labels cannot be mixed"):
        MixClouds(0.5, 3)(CloudBatch(points=torch.randn(2, 5, 3)), generator())


def straight_tracks(masked=False):
    """Twenty steps, of which six are past; the x of a step is its number."""
    x = torch.zeros(50, 20, 3)
    x[..., 0] = torch.arange(20.0)
    mask = torch.rand(50, 6) < 0.5 if masked else None
    return MotionBatch(past=x[:, :6] - 5, future=x[:, 6:] - 5, mask=mask)


@pytest.mark.parametrize("masked", [False, True])
def test_sliding_makes_future_past(masked):
    x = straight_tracks(masked)
    slid = SlideWindow(8)(x, generator())
    unknown = (~slid.known).sum(1)
    assert unknown.unique().tolist() == list(range(9))  # every shift that may be
    assert torch.equal(slid.past[:, -1], torch.zeros(50, 3))
    assert torch.equal(slid.past[..., 0], torch.arange(-5.0, 1).expand(50, 6))
    assert torch.equal(slid.future[..., 0][slid.known], torch.arange(1.0, 15).expand(50, 14)[slid.known])
    assert torch.equal(slid.known, torch.arange(14) < 14 - unknown[:, None])
    if masked:
        for row in range(50):
            kept = max(0, 6 - int(unknown[row]))
            assert torch.equal(slid.mask[row, :kept], x.mask[row, 6 - kept :])
            assert slid.mask[row, kept:].all()


@pytest.mark.parametrize("masked", [False, True])
def test_what_is_not_known_of_the_future_is_not_observed_when_it_is_past(masked):
    x = straight_tracks(masked)
    known = torch.rand(50, 14) < 0.6
    future = torch.where(known[..., None], x.future, 99.0)
    slid = SlideWindow(8)(replace(x, future=future, known=known), generator())
    assert slid.mask[:, -1].all() or masked
    where = torch.where
    assert not bool((where(slid.mask[..., None], slid.past, 0).abs() > 50).any())
    assert not bool((where(slid.known[..., None], slid.future, 0).abs() > 50).any())
    assert bool((~slid.mask).any())  # some were not known
    observed = where(slid.mask, slid.past[..., 0], torch.arange(-5.0, 1))
    assert torch.equal(observed, torch.arange(-5.0, 1).expand(50, 6))


def test_attributes_and_vectors_slide_with_their_steps():
    x = straight_tracks()
    track = torch.cat([x.past, x.future], 1)
    numbers, vectors = track[..., :1] + 100, (track + 200)[..., None, :]
    known = {"attributes": numbers[:, :6], "future_attributes": numbers[:, 6:]}
    known |= {"vectors": vectors[:, :6], "future_vectors": vectors[:, 6:]}
    slid = SlideWindow(8)(replace(x, **known), generator())
    shift = (~slid.known).sum(1)[:, None]
    assert torch.equal(slid.attributes[..., 0], slid.past[..., 0] + 100 + shift)
    assert torch.equal(slid.vectors[:, :, 0, 0], slid.past[..., 0] + 200 + shift)
    assert slid.future_attributes is None  # no work is done on what no model gets
    assert slid.future_vectors is None


@pytest.mark.parametrize("name", ["attributes", "vectors"])
def test_what_is_known_of_the_past_alone_cannot_slide(name):
    x = replace(straight_tracks(), **{name: torch.ones(50, 6, 1, *[3] * (name == "vectors"))})
    with pytest.raises(ValueError, match=f"windows with {name} cannot slide"):
        SlideWindow(2)(x, generator())


def test_messages():
    with pytest.raises(ValueError, match="protocol must be 'I', 'z' or 'SO3', got 'so3'"):
        RandomRotation("so3")
    with pytest.raises(ValueError, match="up must be 'x', 'y' or 'z', got 'up'"):
        RandomRotation("z", up="up")


@pytest.mark.parametrize("masked", [False, True])
def test_unit_sphere(masked):
    x = batch(masked=masked, vectors=True)
    x = replace(x, points=x.points * torch.rand(6, 1, 1).add(0.1) * 50 + torch.randn(6, 1, 3) * 100)
    done = UnitSphere()(x, generator())
    assert torch.equal(done.vectors, x.vectors)
    for row in range(6):
        exists = torch.ones(20, dtype=torch.bool) if x.mask is None else x.mask[row]
        points, before = done.points[row, exists], x.points[row, exists]
        assert points.mean(0).abs().max() < 1e-5
        if len(points) > 1:
            assert points.norm(dim=-1).max() == pytest.approx(1, abs=1e-5)
            assert torch.allclose(
                torch.pdist(points), torch.pdist(before) / (before - before.mean(0)).norm(dim=-1).max(), atol=1e-4
            )


def test_a_cloud_in_one_place_has_no_unit_sphere():
    one = CloudBatch(points=torch.full((2, 5, 3), 7.0))
    assert torch.equal(UnitSphere()(one, generator()).points, torch.zeros(2, 5, 3))


def test_normals_stay_normal_when_axes_are_scaled():
    """Two edges of each face and its normal: after scaling, the normal is still at right angles to both."""
    edges = torch.randn(50, 2, 3)
    normal = torch.linalg.cross(edges[:, 0], edges[:, 1])
    normal = 3 * normal / normal.norm(dim=-1, keepdim=True)
    x = CloudBatch(points=edges, vectors=torch.stack([normal, torch.zeros(50, 3)], 1)[:, :, None])
    scaled = RandomScale(0.2, 5.0)(x, generator())
    cosine = (scaled.points * scaled.vectors[:, :1, 0]).sum(-1) / scaled.points.norm(dim=-1)
    assert cosine.abs().max() < 1e-4
    assert torch.allclose(scaled.vectors[:, 0, 0].norm(dim=-1), torch.full((50,), 3.0))
    assert torch.equal(scaled.vectors[:, 1, 0], torch.zeros(50, 3))
    assert (scaled.vectors[:, 0, 0] - normal).norm(dim=-1).mean() > 0.5
    assert torch.equal(RandomScale(per_axis=False)(x, generator()).vectors, x.vectors)


def test_only_the_cpu_sorts_with_numpy():
    """Any other device has its own sort, and no NumPy; "meta" stands for it."""
    assert _argsort(torch.rand(2, 3, device="meta")).shape == (2, 3)
    assert _argsort(torch.tensor([[3.0, 1.0, 2.0]])).tolist() == [[1, 2, 0]]
