"""Names that are imported when first asked for, so that configs and help texts need not wait for torch."""

import importlib
from collections.abc import Callable


def lazy_exports(
    package: str, modules: dict[str, list[str]], submodules: list[str]
) -> tuple[Callable[[str], object], list[str]]:
    """A module ``__getattr__`` and the sorted names it knows, from a table of module -> names."""
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> object:
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return __getattr__, sorted([*homes, *submodules])
