import dataclasses
import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import vnt
from models.cases import apart
from training.tasks import clouds, config, motion_config, tracks
from vnt.data.batches import CloudBatch
from vnt.data.motion_set import save_parts
from vnt.data.sets import load_set
from vnt.models.kinds import KINDS, build_model
from vnt.models.rivals.config import TransformerClassifierConfig
from vnt.training.average import Average
from vnt.training.checkpoint import load_state
from vnt.training.loop import train
from vnt.training.optimizer import make_optimizer
from vnt.training.run_folder import RunFolder
from vnt.training.runs import evaluate, summarize
from vnt.training.task import Data


def weights(model):
    return torch.cat([value.flatten().double() for value in model.state_dict().values()])


def test_attributes_in_any_unit_give_the_same_weights(tmp_path):
    """The data decide what attributes are divided by; by a power of two, so that nothing is rounded."""
    model = vnt.ClassifierConfig(num_classes=2, channels=8, num_heads=2, num_attributes=2, fusion="early")
    config = vnt.TrainConfig(model=model, epochs=1, batch_size=4, device="cpu")
    points, labels = torch.randn(8, 20, 3), torch.arange(8) % 2
    flags, mask = (torch.rand(8, 20, 1) < 0.3).float(), torch.rand(8, 20) < 0.9
    attributes = torch.cat([flags, torch.randn(8, 20, 1)], -1)

    def run(name: str, unit: float) -> nn.Module:
        batch = CloudBatch(points=points, labels=labels, mask=mask, attributes=attributes * torch.tensor([1.0, unit]))
        return train(config, tmp_path / name, data=Data(batch, batch, ("a", "b"), ("flag", "heat"))).model

    small, large = run("small", 1.0), run("large", 1024.0)
    assert small.config.attribute_scales[0] == 1.0
    assert large.config.attribute_scales[1] == 1024 * small.config.attribute_scales[1]
    assert all(torch.equal(a, b) for a, b in zip(small.parameters(), large.parameters(), strict=True))


def test_a_run_leaves_everything_in_its_folder(tmp_path):
    trained = train(config(), tmp_path / "run", data=clouds())
    assert trained.finished
    run = RunFolder(tmp_path / "run")
    assert [record["epoch"] for record in run.metrics()] == [1, 2, 3]
    assert {"loss", "val_accuracy", "val_loss", "learning_rate", "seconds"} <= set(run.metrics()[0])
    assert 0 < sum(record["epoch_seconds"] for record in run.metrics()) < run.metrics()[-1]["seconds"]
    about = run.about()
    assert about["finished"]
    assert about["torch"] == torch.__version__
    assert run.config() == config()
    assert torch.equal(weights(vnt.load(tmp_path / "run")), weights(trained.model))
    assert json.loads((tmp_path / "run" / "config.json").read_text())["class_names"] == list("abcde")


def test_forecasting(tmp_path):
    trained = train(motion_config(epochs=6, learning_rate=1e-2, ema=0.5), tmp_path / "run", data=tracks())
    first, *_, last = trained.metrics
    assert last["val_ade"] < 0.8 * first["val_ade"]


def test_the_same_seed_gives_the_same_weights(tmp_path):
    runs = [train(config(seed=seed), tmp_path / str(n), data=clouds()) for n, seed in enumerate((0, 0, 1))]
    assert torch.equal(weights(runs[0].model), weights(runs[1].model))
    assert not torch.equal(weights(runs[0].model), weights(runs[2].model))


@pytest.mark.parametrize(
    ("steps", "optimizer"), [*((steps, "adamw") for steps in (1, 4, 5, 7, 12, 14)), (4, "sgd"), (7, "sgd")]
)
def test_resumed_runs_end_with_the_same_bits(tmp_path, steps, optimizer):
    """Interrupted after any step, also the last of an epoch: dropout, augmentation, EMA and optimizer go on."""
    often = config(checkpoint_seconds=0.0, optimizer=optimizer)
    whole = train(config(optimizer=optimizer), tmp_path / "whole", data=clouds())

    class Stop(Exception):
        pass

    taken = []

    def loss(output, batch):
        taken.append(1)
        if len(taken) > steps:
            raise Stop
        return nn.functional.cross_entropy(output, batch.labels)

    with pytest.raises(Stop):
        train(often, tmp_path / "cut", data=clouds(), loss=loss)
    taken.clear()
    steps_left, steps = 15 - steps, 10**6
    spent = load_state(RunFolder(tmp_path / "cut").checkpoints).rest["seconds"]
    cut = train(often, tmp_path / "cut", data=clouds(), resume=True, loss=loss)
    assert len(taken) == steps_left, "it began anew instead of going on"
    assert spent > 0
    assert cut.metrics[-1]["seconds"] > spent, "what came before the stop is not counted"
    assert torch.equal(weights(cut.model), weights(whole.model))
    without_time = [{k: v for k, v in record.items() if not k.endswith("seconds")} for record in cut.metrics]
    assert without_time == [{k: v for k, v in record.items() if not k.endswith("seconds")} for record in whole.metrics]


