"""The training loop, from the config to the tested model."""

import math
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vnt.data.batches import Batch, Batches, item_seed
from vnt.evaluation.evaluate import evaluate_batches, forward
from vnt.models.kinds import build_model
from vnt.models.rivals.forecasting import Solved
from vnt.models.saving import write_weights
from vnt.training.average import Average
from vnt.training.checkpoint import State, forget_after, load_state, pack, save_state, unpack
from vnt.training.clock import Clock
from vnt.training.compiled import compiled
from vnt.training.config import TrainConfig
from vnt.training.distributed import Processes, processes
from vnt.training.interruption import interruptible
from vnt.training.opening import open_run
from vnt.training.optimizer import learning_rate, make_optimizer
from vnt.training.run_folder import RunFolder
from vnt.training.solving import solve
from vnt.training.starting import start_from
from vnt.training.task import Data, augmentations, fit_model, load_data
from vnt.training.teaching import make_loss


class DivergedError(ValueError):
    """The loss is no longer a finite number."""


@dataclass(frozen=True)
class Moment:
    """Where a run is, for those who watch it.

    Attributes:
        step, num_steps, epoch: how far it is.
        loss: of the last batch.
        metrics: of the validation split, where it has just been looked at.
    """

    step: int
    num_steps: int
    epoch: int
    loss: float
    metrics: dict[str, Any] | None = None


@dataclass(frozen=True)
class Trained:
    """What came out of a run."""

    folder: Path
    model: nn.Module
    metrics: list[dict[str, Any]]
    finished: bool


def train(
    config: TrainConfig,
    folder: Path | str,
    *,
    data: Data | None = None,
    model: nn.Module | None = None,
    loss: Callable[[Tensor, Batch], Tensor] | None = None,
    resume: bool = False,
    from_step: int | None = None,
    data_folder: Path | None = None,
    watch: Callable[[Moment], None] | None = None,
) -> Trained:
    """Train a model and leave all there is to know about it in a folder.

    Everything random follows from the seed and the number of the step, so a run that was killed and resumed ends with
    the weights it would have had: bit by bit on a CPU.

    Args:
        config: what to do.
        folder: where to put it; must be new, unless ``resume``.
        data: your own splits, instead of the set that the config names.
        model: your own, with the forward signature of ours, instead of the config's.
        loss: your own, of (output, batch), the mean over a batch; do not keep outputs, the next step overwrites them.
        resume: go on from the newest checkpoint in the folder.
        from_step: go on from the checkpoint after so many steps instead.
        data_folder: where data sets are (else ``VNT_DATA``, else ``./data``).
        watch: called about five times a second, and after each look at the validation split.
    """
    run = RunFolder(Path(folder))
    with processes(config.device) as group, run.claimed() if group.is_first else nullcontext(), _reproducible(config):
        try:
            return _train(group, config, run, data, model, loss, resume, from_step, data_folder, watch)
        except DivergedError as error:
            if group.is_first:
                run.note({"diverged": str(error)})
            raise


