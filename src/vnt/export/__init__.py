"""A trained model for other programs: a `torch.export` program or an ONNX file, checked before it is written."""

from vnt.export.artefacts import export as export
from vnt.export.checks import Check as Check

__all__ = ["Check", "export"]
