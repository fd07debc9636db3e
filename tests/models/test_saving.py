"""Models as folders, and models on the Hugging Face Hub; the Hub itself is played by a folder here."""

import sys
import types

import pytest
import torch

import vnt
from vnt.models.saving import read_about
from vnt.tensors import read_tensors, write_tensors


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


def test_a_config_is_the_model_s_whatever_else_belongs_to_it(tmp_path):
    model = small()
    about = {"class_names": list("abcde"), "model": {"kind": "classifier"}, "format": 99, "vnt": "0"}
    vnt.save_pretrained(model, tmp_path, about=about)
    assert vnt.load(tmp_path).config == model.config
    assert read_about(tmp_path)["class_names"] == list("abcde")


def test_a_config_that_asks_for_more_than_there_are_weights_is_refused_at_once(tmp_path):
    vnt.save_pretrained(small(), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"depth": 1,', '"depth": 1000000000,'))
    with pytest.raises(ValueError, match=r"do not fit config.json \(depth 1,000,000,000"):
        vnt.load(tmp_path)


def test_of_a_compiled_model_what_was_compiled_is_saved(tmp_path):
    model = small()
    vnt.save_pretrained(torch.compile(model), tmp_path)
    for one, two in zip(model.state_dict().values(), vnt.load(tmp_path).state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_a_model_that_its_config_does_not_build_again_is_refused(tmp_path):
    model = small()
    torch.nn.utils.parametrizations.weight_norm(model.head[0])
    with pytest.raises(ValueError, match="the config of this VNTransformerClassifier does not build it again: head"):
        vnt.save_pretrained(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_tied_weights_can_be_written(tmp_path):
    one = torch.randn(3, 4)
    write_tensors(tmp_path / "x.safetensors", {"a": one, "b": one, "c": one[1:], "d": one[:0], "e": one[:0]})
    back = read_tensors(tmp_path / "x.safetensors")
    assert torch.equal(back["a"], one)
    assert torch.equal(back["b"], one)
    assert torch.equal(back["c"], one[1:])


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
