"""Beginning with the weights of another model: to go on from it, or to fit it to data of one's own."""

from collections.abc import Sequence
from dataclasses import fields, replace

from torch import nn

from vnt.models.kinds import ModelConfig, build_model
from vnt.models.saving import load, read_about

MAY_DIFFER = ("num_classes", "num_future", "num_past", "dropout", "block_dropout", "chunk_size")
"""What the data decide, where the layers that depend on it begin anew, and what has no weights."""


def start_from(model: nn.Module, config: ModelConfig, start: str, class_names: Sequence[str] = ()) -> None:
    """Give a model the weights of another one, as `vnt.load` takes it, but for layers made for other data.

    Those are the layers of another shape, and those whose shape follows from the classes where these are others.

    >>> from vnt.models.kinds import build_model
    >>> from vnt.models.saving import load
    >>> from dataclasses import replace
    >>> config = replace(load("shapes").config, num_classes=3)
    >>> start_from(build_model(config), config, "shapes")
    """
    other = load(start)
    if type(other.config) is not type(config):
        raise ValueError(f"start {start} is a {type(other).__name__}, the model is to be a {type(model).__name__}")
    differ = [
        f"{field.name} = {getattr(other.config, field.name)}, not {getattr(config, field.name)}"
        for field in fields(config)
        if field.name not in MAY_DIFFER and getattr(other.config, field.name) != getattr(config, field.name)
    ]
    if differ:
        hint = ". Without normals: --no-normals" if config.num_vectors > other.config.num_vectors else ""
        raise ValueError(f"start {start} is another model: it has {'; '.join(differ)}{hint}")
    mine, theirs = model.state_dict(), other.state_dict()
    anew = {name for name in mine if mine[name].shape != theirs[name].shape}
    if tuple(class_names) != tuple(read_about(start).get("class_names", ())):
        anew |= _made_for_classes(model, config)
    model.load_state_dict({name: mine[name] if name in anew else theirs[name] for name in mine})


def _made_for_classes(model: nn.Module, config: ModelConfig) -> set[str]:
    """The weights that would have another shape if there were one class more."""
    classes = getattr(config, "num_classes", None)
    if classes is None:
        return set()
    more = build_model(replace(config, num_classes=classes + 1)).state_dict()  # type: ignore[unexpected-keyword]
    return {name for name, value in model.state_dict().items() if value.shape != more[name].shape}