def test_a_run_killed_before_it_had_noted_its_facts_goes_on(tmp_path):
    whole = train(config(), tmp_path / "whole", data=clouds())
    train(config(epochs=3), tmp_path / "cut", data=clouds())
    for file in ("run.json", "metrics.jsonl"):
        (tmp_path / "cut" / file).unlink()
    shutil.rmtree(tmp_path / "cut" / "checkpoints")
    cut = train(config(), tmp_path / "cut", data=clouds(), resume=True)
    assert torch.equal(weights(cut.model), weights(whole.model))
    assert RunFolder(tmp_path / "cut").about()["finished"]


def test_a_file_of_windows_is_a_data_set(tmp_path):
    windows = load_set("motion", "test").take(np.arange(60))
    save_parts([replace(windows, is_test=np.arange(60) % 5 == 0)], tmp_path / "own.safetensors", name="own")
    trained = train(motion_config(dataset=str(tmp_path / "own.safetensors"), epochs=1), tmp_path / "run")
    assert RunFolder(trained.folder).about()["items"] == 48 - trained.metrics[-1]["val_count"]
    assert evaluate(trained.folder).summary()["I/I"]["count"] == 12
    evaluate(trained.folder, num_points=100)  # of clouds alone
    before = RunFolder(trained.folder).about()
    assert {name: numbers["num_points"] for name, numbers in before["test"].items()} == dict.fromkeys(
        ("I/I", "I/z", "I/SO3"), 0
    )
    others = replace(windows, is_test=np.arange(60) % 3 == 0)
    save_parts([others], tmp_path / "others.safetensors", name="others")
    assert evaluate(trained.folder, others=tmp_path / "others.safetensors").summary()["I/I"]["count"] == 20
    assert RunFolder(trained.folder).about() == before
    save_parts([replace(others, dt=5 * others.dt)], tmp_path / "slow.safetensors", name="slow")
    with pytest.raises(ValueError, match=r"trained on windows of 11 \+ 30 steps of 0.1 s; those of .* of 0.5 s"):
        evaluate(trained.folder, others=tmp_path / "slow.safetensors")


@pytest.mark.parametrize("step", [3, 5, 10])
def test_ctrl_c_saves_and_says_so(tmp_path, step, monkeypatch):
    """In the middle of an epoch (of five steps), and in its last step."""
    import signal

    def interrupt(moment):
        if moment.step == step and moment.metrics is None:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("vnt.training.clock.WATCH_SECONDS", 0.0)
    stopped = train(config(), tmp_path / "run", data=clouds(), watch=interrupt)
    assert not stopped.finished
    assert (tmp_path / "run" / "checkpoints" / f"state-{step:08d}.json").exists()
    assert len(stopped.metrics) == step // 5
    whole = train(config(), tmp_path / "whole", data=clouds())
    assert torch.equal(
        weights(train(config(), tmp_path / "run", data=clouds(), resume=True).model), weights(whole.model)
    )


def test_ctrl_c_in_the_last_step_comes_too_late(tmp_path, monkeypatch):
    import signal

    monkeypatch.setattr("vnt.training.clock.WATCH_SECONDS", 0.0)
    watch = lambda moment: signal.raise_signal(signal.SIGINT) if moment.step == 15 and not moment.metrics else None  # noqa: E731
    assert train(config(), tmp_path / "run", data=clouds(), watch=watch).finished


def test_other_data_are_not_gone_on_with(tmp_path):
    class Stop(Exception):
        pass

    def watch(moment):
        if moment.metrics:
            raise Stop

    with pytest.raises(Stop):
        train(config(), tmp_path / "run", data=clouds(), watch=watch)
    with pytest.raises(ValueError, match="the data are not those that this run was begun with"):
        train(config(), tmp_path / "run", data=clouds(80), resume=True)


