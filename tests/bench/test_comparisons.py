"""The comparisons that `vnt bench` runs, at sizes that take no time: what they count, and what they leave behind."""

import json

import pytest
import torch

from vnt.bench import ceilings, comparisons, encoder, large, loop, ragged, scaling, step
from vnt.cli.main import main
from vnt.training.compiled import compiled

CPU = torch.device("cpu")


@pytest.fixture
def weak_machine(monkeypatch):
    """Ceilings that need no measuring."""
    monkeypatch.setattr(scaling, "measure_ceilings", lambda *_: ceilings.Ceilings(1e12, 1e10))
    monkeypatch.setattr(scaling, "TOKENS", {"cpu": 64})


def cells(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_ceilings_are_those_of_a_real_machine():
    found = ceilings.measure_ceilings(CPU, torch.float32)
    assert 1e9 < found.matrix < 1e15
    assert 1e8 < found.memory < 1e13


def test_scaling_leaves_a_page_a_record_and_a_picture(tmp_path, weak_machine):
    said = []
    comparisons.carry_out(["scaling"], comparisons.Settings(CPU, 1, (16, 64)), tmp_path, said.append)
    record = json.loads((tmp_path / "scaling-cpu.json").read_text())
    assert {row["points"] for row in record["rows"]} == {16, 64}
    assert {row["contender"] for row in record["rows"]} == set(scaling.contenders(CPU, 16))
    assert all(row["forward"] > 0 and row["both"] > 0 and row["both_bytes"] > 0 for row in record["rows"])
    assert (tmp_path / "scaling-cpu.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "scaling-cpu.md").read_text()
    assert torch.__version__ in page
    assert "µs per cloud" not in page  # a CPU that others use too
    ours = [row for row in cells(page) if row[2] == scaling.OURS]
    assert [row[3:5] for row in ours] == [["1.00", "1.00"]] * 2


def test_scaling_counts_the_operations_of_attention():
    """Two products of N × N × 3C numbers in each block."""
    n = 32
    expected = scaling.DEPTH * 2 * 2 * n * n * 3 * scaling.CHANNELS
    assert scaling._flops(scaling.AttentionAlone(), n, CPU) == expected


def test_only_what_is_linear_is_asked_for_large_clouds():
    assert list(scaling.contenders(CPU, 2**20)) == [scaling.LATENT]


def test_a_machine_without_the_peer_compares_the_others(monkeypatch):
    monkeypatch.setattr(scaling, "has_peer", lambda: False)
    assert encoder.PEER not in list(scaling.contenders(CPU, 256))


def test_large_clouds_are_timed_per_point():
    rows = cells(large.table(CPU, points=(200, 400), rounds=1))[1:]
    assert [row[0] for row in rows] == ["200", "400"]
    assert rows[0][1:3] == ["1.00", "1.00"]


def test_ragged_batches_are_compared_with_a_full_one(monkeypatch):
    monkeypatch.setattr(ragged, "SIZES", {"cpu": (4, 64)})
    rows = cells(ragged.table(CPU, rounds=1))[1:]
    assert rows[0] == ["full", "1.00"]
    assert sum("packed" in row[0] for row in rows) == len(ragged.FILLED) - 1


def test_the_loop_is_compared_with_bare_steps(monkeypatch):
    monkeypatch.setattr(loop, "STEPS_PER_EPOCH", 2)
    monkeypatch.setattr(loop, "EPOCHS", 2)
    rows = cells(loop.table(CPU, rounds=1))[1:]
    assert 0.2 < float(rows[1][1]) < 50


def test_the_training_step_says_that_it_needs_a_gpu():
    said = []
    comparisons.carry_out(["step"], comparisons.Settings(CPU, 1), None, said.append)
    assert "needs a CUDA device" in said[-1]
    assert str(step.LATENTS[1]) == "1024 points, batch 512, 4 heads, depth 4, 32 latents"


def test_from_the_command_line(tmp_path, weak_machine, capsys):
    assert main(["bench", "scaling", "--points", "16", "--rounds", "1", "--device", "cpu", "-o", str(tmp_path)]) == 0
    assert "Ceilings measured here" in capsys.readouterr().out
    (tmp_path / "scaling-cpu.png").unlink()
    assert main(["bench", "--draw", str(tmp_path / "scaling-cpu.json")]) == 0
    assert (tmp_path / "scaling-cpu.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--rounds", "0"], "rounds must be at least 1"), (["--points", "0"], "points must be at least 1")],
)
def test_wrong_requests_are_refused(words, message, capsys):
    with pytest.raises(SystemExit) as refused:
        main(["bench", *words])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "{}", "[1]"])
def test_what_is_no_record_gets_one_line(content, tmp_path, capsys):
    path = tmp_path / "record.json"
    if content is not None:
        path.write_text(content)
    assert main(["bench", "--draw", str(path)]) == 2
    error = capsys.readouterr().err
    assert "record.json" in error
    assert error.count("\n") == 1


def test_what_runs_on_the_cpu_is_not_labelled_with_a_gpu(monkeypatch):
    monkeypatch.setattr(comparisons.exactness, "table", lambda: "a table")
    monkeypatch.setattr(comparisons, "describe_machine", lambda device: f"on {device.type}")
    said = []
    comparisons.carry_out(["exactness"], comparisons.Settings(torch.device("cuda"), 1), None, said.append)
    assert "on cpu" in said[0]


def test_training_runs_as_graphs_on_one_gpu_only(monkeypatch):
    modes = []
    monkeypatch.setattr(torch, "compile", lambda model, mode: modes.append(mode) or model)
    for device, graphs in (("cuda", True), ("cuda", False), ("cpu", True)):
        compiled(torch.nn.Linear(1, 1), torch.device(device), graphs=graphs)
    assert modes == ["reduce-overhead", "default", "default"]
