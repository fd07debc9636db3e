"""Everything that a training run depends on, as one frozen config that survives JSON. No torch."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from vnt.configuration import Config
from vnt.models.config import ClassifierConfig
from vnt.models.kinds import ModelConfig, model_from_dict, model_to_dict

FORMAT = 1
"""Of ``config.json``. A program refuses files of a later format than it knows."""

Rotation = Literal["I", "z", "SO3"]


OF_CLOUDS = ("num_points", "scale", "shift", "jitter", "drop_points", "mix", "label_smoothing", "normals")
OF_TRACKS = ("slide",)
"""Settings that one of the tasks has."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """A training run. The same config and the same machine give the same weights, bit by bit on a CPU.

    Attributes:
        dataset: name of a data set (`vnt data list`), or a folder of clouds, one subfolder per class, or a file of
            windows that `vnt data convert` wrote.
        hold_out: keep the validation split out of training; False trains on it too, once settings have been chosen, and
            what is then said of it is of clouds or tracks that were learned.
        model: config of the model; the data decide the number of classes and of future steps.
        num_points: points drawn from each cloud at each step; 0 takes all.
        attributes: of a motion set or of a folder of clouds, by name, that the model gets; velocities and headings of
            tracks as vectors.
        normals: of a folder of clouds, whether the model gets them where all files have them.
        rotation: of the training data: "I" none, "z" about the set's up axis, "SO3" any.
        scale: points are multiplied per axis by a factor from [1/scale, scale]; 1 leaves them.
        shift: largest move of a cloud along each axis.
        jitter: standard deviation of the noise on each coordinate.
        drop_points: largest share of points that is left out.
        mix: share of the clouds of which a part is cut off and taken from another cloud, and of the label as much.
        slide: steps by which the window of a track is moved on at most, so that some of its future is seen as past.
        epochs: how often the training split is seen.
        batch_size: clouds or tracks in a step, over all processes together.
        optimizer: "adamw", or "sgd" with Nesterov's momentum of 0.9.
        learning_rate: at its highest.
        final_learning_rate: at the end of the schedule.
        weight_decay: of matrices; gains and biases are not decayed.
        schedule: of the learning rate after the warm-up: "cosine" or "linear" to the final one, or "constant".
        warmup: share of all steps in which the learning rate rises from zero.
        label_smoothing: of the cross-entropy.
        balance: learn as if all classes were equally frequent (Menon et al., 2021): what a cloud says, and not what was
            to be expected before.
        start: a model to begin with, as `vnt.load` takes it. Classes, and the number of steps, may be others than its
            own: the layers that depend on them begin anew.
        teachers: models to learn from, as `vnt.load` takes them: half of the loss is then the distance to their mean
            answer, probabilities or forecasts, on the same clouds or tracks.
        clip_norm: gradients longer than this are shortened to it; 0 leaves them.
        ema: decay of the running average of the weights, which is what is evaluated and kept; 0 means none.
        precision: "float32", or "bfloat16" for autocast.
        compile: whether the model goes through `torch.compile`.
        device: "auto" takes a GPU where there is one.
        seed: of weights, order, augmentation and dropout.
        deterministic: ask torch for deterministic kernels, also on a GPU, at some cost.
        checkpoint_seconds: how often the state is saved, and so how much a crash can lose.
        evaluate_every: epochs between looks at the validation split; the last epoch is always looked at.
    """

    dataset: str = "shapes"
    hold_out: bool = True
    model: ModelConfig = field(default_factory=lambda: ClassifierConfig(num_classes=1))
    num_points: int = 0
    attributes: tuple[str, ...] = ()
    normals: bool = True
    rotation: Rotation = "I"
    scale: float = 1.0
    shift: float = 0.0
    jitter: float = 0.0
    drop_points: float = 0.0
    mix: float = 0.0
    slide: int = 0
    epochs: int = 100
    batch_size: int = 32
    optimizer: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    weight_decay: float = 0.05
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: float = 0.05
    label_smoothing: float = 0.0
    balance: bool = False
    start: str = ""
    teachers: tuple[str, ...] = ()
    clip_norm: float = 1.0
    ema: float = 0.999
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    device: str = "auto"
    seed: int = 0
    deterministic: bool = False
    checkpoint_seconds: float = 60.0
    evaluate_every: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_at_least(1, "epochs", "batch_size", "evaluate_every", "scale")
        self._require_at_least(0, "num_points", "shift", "jitter", "drop_points", "mix", "slide", "weight_decay")
        self._require_at_least(0, "learning_rate", "final_learning_rate")
        self._require_at_least(0, "warmup", "label_smoothing", "clip_norm", "ema", "checkpoint_seconds", "seed")
        if len(set(self.attributes)) < len(self.attributes):
            raise ValueError(f"attributes must differ, got {self.attributes}")
        for name in ("warmup", "label_smoothing", "ema", "drop_points"):
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        if self.balance and self.task != "classify":
            raise ValueError("balance is of classes, and a forecast has none")
        if self.mix > 1:
            raise ValueError(f"mix must lie in [0, 1], got {self.mix}")

    @property
    def task(self) -> Literal["classify", "forecast"]:
        """What the model is for."""
        return "classify" if hasattr(self.model, "num_classes") else "forecast"

    def without_effect(self) -> tuple[str, ...]:
        """Settings that were changed and do nothing, since they are of the other task."""
        names = OF_TRACKS if self.task == "classify" else OF_CLOUDS
        plain = {field.name: field.default for field in fields(self)}
        return tuple(name for name in names if getattr(self, name) != plain[name])

    def to_dict(self) -> dict[str, Any]:
        """The config, ready for JSON."""
        return {"format": FORMAT, **asdict(self), "model": model_to_dict(self.model)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TrainConfig":
        """The inverse of `to_dict`; an unknown key, or a later format than ours, is refused."""
        values = dict(values)
        written = values.pop("format", None)
        if not isinstance(written, int) or written > FORMAT:
            raise ValueError(
                f"this config has format {written!r}, this version of vnt reads up to {FORMAT}: upgrade vnt"
            )
        values["model"] = model_from_dict(values.get("model", {}))
        return cls(**values)

    def to_json(self) -> str:
        """The config as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "TrainConfig":
        """The config written by `to_json`."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"a TrainConfig is a JSON object, got {type(values).__name__}")
        return cls.from_dict(values)
