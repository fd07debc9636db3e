"""Models as folders, and models on the Hugging Face Hub; the Hub itself is played by a folder here."""

import sys
import types

import pytest
import torch

import vnt
from vnt.models.saving import read_about


def small():
    torch.manual_seed(0)
    return vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=3, channels=8, num_heads=2, depth=1)).eval()


def hub(monkeypatch, answer):
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = answer
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)


def test_there_and_back(tmp_path):
    model, points = small(), torch.randn(2, 20, 3)
    folder = vnt.save_pretrained(model, tmp_path / "cups", about={"class_names": ["cup", "bowl", "vase"]})
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert torch.equal(vnt.load(folder)(points), model(points))
    assert read_about(folder)["class_names"] == ["cup", "bowl", "vase"]
    assert "# cups" in (folder / "README.md").read_text()
    vnt.save_pretrained(model, folder, card="# Mine\n")
    assert (folder / "README.md").read_text() == "# Mine\n"


def test_half_the_bytes(tmp_path):
    """Weights may be kept in half precision; a model that is loaded computes in float32."""
    model, points = small(), torch.randn(2, 20, 3)
    whole, half = (vnt.save_pretrained(m, tmp_path / n) for n, m in (("whole", model), ("half", small().half())))
    loaded = vnt.load(half)
    assert all(value.dtype != torch.float16 for value in loaded.state_dict().values())
    assert torch.allclose(loaded(points), model(points), atol=1e-2)
    assert (half / "model.safetensors").stat().st_size < 0.7 * (whole / "model.safetensors").stat().st_size


def test_what_has_no_config_cannot_be_built_again(tmp_path):
    with pytest.raises(ValueError, match="a Linear has no config"):
        vnt.save_pretrained(torch.nn.Linear(2, 2), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_from_the_hub(tmp_path, monkeypatch):
    model, asked = small(), []
    folder = vnt.save_pretrained(model, tmp_path / "cups")
    hub(monkeypatch, lambda name, allow_patterns: asked.append((name, allow_patterns)) or str(folder))
    points = torch.randn(2, 20, 3)
    assert torch.equal(vnt.load("hf-hub:someone/cups")(points), model(points))
    assert {name for name, _ in asked} == {"someone/cups"}
    assert all("model.safetensors" in patterns for _, patterns in asked)


def test_no_network_is_said_in_one_line(monkeypatch):
    def fail(name, allow_patterns):
        raise RuntimeError("cannot reach the Hub\nfor a long list of reasons")

    hub(monkeypatch, fail)
    with pytest.raises(FileNotFoundError, match="hf-hub:a/b: could not be fetched from the Hugging Face Hub: cannot"):
        vnt.load("hf-hub:a/b")


def test_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ModuleNotFoundError, match="pip install huggingface-hub"):
        vnt.load("hf-hub:a/b")
