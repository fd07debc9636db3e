"""What every config has: frozen, keyword-only, checked when made, refusing unknown keys, and the same after JSON.

This file imports no torch, so that help texts and recipes answer at once.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from vnt.spelling import suggest

T = TypeVar("T")


class RefuseUnknownKeys(type):
    """Makes a dataclass answer an unknown key with a ValueError that names the nearest known one.

    Lists become tuples: JSON has none, and a frozen config must not hold what can change. What JSON has of a config
    inside another one becomes one again.
    """

    def __call__(cls, *args: Any, **values: Any) -> Any:
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        for key in values:
            if key not in known:
                raise ValueError(f"{cls.__name__} has no key {key!r}; {suggest(key, known)}")
        given = {key: tuple(value) if isinstance(value, list) else _plain(value) for key, value in values.items()}
        if any(isinstance(value, dict) for value in given.values()):
            hints = get_type_hints(cls)
            inside = {key for key, value in given.items() if isinstance(value, dict) and type(hints[key]) is type(cls)}
            given |= {key: hints[key](**given[key]) for key in inside}
        return super().__call__(*args, **given)


@dataclass(frozen=True, kw_only=True)
class Config(metaclass=RefuseUnknownKeys):
    """The base of all configs; subclasses check their values in ``__post_init__``."""

    def __post_init__(self) -> None:
        self._check_types()

    def to_json(self) -> str:
        """The config as JSON text."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls: type[T], text: str) -> T:
        """The config written by `to_json`; unknown keys are refused."""
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"a {cls.__name__} is a JSON object, got {type(values).__name__}")
        return cls(**values)

    def _check_types(self) -> None:
        """Each value must be of the field's type, so that a typo in a file is an error here and not in a layer."""
        hints = get_type_hints(type(self))
        for field in fields(self):
            value, hint = getattr(self, field.name), hints[field.name]
            options = get_args(hint) if get_origin(hint) is Literal else ()
            if options and value not in options:
                raise ValueError(f"{field.name} must be one of {options}, got {value!r}")
            if not options and not _is_instance(value, hint):
                raise ValueError(f"{field.name} must be {getattr(hint, '__name__', hint)}, got {value!r}")

    def _require_at_least(self, least: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise ValueError(f"{name} must be at least {least} and finite, got {value!r}")

    def _require_positive(self, *names: str) -> None:
        for name in names:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {getattr(self, name)!r}")


def _plain(value: Any) -> Any:
    """A number of NumPy's, as ``labels.max() + 1`` is one, as Python's: JSON knows no other."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value


def _is_instance(value: Any, hint: Any) -> bool:
    """Whether a value fits a plain type or a union of plain types; whole numbers are fine as floats, bools are not."""
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_instance(each, get_args(hint)[0]) for each in value)
    kinds = get_args(hint) or (hint,)
    if isinstance(value, bool):
        return bool in kinds
    return isinstance(value, kinds) or (float in kinds and isinstance(value, int))
