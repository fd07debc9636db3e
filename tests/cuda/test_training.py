"""The training loop on a GPU: every precision, compiled, reproducible, resumed."""

import pytest
import torch

from training.tasks import clouds, config, motion_config, tracks
from vnt.training.loop import train

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.filterwarnings("ignore"),
]


def weights(model):
    return torch.cat([value.flatten().double().cpu() for value in model.state_dict().values()])


@pytest.mark.parametrize("change", [{}, {"precision": "bfloat16"}, {"precision": "bfloat16", "compile": True}], ids=str)
def test_trains_in_every_precision(tmp_path, change):
    trained = train(config(device="cuda", epochs=6, ema=0.5, learning_rate=1e-2, **change), tmp_path, data=clouds())
    assert trained.metrics[-1]["loss"] < trained.metrics[0]["loss"]
    assert next(trained.model.parameters()).is_cuda


def test_tracks(tmp_path):
    trained = train(motion_config(device="cuda", epochs=6, ema=0.5, learning_rate=1e-2), tmp_path, data=tracks())
    assert trained.metrics[-1]["val_ade"] < trained.metrics[0]["val_ade"]


def test_deterministic_runs_are_the_same(tmp_path):
    settings = config(device="cuda", deterministic=True, epochs=2)
    first, second = (weights(train(settings, tmp_path / name, data=clouds()).model) for name in "ab")
    assert torch.equal(first, second)


def test_resume_on_the_device(tmp_path):
    def stop(output, batch):
        stop.calls += 1
        if stop.calls > 7:
            raise InterruptedError
        return torch.nn.functional.cross_entropy(output, batch.labels)

    stop.calls = 0
    settings = config(device="cuda", deterministic=True, checkpoint_seconds=0.0)
    whole = train(settings, tmp_path / "whole", data=clouds())
    with pytest.raises(InterruptedError):
        train(settings, tmp_path / "cut", data=clouds(), loss=stop)
    cut = train(settings, tmp_path / "cut", data=clouds(), resume=True)
    assert torch.equal(weights(cut.model), weights(whole.model))
