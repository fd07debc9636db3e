"""Classifiers and forecasters in the arrangements that users meet, with inputs to match."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import vnt
from vnt.models.apart import ApartClassifier
from vnt.models.apart_config import ApartConfig, ScanConfig

PAIRS = {"surroundings": (0.5, 1.0), "pair_rounds": 2, "pair_channels": 8, "pair_divisor": 4}
CLASSIFIERS: dict[str, dict] = {
    "default": {},
    "early": {"num_attributes": 2, "fusion": "early"},
    "early without anchor": {"num_attributes": 2, "fusion": "early", "attribute_anchor": False},
    "late": {"num_attributes": 2, "fusion": "late"},
    "late pooled": {"num_attributes": 2, "fusion": "late", "attribute_pooling": True},
    "latents": {"num_latents": 6},
    "latents early": {"num_latents": 6, "num_attributes": 2, "fusion": "early"},
    "latents late": {"num_latents": 6, "num_attributes": 2, "fusion": "late"},
    "latents late pooled": {"num_latents": 6, "num_attributes": 2, "fusion": "late", "attribute_pooling": True},
    "latents read back": {"num_latents": 6, "read_back": True},
    "latents read back early": {"num_latents": 6, "read_back": True, "num_attributes": 2, "fusion": "early"},
    "latents read back late": {"num_latents": 6, "read_back": True, "num_attributes": 2, "fusion": "late"},
    "edges": {"num_neighbors": 5},
    "edges early": {"num_neighbors": 5, "num_attributes": 2, "fusion": "early"},
    "surroundings": {"surroundings": (0.3, 1.0)},
    "surroundings early": {"surroundings": (0.5,), "num_attributes": 2, "fusion": "early"},
    "pairs": PAIRS,
    "pairs early": {**PAIRS, "num_attributes": 2, "fusion": "early"},
    "pairs late pooled": {**PAIRS, "num_attributes": 2, "fusion": "late", "attribute_pooling": True},
    "pairs latents": {**PAIRS, "num_latents": 6},
    "pairs latents read back": {**PAIRS, "num_latents": 6, "read_back": True},
    "normals": {"num_vectors": 1},
    "normals early": {"num_vectors": 1, "num_attributes": 2, "fusion": "early"},
    "post-norm": {"norm_position": "post"},
    "norms in branches": {"norm_position": "branch"},
    "median": {"center": "median"},
    "raw": {"scale": "raw"},
    "scale-invariant": {"scale": "invariant"},
    "used twice": {"repeats": 2},
    "chirality": {"chirality": True},
    "chirality early": {"chirality": True, "num_attributes": 2, "fusion": "early"},
    "batch norm": {"mlp_norm": "batch"},
    "head batch norm": {"head_norm": "batch"},
    "mean pool": {"pooling": "mean", "point_channels": 0},
}
FORECASTERS: dict[str, dict] = {
    name: {key: value for key, value in options.items() if key not in ("pooling", "point_channels")}
    for name, options in CLASSIFIERS.items()
    if name not in ("mean pool", "head batch norm") and not {"attribute_pooling", "pair_rounds"} & options.keys()
}
FORECASTERS |= {
    "motions": {"num_motions": 4},
    "mixing": {"head_channels": 16, "num_motions": 4},
    "mixing scale-invariant": {"head_channels": 16, "scale": "invariant"},
    "mixing early": {"head_channels": 16, "num_attributes": 2, "fusion": "early"},
}
# The literal arrangement: for what must hold in spite of its rounding errors.
PAPER = {
    "norm": "layer",
    "norm_eps": 1e-12,
    "norm_position": "post",
    "mlp_norm": "batch",
    "lift": "mlp",
    "relu_eps": 1e-12,
    "scale": "raw",
}
SMALL = {"channels": 16, "num_heads": 4, "depth": 2}


@dataclass(frozen=True)
class Inputs:
    """Arguments of a model's forward, and how they transform."""

    points: Tensor
    attributes: Tensor | None = None
    vectors: Tensor | None = None
    kinds: list[str] = field(default_factory=list)

    def tensors(self) -> list[Tensor]:
        return [x for x in (self.points, self.attributes, self.vectors) if x is not None]


def classifier(name: str, dtype: torch.dtype = torch.float64, **more) -> vnt.VNTransformerClassifier:
    config = vnt.ClassifierConfig(
        **{
            "num_classes": 5,
            "point_channels": 16,
            "head_channels": 16,
            **SMALL,
            **(PAPER if name == "paper" else CLASSIFIERS[name]),
            **more,
        }
    )
    return vnt.VNTransformerClassifier(config).to(dtype)


def forecaster(name: str, dtype: torch.dtype = torch.float64, **more) -> vnt.VNTransformerForecaster:
    model = vnt.VNTransformerForecaster(
        vnt.ForecasterConfig(**{"num_future": 7, **SMALL, **(PAPER if name == "paper" else FORECASTERS[name]), **more})
    )
    if model.mixing is not None:  # which begins at zero, and then there would be nothing to test
        torch.nn.init.normal_(model.mixing.amounts[-1].weight, std=0.1)
    return model.to(dtype)


def apart(name: str, dtype: torch.dtype = torch.float64, **more) -> ApartClassifier:
    """Shape in the arrangement of that name, and attributes by themselves."""
    evidence = ScanConfig(num_classes=5, num_attributes=2, num_radii=12, hidden_channels=16, dropout=0.0)
    config = ApartConfig(num_classes=5, num_attributes=2, shape=classifier(name, **more).config, evidence=evidence)
    return ApartClassifier(config).to(dtype)


def inputs_for(model: nn.Module, *size: int, dtype: torch.dtype = torch.float64) -> Inputs:
    """Standard normal points and whatever else the model's config asks for."""
    config = model.config
    points = torch.randn(*size, 3, dtype=dtype)
    if isinstance(model, vnt.VNTransformerForecaster):
        points = points.cumsum(-2)
    attributes = torch.randn(*size, config.num_attributes, dtype=dtype) if config.num_attributes else None
    vectors = torch.randn(*size, config.num_vectors, 3, dtype=dtype) if config.num_vectors else None
    kinds = ["point"] + ["scalar"] * (attributes is not None) + ["vector"] * (vectors is not None)
    return Inputs(points, attributes, vectors, kinds)


def bind(model: nn.Module, mask: Tensor | None = None):
    """The model as a function of just the tensors that its config asks for."""
    config = model.config

    def function(points: Tensor, *others: Tensor) -> Tensor:
        rest = list(others)
        attributes = rest.pop(0) if config.num_attributes else None
        vectors = rest.pop(0) if config.num_vectors else None
        return model(points, attributes, mask, vectors)

    return function
