"""Packing a ragged batch and unpacking it."""

import pytest
import torch

from vnt.geometry import Packing, pack_ragged

MASK = torch.tensor([[True, False, True, True], [False, False, False, False], [True, True, False, False]])


def test_pack_takes_what_exists_in_order():
    x = torch.arange(24.0).reshape(3, 4, 2)
    packing = Packing.of(MASK)
    assert torch.equal(packing.pack(x), x[MASK])
    assert packing.lengths == (3, 0, 2)
    assert packing.starts.tolist() == [0, 3, 3, 5]


def test_unpack_puts_it_back_with_zeros_between():
    x = torch.randn(3, 4, 2)
    packing = Packing.of(MASK)
    assert torch.equal(packing.unpack(packing.pack(x)), torch.where(MASK[..., None], x, 0))


def test_gradients_go_where_the_tokens_came_from():
    x = torch.randn(3, 4, 2, requires_grad=True)
    packing = Packing.of(MASK)
    packing.unpack(packing.pack(x)).sum().backward()
    assert torch.equal(x.grad, MASK[..., None].expand(3, 4, 2).float())


@pytest.mark.parametrize("shape", [(5,), (2, 3, 5)])
def test_any_number_of_leading_axes(shape):
    mask = torch.rand(shape) < 0.5
    x = torch.randn(*shape, 2)
    packing = Packing.of(mask)
    assert torch.equal(packing.pack(x), x[mask])
    assert packing.unpack(packing.pack(x)).shape == x.shape


def test_only_ragged_batches_are_packed():
    assert pack_ragged(None) is None
    assert pack_ragged(torch.ones(2, 5, dtype=torch.bool)) is None
    assert isinstance(pack_ragged(MASK), Packing)
