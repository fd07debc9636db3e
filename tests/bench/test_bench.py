"""The measurements measure: right order, right units, and a table people can read."""

import time

import pytest
import torch

from vnt.bench import encoder, exactness, inference, timing
from vnt.models.config import ClassifierConfig, ForecasterConfig


def test_medians_tell_fast_from_slow():
    medians = timing.interleaved_medians({"fast": lambda: None, "slow": lambda: time.sleep(0.01)}, rounds=3)
    assert medians["fast"] < 0.005 < medians["slow"] < 0.1


def test_peak_memory_counts_what_is_held_at_once():
    """Two tensors of 4 MiB held together are 8 MiB; one after the other, 4."""
    size = 2**20

    def together():
        a = torch.ones(size)
        return a, torch.ones(size)

    def in_turn():
        torch.ones(size)
        torch.ones(size)

    assert timing.peak_memory(together) == pytest.approx(8, abs=0.5)
    assert timing.peak_memory(in_turn) == pytest.approx(4, abs=0.5)


def test_the_encoder_comparison_is_a_table(monkeypatch):
    """At a tiny size, without the compiled contenders, which would take a minute to build."""
    monkeypatch.setattr(encoder, "BATCH", 1)
    monkeypatch.setattr(encoder, "POINTS", 16)
    contenders = {name: make for name, make in encoder.available().items() if "compiled" not in name}
    monkeypatch.setattr(encoder, "available", lambda: contenders)
    lines = encoder.compare(rounds=1).splitlines()
    rows = [line for line in lines if line.startswith(("| v", "| V"))]
    assert len(rows) == len(contenders)
    assert all("x" in row and "MiB" in row for row in rows)
    assert len({len(line) for line in lines if line.startswith("|")}) == 1


def test_the_inference_comparison_is_a_table(monkeypatch):
    """Eager at a tiny size: as many rows as ways, float32 exact under rotation, bfloat16 nearly."""
    monkeypatch.setattr(inference, "POINTS", 16)
    monkeypatch.setattr(inference, "BATCHES", (1, 2))
    monkeypatch.setattr(inference, "STEPS", 1)
    monkeypatch.setattr(inference, "has_compiler", lambda: False)
    monkeypatch.setattr(inference, "onnx_session", lambda model: lambda points: model(points).detach())
    lines = inference.table(rounds=1).splitlines()
    cells = {
        row[1].strip(): row[2:-1] for row in (line.split("|") for line in lines if "float" in line and "|" in line)
    }
    assert "1.00x" in cells[inference.REFERENCE][0]
    assert float(cells[inference.REFERENCE][-1]) < 1e-4
    if timing.has_bfloat16():
        assert 0 < float(cells["eager, bfloat16"][-1]) < 0.1


def test_exactness_is_measured_in_both_modes():
    small = {"channels": 8, "num_heads": 2, "depth": 1}
    for config in (ClassifierConfig(num_classes=5, **small), ForecasterConfig(**small)):
        train, evaluation = exactness.measure(config, torch.float64, steps=1)
        assert 0 < train < 1e-11
        assert 0 < evaluation < 1e-11


def test_the_machine_is_described():
    assert torch.__version__ in timing.describe_machine()
