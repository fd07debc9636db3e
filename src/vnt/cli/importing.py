"""``vnt import FILE -o FOLDER``: weights of other programs as a model of ours."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import Positional

from vnt.cli.arguments import OUT

WHOSE = "FlyingGiraffe/vnn"
"""Of the programs that `vnt.import_weights` knows, the one whose whole models are taken."""

KNOWN = ("modelnet40", "modelnet10")


@dataclass(frozen=True)
class Options:
    """Write weights of another program as a folder that vnt.load, vnt predict, vnt audit and vnt export take.

    Refused, with the reason, where its mathematics is not ours: docs/import.md has the table.

    For example: vnt import best_model.pth -o vn_dgcnn --class-names modelnet40
    """

    file: Positional[Path]
    """A .pt, .pth, .t7 or .safetensors file; one that holds more than tensors and numbers is refused, not run."""
    out: Annotated[Path, OUT]
    """The folder to write."""
    origin: Literal["vnn", "VN-transformer"] | None = None
    """Whose weights they are; recognised by their names unless said."""
    num_neighbors: int = 20
    """The number of neighbours of each point, which the weights do not tell (vnn's --n_knn)."""
    class_names: str | None = None
    """A file with the names of the classes, one on a line, in the order of the logits; or modelnet40 or modelnet10."""


def run(arguments: list[str]) -> None:
    """Parse and run ``vnt import ...``."""
    options = tyro.cli(Options, args=arguments, prog="vnt import")
    from vnt.models.foreign import import_weights
    from vnt.models.saving import save_pretrained

    model = import_weights(options.file, options.origin, num_neighbors=options.num_neighbors)
    config: Any = getattr(model, "config", None)
    if config is None:
        raise ValueError(
            f"{options.file}: a {type(model).__name__} alone, which is no model; vnt.import_weights takes it"
        )
    names = _class_names(options.class_names, config.num_classes)
    kind = type(model).__name__
    facts = f"{config.num_classes} classes, {config.pooling} pooling over {config.num_neighbors} neighbours"
    about = {"imported": {"origin": WHOSE, "file": options.file.name}}
    card = (
        f"---\nlibrary_name: vnt\n---\n# {options.out.name}\n\nA {kind} with weights of {WHOSE}, out of "
        f"`{options.file.name}`: `vnt.load(folder)`. {facts}.\n\nClouds are taken as they come. The program that "
        "trained it takes the mean away and divides by the largest distance from it.\n"
    )
    save_pretrained(model, options.out, about=about | ({"class_names": names} if names else {}), card=card)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sys.stdout.write(
        f"{options.file}: weights of {WHOSE}\n"
        f"  {kind}: {facts}\n"
        f"  {parameters:,} parameters, all of them taken\n"
        "  clouds are taken as they come: centre them on their mean and scale them into the unit sphere\n"
        f"written: {options.out}\n"
        f"  next: vnt audit {options.out} measures how far it is invariant\n"
    )
    if not names:
        sys.stdout.write("  classes have numbers: --class-names names them\n")


def _class_names(given: str | None, count: int) -> list[str]:
    """The names that were asked for, as many as there are classes; none where none were."""
    if given is None:
        return []
    if given in KNOWN:
        names = _modelnet(given)
    else:
        path = Path(given)
        if not path.is_file():
            raise FileNotFoundError(f"{given}: no such file of class names, nor one of {', '.join(KNOWN)}")
        names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if len(names) != count:
        raise ValueError(f"--class-names {given}: {len(names)} names for {count} classes")
    return names


def _modelnet(name: str) -> list[str]:
    """In the order of the alphabet, as the lists that come with the sets have them."""
    from vnt.data.modelnet import MODELNET10
    from vnt.models.saving import read_about

    return list(MODELNET10) if name == "modelnet10" else read_about("modelnet40")["class_names"]
