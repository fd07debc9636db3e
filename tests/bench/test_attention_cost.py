"""VN attention beside the SE(3)-Transformer's, at sizes that take no time: what is counted, and that it is alike."""

import pytest
import torch

pytest.importorskip("e3nn", reason="the extra 'rivals' is not installed")

from vnt.bench import attention_cost

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(attention_cost, "CHANNELS", 8)
    monkeypatch.setattr(attention_cost, "HEADS", 2)
    monkeypatch.setattr(attention_cost, "NEIGHBORS", 4)


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_the_table_has_each_layer_at_each_size_relative_to_ours():
    rows = cells(attention_cost.table(CPU, rounds=1, points=(32, 64)))[1:]
    names = [attention_cost.OURS, attention_cost.PER_CHANNEL, attention_cost.PER_PAIR]
    assert [row[:2] for row in rows] == [[str(n), name] for n in (32, 64) for name in names]
    assert [row[4:6] for row in rows if row[1] == attention_cost.OURS] == [["1.00", "1.00"]] * 2
    assert all(float(cell) > 0 for row in rows for cell in row[4:6])
    assert float(rows[-1][6]) > 0


def test_all_turn_with_the_cloud(no_gradients):
    """What is compared does the same thing: vectors in, vectors out, turned as the input is."""
    positions, V = torch.randn(1, 12, 3), torch.randn(1, 12, 8, 3)
    turn = torch.linalg.qr(torch.randn(3, 3)).Q
    turn = turn * turn.det()
    for name, layer in attention_cost.contenders(positions).items():
        out = layer(V)
        if name == attention_cost.OURS:
            turned = layer(V @ turn)
        else:
            turned_layer = attention_cost.contenders(positions @ turn)[name]
            turned_layer.load_state_dict(layer.state_dict())
            turned = turned_layer(V @ turn)
        assert out.shape == V.shape
        assert float((turned - out @ turn).abs().max()) <= 1e-5 * float(out.abs().max()), name


def test_operations_of_ours_are_those_of_four_linear_maps_and_two_products():
    n, width = 16, 3 * 8
    layer = attention_cost.contenders(torch.randn(1, n, 3))[attention_cost.OURS]
    linear, products = 4 * 2 * n * 3 * 8 * 8, 2 * 2 * n * n * width
    assert attention_cost.count_flops(layer, torch.randn(1, n, 8, 3)) == linear + products


def test_theirs_grow_linearly_and_ours_with_the_square():
    flops = {}
    for n in (64, 128):
        for name, layer in attention_cost.contenders(torch.randn(1, n, 3)).items():
            flops.setdefault(name, []).append(attention_cost.count_flops(layer, torch.randn(1, n, 8, 3)))
    growth = {name: later / earlier for name, (earlier, later) in flops.items()}
    assert growth[attention_cost.OURS] > 3
    assert growth[attention_cost.PER_CHANNEL] == pytest.approx(2, rel=0.05)
    assert growth[attention_cost.PER_PAIR] == pytest.approx(2, rel=0.05)


def test_a_radial_function_for_each_pair_costs_more_than_one_for_each_channel():
    layers = attention_cost.contenders(torch.randn(1, 16, 3))
    count = {name: sum(p.numel() for p in layer.parameters()) for name, layer in layers.items()}
    assert count[attention_cost.OURS] < count[attention_cost.PER_CHANNEL] < count[attention_cost.PER_PAIR]
