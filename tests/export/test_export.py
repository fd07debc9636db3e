"""Exported models: what they compute, what they take, and that a wrong one is never written."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import vnt
from models.cases import apart, classifier, forecaster
from vnt.cli.main import main
from vnt.data.cloud_files import read_cloud
from vnt.export import artefacts, checks, export
from vnt.export.artefacts import onnx_runner
from vnt.export.signature import signature_of
from vnt.models.kinds import build_model
from vnt.models.saving import read_about
from vnt.training.recipes import recipe

EXAMPLES = Path(__file__).parents[2] / "examples"


def name_of(value):
    """The same in every process, which the repr of a function is not."""
    return getattr(value, "__name__", str(value))


@pytest.fixture
def few_points(monkeypatch):
    """Exports are checked at sizes that are soon over; bundled models at those that users have."""
    monkeypatch.setattr(checks, "SIZES", ((2, 64), (1, 300)))


def trained(make, name):
    """One block in float32, with batch statistics that are not those of the start."""
    torch.manual_seed(0)
    model = make(name, torch.float32, depth=1)
    signature = signature_of(model)
    model.train()(*by_name(signature, signature.random(4, 30)))
    return model.eval()


def by_name(signature, inputs):
    given = dict(zip(signature.names, inputs, strict=True))
    return given.pop(signature.names[0]), given.get("attributes"), given.get("mask"), given.get("vectors")


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (classifier, "default"),
        (classifier, "surroundings early"),
        (classifier, "pairs"),
        (classifier, "latents late"),
        (classifier, "latents read back late"),
        (classifier, "normals early"),
        (forecaster, "late"),
        (apart, "default"),
    ],
    ids=name_of,
)
def test_a_program_is_the_model(make, name, tmp_path):
    model = trained(make, name)
    found = export(model, tmp_path / "model.pt2")
    assert max(check.parity for check in found) < 1e-4
    signature = signature_of(model)
    program = torch.export.load(tmp_path / "model.pt2").module()
    for size in ((1, 9), (5, 33)):
        inputs = signature.random(*size, seed=1)
        expected = model(*by_name(signature, inputs)).detach()
        assert torch.allclose(program(*inputs), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    ("make", "name", "options"),
    [
        (classifier, "surroundings", {}),
        (classifier, "latents late", {"mask": True}),
        (classifier, "latents read back late", {"mask": True}),
        (classifier, "normals", {"precision": "float16"}),
        (forecaster, "motions", {"mask": True}),
        (apart, "surroundings", {"mask": True}),
        (classifier, "pairs late pooled", {"mask": True}),
    ],
    ids=name_of,
)
def test_onnx_is_the_model(make, name, options, tmp_path):
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    model = trained(make, name)
    export(model, tmp_path / "model.onnx", **options)
    signature = signature_of(model, mask=options.get("mask", False))
    run = onnx_runner(tmp_path / "model.onnx")
    loose = 5e-2 if "precision" in options else 1e-4
    for size in ((1, 12), (4, 40)):
        inputs = signature.random(*size, seed=1)
        expected = model(*by_name(signature, inputs)).detach()
        assert (run(*inputs) - expected).abs().max() < loose * expected.abs().max()


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    """A model that comes with vnt as ONNX, and what its checks showed."""
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    path = tmp_path_factory.mktemp("export") / "small.onnx"
    return path, export(vnt.load("modelnet40-small"), path, about=read_about("modelnet40-small"))


def test_a_bundled_model_at_three_sizes(bundled):
    _, found = bundled
    assert [check.tokens for check in found] == [64, 1000, 4096]
    assert max(check.parity for check in found) < 1e-4
    assert all(check.symmetry < 2 * check.model_symmetry + 1e-6 for check in found)


def test_onnx_runtime_alone_knows_the_chair(bundled, tmp_path):
    """The example, in a process that may import neither torch nor vnt."""
    np.savetxt(tmp_path / "chair.xyz", read_cloud(EXAMPLES / "chair.off", num_points=1024).points)
    code = (
        "import sys, runpy; sys.modules['torch'] = sys.modules['vnt'] = None; "
        f"sys.argv = ['x', {str(bundled[0])!r}, 'chair.xyz']; runpy.run_path({str(EXAMPLES / 'onnx_runtime.py')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("chair"), done.stderr


def test_command(tmp_path, capsys):
    assert main(["export", "modelnet40-small", "-o", str(tmp_path / "small.pt2")]) == 0
    out = capsys.readouterr().out
    assert [size in out for size in ("small.pt2", "x 64", "x 1000", "x 4096")] == [True] * 4


def test_what_belongs_to_the_model_goes_with_it(tmp_path):
    about = {"class_names": ["cup", "bowl"]}
    export(trained(classifier, "default"), tmp_path / "model.pt2", about=about)
    facts = {"vnt": "", "inputs": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=facts)
    assert json.loads(facts["vnt"]) == about
    assert json.loads(facts["inputs"]) == ["points"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda x: x * 1.01, "differs from the model by 1e-02"),
        (lambda x: x + 1e-5 * torch.randn_like(x) * x.abs().max(), "symmetry error"),
    ],
)
def test_what_is_not_the_model_is_not_written(broken, message, tmp_path, monkeypatch):
    load = torch.export.load

    class Broken:
        def __init__(self, path):
            self.program = load(path).module()

        def module(self):
            return lambda *inputs: broken(self.program(*inputs))

    monkeypatch.setattr(artefacts.torch.export, "load", Broken)
    with pytest.raises(ValueError, match=message):
        export(trained(classifier, "default"), tmp_path / "model.pt2")
    assert list(tmp_path.iterdir()) == []


def test_messages(tmp_path, monkeypatch, capsys):
    model = trained(classifier, "default")
    with pytest.raises(ValueError, match=r"model\.txt: must end in \.onnx \(ONNX\) or \.pt2"):
        export(model, tmp_path / "model.txt")
    with pytest.raises(ValueError, match="a Linear is none of the models that can be exported"):
        export(torch.nn.Linear(3, 3), tmp_path / "model.pt2")
    with pytest.raises(ValueError, match="no one graph of a GRUForecaster for any number of items and tokens"):
        export(build_model(recipe("motion_gru").model), tmp_path / "model.pt2")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(artefacts.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'vnt\[onnx\]'"):
        export(model, tmp_path / "model.onnx")
    assert main(["export", "nowhere"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_the_model_is_left_as_it_was(tmp_path):
    model = trained(classifier, "default").double().train()
    export(model, tmp_path / "model.pt2", precision="float16")
    assert model.training
    assert next(model.parameters()).dtype == torch.float64
