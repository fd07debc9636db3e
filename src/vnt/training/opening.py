"""How a run's folder begins: what it trains, on what, on which machine."""

import time
from typing import Any

from vnt.data.batches import CloudBatch, MotionBatch
from vnt.geometry import center, rms_radius
from vnt.models.saving import read_about, write_about
from vnt.training.config import TrainConfig
from vnt.training.run_folder import RunFolder, machine_facts
from vnt.training.task import Data


def open_run(
    run: RunFolder, config: TrainConfig, data: Data, num_steps: int, own: dict[str, Any], *, resume: bool
) -> None:
    """Begin the folder, or see that the run in it is the one to go on with."""
    if run.exists and not resume:
        if not _is_lost(run):
            raise ValueError(
                f"{run.path}: there is a run already; --resume goes on with it, --out names another folder"
            )
        for name in ("run.json", "model.safetensors"):
            (run.path / name).unlink(missing_ok=True)
    if resume:
        if not run.exists:
            raise ValueError(f"{run.path}: there is no run to resume")
        if run.config() != config:
            raise ValueError(f"{run.path}: this run was begun with another config, see config.json there")
        if run.about().get("diverged"):
            run.note({"diverged": ""})
        if "steps" not in run.about():  # killed between the two files that a run begins with
            _note_facts(run, data, num_steps)
        known, classes = run.about(), read_about(run.path).get("class_names")
        now = {"steps": num_steps, "items": len(data.train)}
        if {name: known.get(name) for name in now} != now or list(classes or ()) != list(data.class_names):
            raise ValueError(f"{run.path}: the data are not those that this run was begun with")
        return
    run.path.mkdir(parents=True, exist_ok=True)
    training = {key: value for key, value in config.to_dict().items() if key != "model"}
    about = {
        "class_names": data.class_names,
        "attribute_names": data.attribute_names,
        "up": data.up,
        "dt": data.dt,
        "past": data.train.past.shape[1] if isinstance(data.train, MotionBatch) else None,
        "radius": _sizes(data.train) if isinstance(data.train, CloudBatch) else None,
        "training": training,
        **own,
    }
    write_about(run.path, config.model, about)
    _note_facts(run, data, num_steps)


def _is_lost(run: RunFolder) -> bool:
    """Whether the run diverged before there was anything to go on from."""
    return bool(run.about().get("diverged")) and not any(run.checkpoints.glob("*"))


def _note_facts(run: RunFolder, data: Data, num_steps: int) -> None:
    facts = {"started": time.strftime("%Y-%m-%d %H:%M:%S"), "steps": num_steps, "items": len(data.train)}
    run.note(machine_facts() | facts | {"finished": False})


def _sizes(clouds: CloudBatch) -> list[float]:
    """The RMS radii that all but a hundredth at either end lie between: what is far outside is in other units."""
    radius = rms_radius(center(clouds.points, clouds.mask)[0], clouds.mask).double()
    return [float(radius.quantile(share)) for share in (0.01, 0.99)]
