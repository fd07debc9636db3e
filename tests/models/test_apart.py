"""Shape and attributes judged apart: symmetry, masks, configs, and what is put together out of two runs."""

import json
from dataclasses import asdict, replace

import pytest
import torch

import vnt
from helpers import assert_close, centred_logits, random_mask
from models.cases import apart
from training.tasks import clouds, config
from vnt.models.apart import ApartClassifier, ScanClassifier
from vnt.models.apart_config import ScanConfig
from vnt.models.kinds import model_from_dict, model_to_dict
from vnt.testing import equivariance_error
from vnt.training.combining import combine

APART = apart("default").config
SCAN, SHAPE = APART.evidence, APART.shape
MODELS = {"scan": lambda: ScanClassifier(SCAN), "apart": lambda: ApartClassifier(APART)}
EACH = pytest.mark.parametrize("name", MODELS)


def model_and_input(name, dtype=torch.float64):
    torch.manual_seed(0)
    return MODELS[name]().to(dtype), torch.randn(3, 40, 3, dtype=dtype), torch.randn(3, 40, 2, dtype=dtype)


@EACH
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 1e-4), (torch.float64, 1e-11)], ids=str)
def test_turning_and_moving_a_cloud_changes_nothing(name, training, dtype, gate):
    model, points, attributes = model_and_input(name, dtype)
    model.requires_grad_(False)
    model.train(training)
    error = equivariance_error(centred_logits(lambda x: model(x, attributes)), [points], ["point"], "scalar")
    assert error < gate
    moved = model(points + 3.0, attributes)
    assert float((moved - model(points, attributes)).abs().max()) < 100 * gate


@EACH
def test_padding_and_order_and_company_do_not_matter(name):
    model, points, attributes = model_and_input(name)
    model.eval()
    mask = random_mask(3, 40)
    filled = torch.where(mask[..., None], points, torch.nan)
    together = model(filled, torch.where(mask[..., None], attributes, torch.nan), mask)
    for item in range(3):
        kept = mask[item].nonzero().squeeze(-1).flip(0)
        assert_close(model(points[item, kept], attributes[item, kept]), together[item], 1e-10)


@EACH
def test_attributes_are_heard_and_their_unit_is_known(name):
    model, points, attributes = model_and_input(name)
    model.eval().requires_grad_(False)
    said = model(points, attributes)
    assert float((model(points, attributes.flip(1)) - said).abs().max()) > 1e-4
    assert bool(model(points, torch.zeros_like(attributes)).isfinite().all())
    assert bool(model(torch.zeros_like(points), attributes).isfinite().all())
    with pytest.raises(ValueError, match="no attributes were given"):
        model(points)


def test_size_does_not_matter_to_the_scan():
    model, points, attributes = model_and_input("scan")
    model.eval()
    assert_close(model(1e-3 * points, 7 * attributes), model(points, attributes), 1e-9)


def test_logits_add():
    model, points, attributes = model_and_input("apart")
    model.eval()
    both = model.shape(points) + 0.6 * model.evidence(points, attributes)
    assert_close(model(points, attributes), both)
    heavier = ApartClassifier(replace(APART, weight=2.0)).double().eval()
    heavier.load_state_dict(model.state_dict())
    assert_close(heavier(points, attributes), model.shape(points) + 2 * model.evidence(points, attributes))


@pytest.mark.parametrize("given", [SCAN, APART], ids=["scan", "apart"])
def test_configs_survive_json(given):
    assert type(given).from_json(given.to_json()) == given
    assert model_from_dict(json.loads(json.dumps(model_to_dict(given)))) == given


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": -1.0}, "weight must be at least 0"),
        ({"num_attributes": 1}, "the evidence is for 2 attributes, got 1"),
        ({"num_classes": 6}, "the same num_classes, got 5, 6"),
        ({"num_vectors": 1}, "the same num_vectors, got 0, 1"),
        ({"shape": replace(SHAPE, num_attributes=2, fusion="late")}, "shape is judged without attributes"),
        ({"shape": asdict(SHAPE) | {"chanels": 3}}, "has no key 'chanels'"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(APART, **changes)


def test_every_setting_of_the_scan_changes_something():
    changes = {"num_classes": 6, "num_attributes": 1, "num_radii": 8, "hidden_channels": 8}
    sizes = {
        name: tuple(x.shape for x in ScanClassifier(replace(SCAN, **{name: value})).parameters())
        for name, value in changes.items()
    }
    assert len({*sizes.values(), tuple(x.shape for x in ScanClassifier(SCAN).parameters())}) == len(changes) + 1
    parts = ScanClassifier(replace(SCAN, dropout=0.3)).modules()
    assert [part.p for part in parts if isinstance(part, torch.nn.Dropout)] == [0.3, 0.3]
    with pytest.raises(ValueError, match="num_attributes must be at least 1"):
        replace(SCAN, num_attributes=0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs on the same clouds: one without their attributes, one of these alone."""
    folder, plain = tmp_path_factory.mktemp("runs"), clouds()
    dots = [replace(part, attributes=torch.rand(len(part), 16, 1)) for part in (plain.train, plain.val)]
    dotted = replace(plain, train=dots[0], val=dots[1], attribute_names=("dot",))
    vnt.train(config(epochs=1), folder / "shape", data=plain)
    scan = ScanConfig(num_classes=5, num_radii=12)
    vnt.train(config(epochs=1, model=scan, balance=True), folder / "dots", data=dotted)
    return folder, dotted


def test_two_runs_become_one_model(runs, tmp_path):
    folder, data = runs
    model = combine(folder / "shape", folder / "dots", tmp_path / "both", weight=0.5)
    again = vnt.load(tmp_path / "both")
    points, attributes = data.val.points, data.val.attributes
    with torch.no_grad():
        said = again(points, attributes)
        assert_close(said, model(points, attributes))
        parts = vnt.load(folder / "shape")(points), vnt.load(folder / "dots")(points, attributes)
        assert_close(said, parts[0] + 0.5 * parts[1], 1e-6)
    report = vnt.audit(again, points[:4], attributes[:4], precisions=("float64",), num_samples=2, num_starts=0)
    assert report.violations["float64"].worst < 1e-11
    with pytest.raises(ValueError, match="there is a model already"):
        combine(folder / "shape", folder / "dots", tmp_path / "both")


def test_only_what_belongs_together_is_combined(runs, tmp_path):
    folder, _ = runs
    with pytest.raises(ValueError, match="got a ScanClassifier and a VNTransformerClassifier"):
        combine(folder / "dots", folder / "shape", tmp_path / "both")
    with pytest.raises(ValueError, match="other classes apart"):
        combine("shapes", folder / "dots", tmp_path / "both")
