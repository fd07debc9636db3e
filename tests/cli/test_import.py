"""Weights of other programs, as a user types it."""

import json

import pytest
import torch

import vnt as library
from models.deng import state_of
from vnt.cli.main import main
from vnt.export import checks


def deng_file(path, num_classes):
    torch.save(
        {"epoch": 3, "model_state_dict": state_of("vn_dgcnn_cls", "mean", torch.float32, classes=num_classes)}, path
    )
    return path


def test_a_file_becomes_a_folder_that_other_commands_take(tmp_path, vnt, monkeypatch):
    monkeypatch.setattr(checks, "SIZES", ((2, 64), (1, 300)))
    path = deng_file(tmp_path / "best_model.pth", 40)
    code, out, err = vnt(
        "import", path, "-o", tmp_path / "dgcnn", "--class-names", "modelnet40", "--num-neighbors", "8"
    )
    assert (code, err) == (0, "")
    assert f"{path}: weights of FlyingGiraffe/vnn" in out
    assert "VNDGCNN: 40 classes, mean pooling over 8 neighbours" in out
    model = library.load(tmp_path / "dgcnn")
    assert f"{sum(p.numel() for p in model.parameters()):,} parameters, all of them taken" in out
    assert f"vnt audit {tmp_path / 'dgcnn'}" in out
    points = torch.randn(2, 30, 3)
    assert torch.equal(model(points), library.import_weights(path, num_neighbors=8)(points))
    about = json.loads((tmp_path / "dgcnn" / "config.json").read_text())
    assert about["class_names"] == sorted(about["class_names"])
    assert about["imported"] == {"origin": "FlyingGiraffe/vnn", "file": "best_model.pth"}
    assert str(tmp_path) not in (tmp_path / "dgcnn" / "README.md").read_text()
    code, out, _ = vnt(
        "audit", tmp_path / "dgcnn", "--count", "1", "--num-points", "32", "--samples", "2", "--no-sweep"
    )
    assert code == 0
    assert "float64" in out
    assert vnt("export", tmp_path / "dgcnn", "-o", tmp_path / "dgcnn.pt2")[0] == 0


def test_names_of_classes(tmp_path, vnt):
    path = deng_file(tmp_path / "best_model.pth", 3)
    code, out, _ = vnt("import", path, "-o", tmp_path / "x")
    assert code == 0
    assert "classes have numbers: --class-names names them" in out
    assert "class_names" not in json.loads((tmp_path / "x" / "config.json").read_text())
    (tmp_path / "names.txt").write_text("cup\nbowl\n\nvase\n")
    assert vnt("import", path, "-o", tmp_path / "x", "--class-names", tmp_path / "names.txt")[0] == 0
    assert json.loads((tmp_path / "x" / "config.json").read_text())["class_names"] == ["cup", "bowl", "vase"]
    ten = deng_file(tmp_path / "ten.pth", 10)
    assert vnt("import", ten, "-o", tmp_path / "ten", "--class-names", "modelnet10")[0] == 0
    for given, message in (("modelnet40", "40 names for 3 classes"), ("nowhere.txt", "nowhere.txt: no such file")):
        code, _, err = vnt("import", path, "-o", tmp_path / "not", "--class-names", given)
        assert code == 2
        assert message in err
    assert not (tmp_path / "not").exists()


def test_what_cannot_be_taken_is_said_in_one_line(tmp_path, vnt):
    (tmp_path / "text.pth").write_text("hello")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "linear.pth")
    torch.save({"weight": torch.ones(3, 3)}, tmp_path / "layer.pth")
    torch.save({"encoder.layers.0.2.1.W": torch.ones(3, 3)}, tmp_path / "network.pth")
    theirs = ("--origin", "VN-transformer")
    for words, message in (
        (("nowhere.pth",), "nowhere.pth: no such file"),
        (("text.pth",), "text.pth: not a file of weights that torch.save wrote"),
        (("linear.pth",), "linear.pth: weights of no program that vnt knows"),
        (("layer.pth", *theirs), "layer.pth: a VNLinear alone, which is no model"),
        (("network.pth",), "network.pth: not the mathematics of vnt: encoder.layers.0.2.1.W: its VN-ReLU"),
    ):
        code, out, err = vnt("import", *words, "-o", tmp_path / "x")
        assert (code, out) == (2, "")
        assert err.startswith(f"vnt: {message}")
        assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_wrong_origin_is_told():
    with pytest.raises(ValueError, match="no origin 'vn'; did you mean 'vnn'"):
        library.import_weights({"weight": torch.ones(2, 2)}, "vn")


def test_help(capsys):
    with pytest.raises(SystemExit) as end:
        main(["import", "--help"])
    assert end.value.code == 0
    assert "--class-names" in capsys.readouterr().out
