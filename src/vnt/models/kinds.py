"""Every model by name: its config, and how it is built from one. No torch until a model is built."""

from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vnt.models.apart_config import ApartConfig, ScanConfig
from vnt.models.config import ClassifierConfig, ForecasterConfig
from vnt.models.rivals.config import TransformerClassifierConfig, TransformerForecasterConfig
from vnt.models.rivals.e3nn_config import SE3TransformerConfig, TFNConfig
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig
from vnt.models.rivals.invariant_config import GCConvConfig, RIConvConfig
from vnt.models.rivals.network_config import DGCNNConfig, PointNetConfig, VNDGCNNConfig, VNPointNetConfig
from vnt.spelling import suggest

if TYPE_CHECKING:
    from torch import nn

ModelConfig = (
    ClassifierConfig
    | ForecasterConfig
    | ScanConfig
    | ApartConfig
    | TransformerClassifierConfig
    | TransformerForecasterConfig
    | PointNetConfig
    | DGCNNConfig
    | VNPointNetConfig
    | VNDGCNNConfig
    | RIConvConfig
    | GCConvConfig
    | TFNConfig
    | SE3TransformerConfig
    | ConstantVelocityConfig
    | LinearForecasterConfig
    | GRUForecasterConfig
)

KINDS: dict[str, tuple[type[ModelConfig], str]] = {
    "vn_classifier": (ClassifierConfig, "vnt.models.classifier:VNTransformerClassifier"),
    "vn_forecaster": (ForecasterConfig, "vnt.models.forecaster:VNTransformerForecaster"),
    "scan_classifier": (ScanConfig, "vnt.models.apart:ScanClassifier"),
    "apart_classifier": (ApartConfig, "vnt.models.apart:ApartClassifier"),
    "transformer_classifier": (TransformerClassifierConfig, "vnt.models.rivals.transformer:TransformerClassifier"),
    "transformer_forecaster": (TransformerForecasterConfig, "vnt.models.rivals.transformer:TransformerForecaster"),
    "pointnet": (PointNetConfig, "vnt.models.rivals.pointnet:PointNet"),
    "dgcnn": (DGCNNConfig, "vnt.models.rivals.dgcnn:DGCNN"),
    "vn_pointnet": (VNPointNetConfig, "vnt.models.rivals.vn_pointnet:VNPointNet"),
    "vn_dgcnn": (VNDGCNNConfig, "vnt.models.rivals.vn_dgcnn:VNDGCNN"),
    "ri_conv": (RIConvConfig, "vnt.models.rivals.ri_conv:RIConvClassifier"),
    "gc_conv": (GCConvConfig, "vnt.models.rivals.gc_conv:GCConvClassifier"),
    "tfn": (TFNConfig, "vnt.models.rivals.tfn:TFNClassifier"),
    "se3_transformer": (SE3TransformerConfig, "vnt.models.rivals.se3_transformer:SE3TransformerClassifier"),
    "constant_velocity": (ConstantVelocityConfig, "vnt.models.rivals.forecasting:ConstantVelocity"),
    "linear_forecaster": (LinearForecasterConfig, "vnt.models.rivals.forecasting:LinearForecaster"),
    "gru_forecaster": (GRUForecasterConfig, "vnt.models.rivals.forecasting:GRUForecaster"),
}


def kind_of(config: ModelConfig) -> str:
    """The name under which a config's model is known."""
    for kind, (cls, _) in KINDS.items():
        if type(config) is cls:
            return kind
    raise ValueError(f"no model is built from a {type(config).__name__}")


def build_model(config: ModelConfig) -> "nn.Module":
    """The model of a config, with fresh weights."""
    module, name = KINDS[kind_of(config)][1].split(":")
    return getattr(import_module(module), name)(config)


def model_to_dict(config: ModelConfig) -> dict[str, Any]:
    """A config and its kind, ready for JSON."""
    return {"kind": kind_of(config), **asdict(config)}


def model_from_dict(values: dict[str, Any]) -> ModelConfig:
    """The inverse of `model_to_dict`; an unknown kind or key is refused."""
    kind = values.get("kind")
    if kind not in KINDS:
        raise ValueError(f"no model of kind {kind!r}; {suggest(str(kind), KINDS)}")
    try:
        return KINDS[kind][0](**{key: value for key, value in values.items() if key != "kind"})
    except TypeError as error:  # a key that has no default is missing
        raise ValueError(f"the config of this {kind} is not whole: {error}") from error
