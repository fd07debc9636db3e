"""Beginning with the weights of another model: to go on from it, or to fit it to data of one's own."""

from dataclasses import fields

from torch import nn

from vnt.models.kinds import ModelConfig
from vnt.models.saving import load

MAY_DIFFER = ("num_classes", "num_future", "num_past", "dropout")
"""What the data decide, where the layers that depend on it begin anew, and what has no weights."""


def start_from(model: nn.Module, config: ModelConfig, start: str) -> None:
    """Give a model the weights of another one, as `vnt.load` takes it, wherever they have the same shape.

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
        raise ValueError(f"start {start} is another model: it has {'; '.join(differ)}")
    mine = model.state_dict()
    theirs = other.state_dict()
    model.load_state_dict(
        {name: theirs[name] if theirs[name].shape == mine[name].shape else mine[name] for name in mine}
    )
