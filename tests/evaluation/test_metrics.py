import math

import pytest
import torch

from vnt import ClassifierConfig, VNTransformerClassifier
from vnt.bench.toy import toy_clouds
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.evaluation.evaluate import evaluate_batches
from vnt.evaluation.metrics import add, classification, forecast, wilson
from vnt.evaluation.protocols import evaluate_model
from vnt.evaluation.report import Page
from vnt.models.rivals.config import TransformerClassifierConfig
from vnt.models.rivals.transformer import TransformerClassifier


def test_classification_by_hand():
    logits = torch.eye(3)[torch.tensor([0, 1, 1, 2])] * 5
    found = classification(logits, torch.tensor([0, 1, 2, 2]))
    assert found.confusion.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert found.accuracy == 0.75
    assert found.class_accuracy == [1, 1, 0.5]
    assert found.summary()["class_accuracy"] == pytest.approx(2.5 / 3)
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2, 2]))
    assert found.summary()["loss"] == pytest.approx(float(expected))


def test_a_class_without_clouds_does_not_count():
    found = classification(torch.eye(3)[:2], torch.tensor([0, 1]))
    assert math.isnan(found.class_accuracy[2])
    assert found.summary()["class_accuracy"] == 1


def test_forecast_by_hand():
    future = torch.zeros(2, 4, 3)
    predicted = torch.zeros(2, 4, 3)
    predicted[0, :, 0] = torch.tensor([1.0, 1, 1, 1])
    predicted[1, :, 1] = torch.tensor([0.0, 0, 0, 3])
    numbers = forecast(predicted, future).summary()
    assert numbers["ade"] == pytest.approx((1 + 0.75) / 2)
    assert numbers["fde"] == pytest.approx(2)
    assert numbers["miss_rate"] == 0.5
    assert numbers["fde_95"] == pytest.approx(1.96 * 1 / math.sqrt(2))


def test_steps_that_are_not_known_do_not_count():
    future = torch.zeros(1, 4, 3)
    predicted = torch.tensor([[[1.0, 0, 0], [3, 0, 0], [100, 0, 0], [float("nan"), 0, 0]]])
    found = forecast(predicted, future, torch.tensor([[True, True, False, False]])).summary()
    assert found["ade"] == pytest.approx(2)
    assert found["fde"] == pytest.approx(3)
    assert found["miss_rate"] == 1
    nothing = torch.tensor([[False] * 4, [True, True, False, False]])
    both = forecast(predicted.expand(2, -1, -1), future.expand(2, -1, -1), nothing).summary()
    assert both["ade"] == pytest.approx(2)
    assert both["count"] == 1


def test_a_forecast_that_is_no_number_misses():
    found = forecast(torch.full((2, 3, 3), torch.nan), torch.zeros(2, 3, 3)).summary()
    assert found["miss_rate"] == 1
    assert math.isnan(found["ade"])


def test_of_no_track_nothing_is_said():
    found = forecast(torch.zeros(2, 3, 3), torch.zeros(2, 3, 3), torch.zeros(2, 3, dtype=torch.bool)).summary()
    assert found["count"] == 0
    assert all(math.isnan(found[name]) for name in ("ade", "fde", "miss_rate"))
    assert (found["miss_rate_low"], found["miss_rate_high"]) == (0, 1)


def test_batches_add_up_exactly():
    logits, labels = torch.randn(50, 7), torch.randint(7, (50,))
    whole = classification(logits, labels)
    parts = add([classification(logits[i : i + 9], labels[i : i + 9]) for i in range(0, 50, 9)])
    assert torch.equal(parts.confusion, whole.confusion)
    assert float(parts.loss) == pytest.approx(float(whole.loss), rel=1e-12)
    predicted, future = torch.randn(20, 5, 3), torch.randn(20, 5, 3)
    some = add([forecast(predicted[:3], future[:3]), forecast(predicted[3:], future[3:])])
    assert torch.allclose(some.sums, forecast(predicted, future).sums, rtol=1e-12)
    assert some.count == 20


@pytest.mark.parametrize(("right", "total"), [(0, 10), (10, 10), (3, 7), (900, 1000)])
def test_the_interval_holds_the_share(right, total):
    low, high = wilson(right, total)
    assert 0 <= low <= right / total <= high <= 1 + 1e-12


def test_rotations_do_not_depend_on_the_batch_size():
    points, labels = toy_clouds(30, 20)
    model = TransformerClassifier(TransformerClassifierConfig(num_classes=5, channels=16, num_heads=2))
    test = CloudBatch(points=points, labels=labels)
    first, second = (evaluate_batches(model, test, rotation="SO3", batch_size=size) for size in (7, 30))
    assert torch.equal(first.confusion, second.confusion)


def test_protocols_in_one_call():
    points, labels = toy_clouds(40, 24)
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5, channels=8, num_heads=2))
    found = evaluate_model(model, CloudBatch(points=points, labels=labels), trained="z", num_points=12)
    assert list(found.summary()) == ["z/I", "z/z", "z/SO3"]
    assert len({float(result.accuracy) for result in found.results.values()}) == 1


def test_evaluation_leaves_the_model_in_its_mode():
    points, labels = toy_clouds(10, 8)
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5, channels=8, num_heads=2)).train()
    evaluate_batches(model, CloudBatch(points=points, labels=labels))
    assert model.training


def test_clouds_without_labels_are_refused():
    model = VNTransformerClassifier(ClassifierConfig(num_classes=5, channels=8, num_heads=2))
    with pytest.raises(ValueError, match="clouds without labels"):
        evaluate_batches(model, CloudBatch(points=torch.randn(3, 4, 3)))


def test_motion_in_a_rotated_frame():
    def constant_velocity(past, attributes=None, mask=None):
        return past[:, -1:] + (past[:, -1:] - past[:, -2:-1]) * torch.arange(1, 5)[:, None]

    class Model(torch.nn.Module):
        def forward(self, *inputs):
            return constant_velocity(*inputs)

    batch = MotionBatch(past=torch.randn(9, 5, 3), future=torch.randn(9, 4, 3))
    still, turned = (evaluate_batches(Model(), batch, rotation=r).summary() for r in ("I", "SO3"))
    assert turned["ade"] == pytest.approx(still["ade"], rel=1e-5)


def test_pages_are_one_file_and_escape_what_they_say():
    from matplotlib.figure import Figure

    page = Page("a < b")
    page.heading("x & y")
    page.text("<script>")
    page.table(["name", "value"], [["<i>", "1.0"]])
    page.figure(Figure(figsize=(1, 1)), 'a "figure"')
    text = page.html()
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    assert 'src="data:image/png;base64,' in text
    assert "http" not in text
    assert '<td class="number">1.0</td>' in text


def test_a_column_of_numbers_may_lack_some():
    page = Page("quoted and measured")
    page.table(["model", "accuracy", "size"], [["quoted", "–", "small"], ["ours", "90.5 %", "2M"]])
    assert '<td class="number">–</td>' in page.html()
    assert '<td class="number">90.5 %</td>' in page.html()
    assert "<td>small</td>" in page.html()
    assert "<td>2M</td>" in page.html()