def test_runs_on_own_data_are_not_evaluated_on_others(tmp_path):
    train(config(epochs=1), tmp_path / "run", data=clouds())
    with pytest.raises(ValueError, match="trained on data of your own"):
        vnt.evaluate(tmp_path / "run")


def test_own_model_and_own_loss(tmp_path):
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 5)

        def forward(self, points, attributes=None, mask=None):
            return self.layer(points.square().mean(1))

    seen = []

    def loss(output, batch):
        seen.append(len(batch))
        return nn.functional.cross_entropy(output, batch.labels)

    trained = train(config(), tmp_path / "run", data=clouds(), model=Mine(), loss=loss)
    assert trained.finished
    assert set(seen) == {8}
    with pytest.raises(ValueError, match="trained with a model of your own, Mine"):
        vnt.load(tmp_path / "run")


def test_own_model_with_tied_weights(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = self.two = nn.Linear(3, 5)

        def forward(self, points, attributes=None, mask=None):
            return self.one(points.square().mean(1)) + self.two(points.amax(1))

    model = Tied()
    assert train(config(), tmp_path / "run", data=clouds(), model=model).finished
    average = Average(model, 0.9)
    with torch.no_grad():
        before = model.one.weight.clone()
        model.one.weight += 1
    average.update(model, 10_000)
    assert torch.allclose(average.model.one.weight, before + 0.1)  # once, not once by each name


def test_what_a_process_asks_of_determinism_is_left_as_it_was(tmp_path):
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        train(config(epochs=1), tmp_path / "run", data=clouds())
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "apart_classifier"])
def test_every_kind_of_model_trains(tmp_path, kind):
    fields = {field.name for field in dataclasses.fields(KINDS[kind][0])}
    small = {"channels": 8, "num_heads": 2, "depth": 1, "num_neighbors": 4, "num_classes": 2}
    if kind in ("ri_conv", "gc_conv"):
        small = {"num_classes": 2, "width": 0.1}
    elif kind in ("tfn", "se3_transformer"):
        pytest.importorskip("e3nn", reason="the extra 'rivals' is not installed")
        small |= {"width": 8}
    elif "width" in fields:
        small |= {"width": 0.1}
    model = KINDS[kind][0](**{key: value for key, value in small.items() if key in fields})
    classifies = "num_classes" in fields
    data = clouds() if classifies else tracks()
    if kind == "scan_classifier":
        parts = [replace(part, attributes=torch.rand(len(part), 16, 1)) for part in (data.train, data.val)]
        data = replace(data, train=parts[0], val=parts[1])
    trained = train(config(model=model, epochs=1), tmp_path / "run", data=data)
    assert trained.model.config.num_classes == 5 if classifies else trained.model.config.num_future == 5


def test_what_is_put_together_is_not_trained(tmp_path):
    with pytest.raises(ValueError, match=r"its parts are trained, and put together by vnt\.combine"):
        train(config(model=apart("default").config), tmp_path / "run", data=clouds())


def test_bfloat16_and_compile_go_through(tmp_path):
    small = replace(config(epochs=1).model, dropout=0.0)
    for number, change in enumerate(({}, {"precision": "bfloat16"}, {"compile": True}, {"deterministic": True})):
        torch._dynamo.reset()
        trained = train(config(epochs=1, model=small, **change), tmp_path / str(number), data=clouds())
        reference = trained if number == 0 else reference
        difference = (weights(trained.model) - weights(reference.model)).norm() / weights(reference.model).norm()
        assert difference < (0.05 if "precision" in change else 1e-4)


def test_the_average_is_what_is_kept(tmp_path):
    followed = train(config(ema=0.0), tmp_path / "a", data=clouds())
    averaged = train(config(ema=0.9), tmp_path / "b", data=clouds())
    assert not torch.equal(weights(followed.model), weights(averaged.model))


def test_gains_and_biases_do_not_decay():
    model = build_model(TransformerClassifierConfig(num_classes=3, channels=8, num_heads=2))
    decayed, rest = make_optimizer(model, config()).param_groups
    assert decayed["weight_decay"] == 0.05
    assert rest["weight_decay"] == 0
    assert all(parameter.ndim > 1 for parameter in decayed["params"])
    assert all(parameter.ndim <= 1 for parameter in rest["params"])
    assert len(decayed["params"]) + len(rest["params"]) == len(list(model.parameters()))