def _train(
    group: Processes,
    config: TrainConfig,
    run: RunFolder,
    data: Data | None,
    model: nn.Module | None,
    loss: Callable[[Tensor, Batch], Tensor] | None,
    resume: bool,
    from_step: int | None,
    data_folder: Path | None,
    watch: Callable[[Moment], None] | None,
) -> Trained:
    """`train` in one process of the group. What it made for the group is gone when it returns: before the group is."""
    own = {"own_model": None if model is None else type(model).__name__, "own_data": data is not None}
    data = data if data is not None else load_data(config, data_folder)
    for name, part in (("train on", data.train), ("validate on", data.val)):
        if len(part) == 0:
            raise ValueError(f"{config.dataset}: there is nothing to {name}")
    if config.batch_size < group.count or len(data.train) < group.count:
        raise ValueError(f"a batch of {config.batch_size} cannot be spread over {group.count} processes")
    data = replace(data, train=data.train.to(group.device), val=data.val.to(group.device))

    state = load_state(run.checkpoints, step=from_step) if resume else None
    torch.manual_seed(config.seed)
    if model is None:
        config = replace(config, model=fit_model(config.model, data, run.path if state is not None else config.start))
        model = build_model(config.model)
        if config.start and state is None:
            start_from(model, config.model, config.start, data.class_names)
    elif config.start:
        raise ValueError("a model of your own begins as it is: load weights into it before training")
    model = model.to(group.device)
    if isinstance(model, Solved):
        if group.is_first:
            open_run(run, config, data, 1, own, resume=resume)
        solve(run, config, data, model, is_first=group.is_first)
        return Trained(run.path, model, run.metrics(), finished=True)
    if loss is not None and config.teachers:
        raise ValueError("a teacher is part of the loss: give one or the other")
    objective = make_loss(config, data, group.device) if loss is None else loss
    average = Average(model, config.ema)
    optimizer = make_optimizer(model, config)
    batches = Batches(
        data.train,
        config.batch_size,
        transforms=augmentations(config, data),
        seed=config.seed,
        drop_last=len(data.train) >= config.batch_size,
    )
    num_steps = config.epochs * len(batches)
    if group.is_first:
        open_run(run, config, data, num_steps, own, resume=resume)

    step, spent, loss_sum = 0, 0.0, torch.zeros((), dtype=torch.float64, device=group.device)
    if state is not None:
        unpack(state, run.checkpoints, model, average.model, optimizer)
        step = state.step
        loss_sum += state.rest["loss_sum"]
        spent = state.rest.get("seconds", 0.0)
    if group.is_first:
        forget_after(run.checkpoints, step)
        run.rewind(step)
    group.wait()

    runner = group.wrap(compiled(model, group.device, graphs=group.count == 1) if config.compile else model)
    clock = Clock(config.checkpoint_seconds, spent)
    with interruptible(group) as interrupted:
        while step < num_steps:
            epoch, within = divmod(step, len(batches))
            began = time.monotonic()
            for batch in batches.epoch(epoch, start=within):
                value = _step(config, runner, optimizer, objective, batch, group, step, num_steps)
                average.update(model, step)
                loss_sum += value
                step += 1
                if watch is not None and clock.is_time_to_watch():
                    watch(Moment(step, num_steps, epoch, _require_finite(value, step)))
                if step % len(batches) == 0:
                    break  # what belongs to the end of an epoch comes first
                stop = interrupted()
                if group.is_first and (stop or clock.is_time_to_save()):
                    _save(run, step, model, average, optimizer, loss_sum, clock)
                if stop:
                    return Trained(run.path, average.model, run.metrics(), finished=False)

            mean_loss = _require_finite(loss_sum / len(batches), step)  # waits for the device, so that time is right
            epoch_seconds = (time.monotonic() - began) * len(batches) / (len(batches) - within)
            loss_sum.zero_()
            if (epoch + 1) % config.evaluate_every == 0 or step == num_steps:
                found = evaluate_batches(average.model, data.val, rotation=config.rotation, up=data.up).summary()
                record = {
                    "epoch": epoch + 1,
                    "step": step,
                    "loss": mean_loss,
                    "learning_rate": learning_rate(config, step - 1, num_steps),
                    **{f"val_{name}": number for name, number in found.items()},
                }
                if group.is_first:
                    times = {"seconds": clock.seconds(), "epoch_seconds": epoch_seconds}
                    run.add_metrics(record | {name: round(value, 3) for name, value in times.items()})
                    write_weights(run.path, average.model)
                if watch is not None:
                    watch(Moment(step, num_steps, epoch, mean_loss, record))
            stop = interrupted() and step < num_steps
            if group.is_first and (stop or clock.is_time_to_save() or step == num_steps):
                _save(run, step, model, average, optimizer, loss_sum, clock)
            if stop:
                return Trained(run.path, average.model, run.metrics(), finished=False)
    if group.is_first:
        run.note({"finished": True, "seconds": round(clock.seconds(), 1)})
    return Trained(run.path, average.model, run.metrics(), finished=True)


def _step(
    config: TrainConfig,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor, Batch], Tensor],
    batch: Batch,
    group: Processes,
    step: int,
    num_steps: int,
) -> Tensor:
    """One step on one batch, of which each process takes its share; returns the mean loss of the whole."""
    torch.manual_seed(item_seed(config.seed, step, group.rank))  # of dropout
    whole = len(batch)
    if group.count > 1:
        mine = torch.arange(group.rank, whole, group.count, device=group.device)
        batch = batch.rows(mine)
    for settings in optimizer.param_groups:
        settings["lr"] = learning_rate(config, step, num_steps)
    model.train()
    optimizer.zero_grad(set_to_none=True)  # before the next CUDA graph, in whose memory gradients lie
    with torch.autocast(group.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
        output = forward(model, batch)
        # Gradients are averaged over processes: weighted like this, they are those of the whole batch.
        value = loss(output, batch) * (len(batch) * group.count / whole)
    value.backward()
    if config.clip_norm:
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    optimizer.step()
    return group.mean(value.detach())


def _save(
    run: RunFolder,
    step: int,
    model: nn.Module,
    average: Average,
    optimizer: torch.optim.Optimizer,
    loss_sum: Tensor,
    clock: Clock,
) -> None:
    _require_finite(loss_sum, step)
    rest = {"loss_sum": float(loss_sum), "seconds": clock.seconds()}
    save_state(run.checkpoints, State(step, pack(model, average.model, optimizer), rest))


def _require_finite(loss: Tensor, step: int) -> float:
    value = float(loss)
    if not math.isfinite(value):
        raise DivergedError(
            f"the loss became {value} before step {step}: lower learning_rate, or clip_norm, or use float32"
        )
    return value


@contextmanager
def _reproducible(config: TrainConfig) -> Generator[None]:
    if config.deterministic:  # what cuBLAS wants to be told before it starts
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    if config.deterministic:
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=only_warned)
