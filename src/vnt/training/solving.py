"""Models whose weights are the solution of a problem: one look at the training split instead of many steps."""

import time

from vnt.data.batches import MotionBatch
from vnt.evaluation.evaluate import evaluate_batches
from vnt.models.rivals.forecasting import Solved
from vnt.models.saving import write_weights
from vnt.training.config import TrainConfig
from vnt.training.run_folder import RunFolder
from vnt.training.task import Data


def solve(run: RunFolder, config: TrainConfig, data: Data, model: Solved, *, is_first: bool) -> None:
    """Fit the model, look at the validation split, and leave both in the run's folder."""
    if not isinstance(data.train, MotionBatch):
        raise ValueError(f"a {type(model).__name__} is for tracks")
    started = time.monotonic()
    model.fit(data.train.past, data.train.future, data.train.mask, data.train.known)
    found = evaluate_batches(model, data.val, rotation=config.rotation, up=data.up).summary()
    if not is_first:
        return
    run.rewind(0)
    record = {"epoch": 1, "step": 1, **{f"val_{name}": number for name, number in found.items()}}
    seconds = round(time.monotonic() - started, 3)
    run.add_metrics(record | {"seconds": seconds})
    write_weights(run.path, model)
    run.note({"finished": True, "seconds": seconds})