def test_nor_do_gains_of_vectors_and_the_directions_of_biases():
    model = nn.ModuleDict({"linear": vnt.VNLinear(4, 5, bias_epsilon=0.1)})
    model.register_parameter("gain", nn.Parameter(torch.ones(3, 1)))
    decayed, rest = make_optimizer(model, config()).param_groups
    assert [parameter is model["linear"].weight for parameter in decayed["params"]] == [True]
    assert {tuple(parameter.shape) for parameter in rest["params"]} == {(3, 1), (5, 3)}


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    with pytest.raises(ValueError, match=r"the loss became nan before step \d+: lower learning_rate"):
        train(config(), tmp_path / "run", data=clouds(), loss=lambda output, batch: output.sum() * float("nan"))


def test_what_diverged_at_once_is_in_nobodys_way(tmp_path):
    with pytest.raises(ValueError, match="the loss became"):
        train(config(), tmp_path, data=clouds(), loss=lambda output, batch: output.sum() * float("nan"))
    (line,) = summarize(tmp_path)
    assert (line["state"], line["data"]) == ("diverged", "your own")
    assert train(config(), tmp_path, data=clouds()).finished
    assert summarize(tmp_path)[0]["state"] == "finished"


def test_what_diverged_later_can_be_resumed(tmp_path):
    """By a loss that fails once: what is said of it is forgotten when the run goes on."""
    calls = []

    def loss(output, batch):
        calls.append(1)
        return output.square().mean() * (float("nan") if len(calls) == 7 else 1.0)

    with pytest.raises(ValueError, match="the loss became"):
        train(config(checkpoint_seconds=0), tmp_path, data=clouds(), loss=loss)
    with pytest.raises(ValueError, match="there is a run already"):
        train(config(checkpoint_seconds=0), tmp_path, data=clouds(), loss=loss)
    assert train(config(checkpoint_seconds=0), tmp_path, data=clouds(), loss=loss, resume=True).finished
    assert not RunFolder(tmp_path).about()["diverged"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"class_names": ()}, "need class_names"),
        ({"class_names": ("a", "b")}, "labels from 0 to 4 do not fit 2 class_names"),
    ],
)
def test_classes_need_names(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        train(config(), tmp_path, data=replace(clouds(), **change))


def test_a_run_that_trains_is_listed_as_running(tmp_path):
    states = []

    def watch(moment):
        if moment.metrics and not states:
            listed = f"from vnt.training.runs import summarize; print(summarize({str(tmp_path)!r})[0]['state'])"
            states.append(subprocess.check_output([sys.executable, "-c", listed], text=True).strip())

    train(config(), tmp_path / "run", data=clouds(), watch=watch)
    assert states == ["running"]
    assert summarize(tmp_path)[0]["state"] == "finished"


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    """Two would write over one another; a process that was killed holds nothing."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom vnt.training.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).claimed():\n    print('mine', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path / "run"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(ValueError, match="another process is training this run"):
            train(config(), tmp_path / "run", data=clouds())
        other.kill()
    assert (tmp_path / "run" / ".training").exists()
    assert train(config(), tmp_path / "run", data=clouds()).finished
    assert not (tmp_path / "run" / ".training").exists()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda folder: train(config(), folder, data=clouds()), "there is a run already; --resume goes on with it"),
        (lambda folder: train(config(seed=9), folder, data=clouds(), resume=True), "begun with another config"),
        (lambda folder: train(config(), folder / "x", data=clouds(), resume=True), "there is no run to resume"),
        (lambda folder: train(motion_config(), folder / "x", data=clouds()), "clouds are classified, but a Forecaster"),
        (lambda folder: train(config(), folder / "x", data=tracks()), "tracks are forecast, but a ClassifierConfig"),
        (lambda folder: train(config(device="tpu9"), folder / "x", data=clouds()), "device must be 'auto'"),
        (
            lambda folder: train(motion_config(teachers=(str(folder),)), folder / "x", data=tracks()),
            "does not forecast the 5 steps of 0.1 s",
        ),
        (
            lambda folder: train(config(teachers=("shapes",)), folder / "x", data=clouds()),
            "knows 21 classes, which are not",
        ),
        (lambda folder: train(config(dataset="shapez"), folder / "x"), "no data set 'shapez', .*did you mean 'shapes'"),
    ],
)
def test_messages(tmp_path, act, message):
    train(config(epochs=1), tmp_path, data=clouds())
    with pytest.raises(ValueError, match=message):
        act(tmp_path)
