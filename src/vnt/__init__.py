"""vnt: rotation-equivariant transformers on point clouds and trajectories.

After Assaad et al., *VN-Transformer: Rotation-Equivariant Attention for Vector Neurons* (TMLR 2023). Layers and models
are imported from here; equations as pure functions are in `vnt.functional`, the equivariance tester in `vnt.testing`.
"""

from typing import TYPE_CHECKING

from vnt._exports import lazy_exports
from vnt.version import __version__ as __version__

if TYPE_CHECKING:
    from vnt import data as data
    from vnt import equivariance as equivariance
    from vnt import export as export
    from vnt import functional as functional
    from vnt import geometry as geometry
    from vnt import layers as layers
    from vnt import models as models
    from vnt import testing as testing
    from vnt.checks import value_checks as value_checks
    from vnt.equivariance.audit import audit as audit
    from vnt.equivariance.report import AuditReport as AuditReport
    from vnt.layers import VNMLP as VNMLP
    from vnt.layers import VNBatchNorm as VNBatchNorm
    from vnt.layers import VNCrossProduct as VNCrossProduct
    from vnt.layers import VNEdgeConv as VNEdgeConv
    from vnt.layers import VNEncoder as VNEncoder
    from vnt.layers import VNEncoderBlock as VNEncoderBlock
    from vnt.layers import VNGate as VNGate
    from vnt.layers import VNInvariant as VNInvariant
    from vnt.layers import VNLatentEncoder as VNLatentEncoder
    from vnt.layers import VNLayerNorm as VNLayerNorm
    from vnt.layers import VNLinear as VNLinear
    from vnt.layers import VNMaxPool as VNMaxPool
    from vnt.layers import VNMeanPool as VNMeanPool
    from vnt.layers import VNMeanProject as VNMeanProject
    from vnt.layers import VNMultiheadAttention as VNMultiheadAttention
    from vnt.layers import VNReLU as VNReLU
    from vnt.layers import VNRMSNorm as VNRMSNorm
    from vnt.models.backbone import Features as Features
    from vnt.models.classifier import VNTransformerClassifier as VNTransformerClassifier
    from vnt.models.config import ClassifierConfig as ClassifierConfig
    from vnt.models.config import ForecasterConfig as ForecasterConfig
    from vnt.models.forecaster import VNTransformerForecaster as VNTransformerForecaster
    from vnt.models.foreign import import_weights as import_weights
    from vnt.models.recipes import best_classifier as best_classifier
    from vnt.models.recipes import paper_classifier as paper_classifier
    from vnt.models.recipes import paper_forecaster as paper_forecaster
    from vnt.models.recipes import upright as upright
    from vnt.models.saving import load as load
    from vnt.models.saving import save_pretrained as save_pretrained
    from vnt.training.combining import combine as combine
    from vnt.training.config import TrainConfig as TrainConfig
    from vnt.training.loop import train as train
    from vnt.training.recipes import recipe as recipe
    from vnt.training.runs import evaluate as evaluate

__getattr__, __all__ = lazy_exports(  # pyright: ignore
    __name__,
    {
        "vnt.checks": ["value_checks"],
        "vnt.equivariance.audit": ["audit"],
        "vnt.equivariance.report": ["AuditReport"],
        "vnt.layers": [
            "VNBatchNorm",
            "VNCrossProduct",
            "VNEdgeConv",
            "VNEncoder",
            "VNEncoderBlock",
            "VNGate",
            "VNInvariant",
            "VNLatentEncoder",
            "VNLayerNorm",
            "VNLinear",
            "VNMLP",
            "VNMaxPool",
            "VNMeanPool",
            "VNMeanProject",
            "VNMultiheadAttention",
            "VNReLU",
            "VNRMSNorm",
        ],
        "vnt.models.backbone": ["Features"],
        "vnt.models.classifier": ["VNTransformerClassifier"],
        "vnt.models.config": ["ClassifierConfig", "ForecasterConfig"],
        "vnt.models.forecaster": ["VNTransformerForecaster"],
        "vnt.models.foreign": ["import_weights"],
        "vnt.models.recipes": ["best_classifier", "paper_classifier", "paper_forecaster", "upright"],
        "vnt.models.saving": ["load", "save_pretrained"],
        "vnt.training.combining": ["combine"],
        "vnt.training.config": ["TrainConfig"],
        "vnt.training.loop": ["train"],
        "vnt.training.recipes": ["recipe"],
        "vnt.training.runs": ["evaluate"],
    },
    submodules=["data", "equivariance", "export", "functional", "geometry", "layers", "models", "testing"],
)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
