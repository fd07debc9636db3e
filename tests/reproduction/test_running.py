"""Rows are trained once, resumed, refused when they were something else, and counted when they diverge."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vnt.cli.main import main
from vnt.models.saving import load
from vnt.reproduction import figures, pages
from vnt.reproduction.catalogue import runs_of
from vnt.reproduction.classification import table2
from vnt.reproduction.experiments import Experiment, Row, Teacher
from vnt.reproduction.forecasting import table3
from vnt.reproduction.reproduce import Reproduction
from vnt.reproduction.running import Outcome, Settings, carry_out
from vnt.reproduction.smoke import EPOCHS, shrink, smoke
from vnt.training.recipes import recipe
from vnt.training.run_folder import RunFolder


def experiment(**changes) -> Experiment:
    rows = table3().only(("transformer", "vn_0")).rows
    small = (replace(row, config=replace(shrink(row.config), epochs=1, **changes)) for row in rows)
    return Experiment("little", "A little table", "about it", (*small, Row("quoted", "Quoted", None, 1.5)))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    settings = Settings(tmp_path_factory.mktemp("runs"), seeds=(0, 1), device="cpu")
    return settings, carry_out(experiment(), settings)


def test_every_row_and_seed(done):
    _, outcomes = done
    assert [(o.row, o.seed) for o in outcomes] == [("transformer", 0), ("transformer", 1), ("vn_0", 0), ("vn_0", 1)]
    for outcome in outcomes:
        assert set(outcome.scores) == {"I", "z", "SO3"}
        assert outcome.parameters > 1000
        assert outcome.seconds > 0
        in_all = RunFolder(outcome.folder).metrics()[-1]["seconds"]
        assert outcome.speed > outcome.items / in_all  # of the steps alone
        turned = outcome.scores["SO3"] - outcome.scores["I"]
        assert (abs(turned) < 1e-3) == (outcome.row == "vn_0")
        assert (outcome.violation < 1e-4) == (outcome.row == "vn_0")
    assert outcomes[0].scores != outcomes[1].scores


def test_what_has_finished_is_not_trained_again(done):
    settings, outcomes = done
    weights = outcomes[0].folder / "model.safetensors"
    before = weights.stat().st_mtime_ns
    assert carry_out(experiment(), settings) == outcomes
    assert weights.stat().st_mtime_ns == before


def test_what_was_trained_on_one_device_is_looked_at_on_another(done):
    settings, outcomes = done
    assert carry_out(experiment(), replace(settings, device="auto")) == outcomes


def test_a_look_at_fewer_points_is_not_the_table_s(done):
    settings, outcomes = done
    run = RunFolder(outcomes[0].folder)
    before = run.about()["test"]
    try:
        run.note({"test": {name: numbers | {"ade": 99.0, "num_points": 8} for name, numbers in before.items()}})
        assert carry_out(experiment(), settings) == outcomes
    finally:
        run.note({"test": before})


def test_other_settings_are_refused(done):
    with pytest.raises(ValueError, match="trained with other settings than are asked for now"):
        carry_out(experiment(learning_rate=1e-4), done[0])


def test_a_run_that_was_stopped_goes_on(tmp_path):
    settings = Settings(tmp_path, device="cpu")
    first = carry_out(experiment(), settings)
    run = RunFolder(first[0].folder)
    run.note({"finished": False, "asked": json.loads(json.dumps(run.about()["asked"]))})
    assert carry_out(experiment(), settings)[0].scores == first[0].scores
    assert run.about()["finished"]


def test_a_run_that_diverges_is_counted(tmp_path):
    settings = Settings(tmp_path, device="cpu")
    wild = experiment(learning_rate=1e30, clip_norm=0.0)
    outcomes = carry_out(wild, settings)
    assert all("the loss became" in o.diverged for o in outcomes)
    assert carry_out(wild, settings) == outcomes
    assert pages.table(wild, outcomes)[1][0][-1] == "0, 1 diverged"


def test_a_teacher_comes_first_and_has_not_seen_all(tmp_path):
    config = experiment().rows[1].config
    first = Row("first", "First", config)
    taught = Row("taught", "Taught", config, teacher=Teacher(first, seeds=(0, 3)))
    settings = Settings(tmp_path, seeds=(0,), device="cpu")
    said = []
    outcomes = carry_out(Experiment("school", "School", "", (taught,)), settings, say=said.append)
    assert [o.row for o in outcomes] == ["taught"]
    assert [words.split(",")[0] for words in said] == ["school: First", "school: First", "school: Taught"]
    about = RunFolder(outcomes[0].folder).about()
    assert about["asked"]["teachers"] == ["first-I-0-held-out", "first-I-3-held-out"]
    names = ("first-I-0-held-out", "taught-I-0")
    weights = [(tmp_path / "school" / name / "model.safetensors").read_bytes() for name in names]
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert len(carry_out(Experiment("school", "School", "", (taught,)), replace(settings, folder=moved))) == 1
    assert weights[0] != weights[1]  # the seed is the same, and the loss is not


def test_a_row_goes_on_from_another(tmp_path):
    config = experiment().rows[1].config
    first = Row("first", "First", config)
    on = Row("on", "On", replace(config, learning_rate=0.0), start=first)
    outcomes = carry_out(Experiment("on", "On", "", (on,)), Settings(tmp_path, seeds=(0, 1), device="cpu"))
    assert [o.row for o in outcomes] == ["on", "on"]
    for outcome in outcomes:  # each from the run of its own seed
        before = load(tmp_path / "on" / f"first-I-{outcome.seed}").state_dict()
        assert all(torch.equal(value, before[name]) for name, value in load(outcome.folder).state_dict().items())


def test_two_rows_are_put_together(tmp_path):
    row = smoke(table2().only(("apart",))).rows[0]
    row = replace(row, parts=(replace(row.parts[0], start=None), row.parts[1]))
    both, settings = Experiment("both", "Both", "", (row,)), Settings(tmp_path, seeds=(1,), device="cpu")
    outcomes = carry_out(both, settings)
    names = ["apart-I-1", "dots_alone-I-1", "plain_0_finished-I-1"]
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == names
    parts = [sum(x.numel() for x in load(tmp_path / "both" / name).parameters()) for name in names]
    assert outcomes[0].parameters == parts[0] == parts[1] + parts[2]
    assert outcomes[0].violation < 1e-4
    assert carry_out(both, settings) == outcomes
    RunFolder(tmp_path / "both" / "plain_0_finished-I-1").note({"finished": False, "diverged": "the loss became nan"})
    assert carry_out(both, settings)[0].diverged == "one of its parts: the loss became nan"


def test_final_runs_train_on_all_and_choices_do_not(done):
    settings, outcomes = done
    assert {o.items for o in outcomes} == {4500}
    chosen = carry_out(experiment(), replace(settings, seeds=(0,), split="val"))  # in the same folder, beside them
    assert {o.items for o in chosen} == {4000}
    assert carry_out(experiment(), settings) == outcomes


def test_runs_of_before_a_setting_existed_still_count(done):
    settings, outcomes = done
    run = RunFolder(outcomes[0].folder)
    asked = {key: value for key, value in run.about()["asked"].items() if key != "teachers"}
    run.note({"asked": asked})
    assert carry_out(experiment(), settings)[0] == outcomes[0]


def test_the_page(done, tmp_path):
    _, outcomes = done
    header, lines = pages.table(experiment(), outcomes)
    assert [line[0] for line in lines] == ["Transformer", "VN-Transformer, ε = 0", "Quoted"]
    assert lines[0][1] == "5.01 m"
    assert " ± " in lines[0][header.index("test SO3")]
    assert lines[2][1] == "1.50 m"
    assert set(lines[2][2:]) == {"–"}
    mean = sum(o.scores["I"] for o in outcomes[:2]) / 2
    assert math.isclose(float(lines[0][header.index("test I")].split(" ")[0]), mean, abs_tol=0.006)
    record = pages.record(experiment(), outcomes)
    text = pages.write(tmp_path, "little", "A little table", "about it", lines=(header, lines), record=record)
    assert text == (tmp_path / "little.md").read_text()
    assert "<table>" in (tmp_path / "little.html").read_text()
    assert len(json.loads((tmp_path / "little.json").read_text())["outcomes"]) == 4


def test_figures_from_the_runs_of_a_table(tmp_path, monkeypatch):
    monkeypatch.setitem(EPOCHS, "forecast", 1)
    reproduction = Reproduction(Settings(tmp_path, device="cpu"), is_smoke=True)
    assert "Figure 9" in reproduction.page("fig9")
    assert "Figure 6" in reproduction.page("fig6")
    for name in ("fig6", "fig9"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_a_curve_and_the_violation_through_depth(tmp_path, monkeypatch):
    config = replace(shrink(recipe("modelnet40")), num_points=16)
    monkeypatch.setattr("vnt.reproduction.reproduce.smoke", lambda e: replace(e, rows=_quick(e.rows, config)))
    reproduction = Reproduction(Settings(tmp_path, device="cpu"), is_smoke=True, rows=("k0", "k16"))
    assert "k = 16" in reproduction.page("fig7")
    assert (tmp_path / "fig7.png").exists()
    assert "Figure 10" in reproduction.page("fig10")


def test_a_curve_of_two_kinds():
    rows = tuple(Row(name, name, recipe("modelnet40")) for name in ("m0", "m8", "m8_read_back"))
    scores = {"m0": 0.9, "m8": 0.7, "m8_read_back": 0.8}
    outcomes = [
        Outcome(name, "I", 0, Path(name), scores={"I": value, "SO3": value}, speed=10 / value)
        for name, value in scores.items()
    ]
    figure = figures.curve(replace(experiment(), rows=rows, against="latents"), outcomes)[1]
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["test I", "test SO3", "test I read back", "test SO3 read back"]
    assert [list(line.get_xdata()) for line in left.lines[1::2]] == [[0, 1], [1]]
    assert [list(line.get_ydata()) for line in left.lines[1::2]] == [[0.9, 0.7], [0.8]]
    assert [list(line.get_ydata()) for line in right.lines] == [[1, pytest.approx(9 / 7)], [pytest.approx(9 / 8)]]
    assert [line.get_color() for line in right.lines] == [line.get_color() for line in left.lines[1::2]]


def _quick(rows, config):
    """Models of four channels."""
    tiny = {"channels": 4, "num_heads": 1, "depth": 1, "point_channels": 8, "head_channels": 8}
    return tuple(
        replace(row, config=replace(config, model=replace(config.model, bias_epsilon=1e-6, **tiny))) for row in rows
    )


def test_rows_are_listed_with_what_has_been_run(tmp_path):
    little = experiment()
    ours = next(row for row in little.rows if row.name == "vn_0")
    assert runs_of(little, ours, tmp_path) == []
    for name, about in (
        ("vn_0-I-0", '{"finished": true}'),
        ("vn_0-SO3-7", '{"diverged": "at once"}'),
        ("vn_0-z-1-held-out", "{}"),
        ("vn_0_taught-I-0", '{"finished": true}'),
    ):
        (tmp_path / "little" / name).mkdir(parents=True)
        (tmp_path / "little" / name / "run.json").write_text(about)
    assert runs_of(little, ours, tmp_path) == ["I-0", "SO3-7 (diverged)", "z-1-held-out (begun)"]
    together = replace(ours, parts=(ours, ours))
    assert runs_of(little, together, tmp_path)[-1] == "z-1-held-out"


def test_the_list_from_the_command_line(capsys, tmp_path):
    run = tmp_path / "table3" / "vn_deep-I-0"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"finished": true}')
    assert main(["reproduce", "table3", "fig6", "--list", "-o", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "4.91 m" in lines["vn_0"]
    assert "250 epochs" in lines["vn_0"]
    assert lines["vn_deep"].split()[-1] == "I-0"
    assert "vn_deep" in lines["vn_deep_taught"].split()
    assert "solved" in lines["linear"]
    assert "has no rows" in lines["fig6"]
    assert [path.name for path in tmp_path.iterdir()] == ["table3"]
    assert main(["reproduce", "table1", "--list", "--smoke", "-o", str(tmp_path)]) == 0
    assert "by name alone" in capsys.readouterr().out
