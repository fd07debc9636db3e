"""Two runs that were trained apart as one model: `vnt.combine`."""

from pathlib import Path

from vnt.models.apart import ApartClassifier, ScanClassifier
from vnt.models.apart_config import ApartConfig
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.saving import load, model_folder, read_about, save_pretrained
from vnt.training.run_folder import RunFolder, machine_facts

WEIGHT = ApartConfig.weight
"""Of what attributes say, beside what shape says: the best on polka dots' validation split."""


def combine(shape: Path | str, evidence: Path | str, folder: Path | str, *, weight: float = WEIGHT) -> ApartClassifier:
    """Write a model that adds what attributes say to what shape says, each by a run of its own, and return it.

    The folder is one that `vnt.load`, `vnt evaluate`, `vnt predict` and `vnt audit` take.

    Args:
        shape: a `VNTransformerClassifier` trained without attributes, as `vnt.load` takes it.
        evidence: a `ScanClassifier` trained on the attributes of the same classes, with ``balance``.
        folder: must be new.
        weight: of the evidence; choose it on the validation split.
    """
    folder, (one, two) = Path(folder), (load(shape), load(evidence))
    if not isinstance(one, VNTransformerClassifier) or not isinstance(two, ScanClassifier):
        kinds = f"a {type(one).__name__} and a {type(two).__name__}"
        raise ValueError(f"combine takes a VNTransformerClassifier and a ScanClassifier, got {kinds}")
    if (folder / "config.json").exists():
        raise ValueError(f"{folder}: there is a model already")
    theirs, about = read_about(shape), read_about(evidence)
    if tuple(theirs.get("class_names", ())) != tuple(about.get("class_names", ())):
        raise ValueError(f"{shape} and {evidence} were trained to tell other classes apart")
    config = ApartConfig(
        num_classes=two.config.num_classes,
        num_attributes=two.config.num_attributes,
        num_vectors=two.config.num_vectors,
        shape=one.config,
        evidence=two.config,
        weight=weight,
    )
    model = ApartClassifier(config).eval()
    model.shape.load_state_dict(one.state_dict())
    model.evidence.load_state_dict(two.state_dict())
    save_pretrained(model, folder, about=about | {"shape": str(shape), "evidence": str(evidence)})
    runs = [RunFolder(model_folder(part)).about() for part in (shape, evidence)]
    seconds = sum(float(run.get("seconds", 0)) for run in runs)
    RunFolder(folder).note(machine_facts() | {"finished": True, "seconds": seconds, "items": runs[1].get("items", 0)})
    return model
