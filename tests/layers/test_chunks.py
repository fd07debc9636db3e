"""A cloud in chunks: what layers make of it, how often it is made, and what refuses it."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import vnt
from helpers import assert_close, random_mask
from vnt.layers.chunks import Chunks, mixes_points

F64 = torch.float64


def in_chunks(V: torch.Tensor, size: int) -> Chunks:
    return Chunks([lambda part=part: 1 * part for part in V.split(size, V.ndim - 3)], size, V.ndim - 3)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("options", [{}, {"norm": "layer", "norm_position": "post", "bias_epsilon": 0.1}], ids=str)
def test_latent_encoder_reads_chunks(batch, options):
    """Values and all gradients are those of the whole cloud, whatever divides it."""
    layer = vnt.VNLatentEncoder(8, 2, depth=1, num_latents=3, **options).to(F64)
    V = torch.randn(*batch, 23, 8, 3, dtype=F64, requires_grad=True)
    mask = random_mask(*batch, 23)
    inputs = [V, *layer.parameters()]
    expected = layer(V, mask)
    gradients = torch.autograd.grad(expected.sin().sum(), inputs)
    for size in (1, 5, 22):
        out = layer(in_chunks(V, size), mask)
        assert_close(out, expected)
        for actual, wanted in zip(torch.autograd.grad(out.sin().sum(), inputs), gradients, strict=True):
            assert_close(actual, wanted)


def test_second_derivatives():
    layer = vnt.VNLatentEncoder(4, 2, depth=1, num_latents=2).to(F64)
    V = torch.randn(7, 4, 3, dtype=F64, requires_grad=True)

    def curvature(cloud):
        (slope,) = torch.autograd.grad(layer(cloud).sin().sum(), V, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), V)[0]

    with sdpa_kernel(SDPBackend.MATH):  # of the encoder behind; fused kernels have no second derivative
        assert_close(curvature(in_chunks(V, 3)), curvature(V))


def test_tokens_are_made_anew_and_never_kept():
    """Once for the mean, once for attention, and each once more where there is a backward pass."""
    layer, made = vnt.VNLatentEncoder(4, 2, depth=1, num_latents=2), []
    V = torch.randn(10, 4, 3, requires_grad=True)
    chunks = Chunks([lambda part=part: (made.append(len(part)), 2 * part)[1] for part in V.split(4)], 4, 0)
    with torch.no_grad():
        layer(chunks)
    assert made == [4, 4, 2] * 2
    made.clear()
    out = layer(chunks).sum()
    assert made == [4, 4, 2] * 2
    out.backward()
    assert sorted(made) == sorted([4, 4, 2] * 4)


def test_what_needs_all_points_refuses_chunks():
    norm = vnt.VNBatchNorm(4)
    chunks = in_chunks(torch.randn(10, 4, 3), 4)
    with pytest.raises(ValueError, match=r"VNBatchNorm\(4.* needs all points at once, .* in chunks of 4"):
        chunks.through(norm)
    with pytest.raises(ValueError, match="needs all points at once"):
        vnt.VNLatentEncoder(4, 2, depth=1, num_latents=2, norm="batch")(chunks)
    assert len(chunks.through(norm.eval()).makers) == 3
    assert mixes_points(vnt.VNEdgeConv(4, 4, num_neighbors=2))
    assert not mixes_points(vnt.VNEdgeConv(4, 4, num_neighbors=0))
    assert mixes_points(vnt.VNMLP(4, 4, 4, norm="batch"))


def test_a_mask_of_another_length_is_refused():
    chunks = in_chunks(torch.randn(10, 4, 3), 4)
    with pytest.raises(ValueError, match="zip"):
        chunks.map(lambda V, mask: V, torch.ones(13, dtype=torch.bool))
