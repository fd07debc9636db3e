"""The demo from end to end, with models that learn nothing in no time."""

from dataclasses import replace

import pytest

from vnt.cli import demo
from vnt.cli.demonstration import demonstrate


def test_the_demo_trains_tests_and_reports(tmp_path, capsys):
    configs = {}
    for name, config in demo.configs(effort=0.01, seed=0).items():
        assert config.epochs == 1
        points = 16 if config.dataset == "shapes" else 0
        small = replace(config.model, channels=8, num_heads=2, depth=1)
        configs[name] = replace(config, model=small, num_points=points, batch_size=256, device="cpu")
    demonstrate(tmp_path / "demo", configs)
    out = " ".join(capsys.readouterr().out.split())
    for name in configs:
        assert name in out
    page = (tmp_path / "demo" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 5
    for words in ("Clouds before and after a rotation", "Learning curves", "What is taken for what", "test SO(3)"):
        assert words in page
    assert "http" not in page
    assert {path.name for path in (tmp_path / "demo").iterdir() if path.is_dir()} == {
        "vn-transformer",
        "transformer",
        "transformer-so3",
        "vn-forecaster",
        "plain-forecaster",
    }


def test_the_demo_removes_nothing_but_its_own(tmp_path):
    (tmp_path / "transformer").mkdir()
    (tmp_path / "transformer" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="transformer: in the way, and no run of an earlier demo"):
        demonstrate(tmp_path, demo.configs(effort=0.01, seed=0))
    assert (tmp_path / "transformer" / "thesis.txt").exists()


def test_the_full_demo_is_five_runs():
    configs = demo.configs(effort=1.0, seed=3)
    assert [config.rotation for config in configs.values()] == ["I", "I", "SO3", "I", "I"]
    assert all(config.seed == 3 for config in configs.values())
