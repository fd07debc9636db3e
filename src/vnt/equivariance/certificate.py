r"""A certificate: how far the whole model's output can move under any rotation, proved at the actual activations.

f(XR)R⁻¹ is the network at X with each bias εU replaced by εU R⁻¹ (`vnt.equivariance.first_order`). So run it at X once,
and carry along where each token can go for *any* rotation R (`vnt.equivariance.enclosures`): its first-order change
and a bound on the rest. That is Proposition 4 with constants that hold where the activations are, applied to what is of
second order in ε only.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vnt.equivariance.bounds import spectral_norm
from vnt.equivariance.enclosed_attention import Mask, enclose_linear
from vnt.equivariance.enclosure import LONGEST, Enclosure, advance, exact, through
from vnt.equivariance.enclosures import (
    enclose_cross_product,
    enclose_encoder,
    enclose_invariant,
    enclose_mlp,
    enclose_perceptron,
    max_rows,
    mean_tokens,
    side_by_side,
    weighted_means,
)
from vnt.equivariance.subject import Subject
from vnt.geometry.packing import padded
from vnt.layers import VNMLP, VNEdgeConv, VNGate
from vnt.models.backbone import VNLift, VNTrunk
from vnt.models.classifier import VNTransformerClassifier
from vnt.models.forecaster import VNTransformerForecaster
from vnt.models.heads import AttributePool
from vnt.models.tokens import InputTokens, input_tokens


@dataclass(frozen=True, eq=False)
class Certificate:
    """What no rotation exceeds, at these inputs.

    Attributes:
        relative: bound on Δ(f, X, R)/‖f(X)‖ over all rotations R, of each item; infinite where nothing can be said.
        first_order: the part of it that is the first-order law's, √8 σ(A)/‖f(X)‖; what is left bounds the remainder.
        stages: (name, first-order size, rest) of the median token at each stage, relative to its length.
    """

    relative: Float[Tensor, "B"]
    first_order: Float[Tensor, "B"]
    stages: list[tuple[str, float, float]]

    @property
    def worst(self) -> float:
        """The largest of the items' bounds."""
        return float(self.relative.max())


@padded()
def certify(subject: Subject) -> Certificate:
    """The certificate of a classifier or forecaster of this library, in evaluation mode, at the subject's arguments.

    Raises ValueError for a model that has none. Run it in float64: the bound itself is computed with rounding.
    """
    model = subject.module
    if not isinstance(model, VNTransformerClassifier | VNTransformerForecaster):
        raise ValueError(f"a certificate needs a VN-Transformer of this library, got {subject.name}")
    foreign = [
        name for name, part in model.named_modules() if not type(part).__module__.startswith(("vnt.", "torch.nn"))
    ]
    if foreign:
        names = ", ".join(name or "the model itself" for name in foreign)
        raise ValueError(f"a certificate needs parts of this library only; not so: {names}")
    if model.training:
        raise ValueError("a certificate is for evaluation mode: call model.eval()")
    if isinstance(model, VNTransformerForecaster) and model.mixing is not None:
        raise ValueError("no certificate for a forecaster with head_channels: amounts times vectors have no rule")
    if model.late_attributes is not None and model.late_attributes.query is not None:
        raise ValueError(
            "no certificate for latents with late fusion or pair_rounds: the attention that reads scalars has no rule"
        )
    bounds, first, stages = [], [], []
    for i in range(subject.num_items):  # one at a time: attention weights are N×N matrices, and there are nine slopes
        item = subject.items(slice(i, i + 1))
        points, attributes, mask, vectors = (*item.arguments, None, None, None)[:4]
        assert points is not None
        trail = Trail()
        with torch.no_grad():
            if isinstance(model, VNTransformerClassifier):
                found = _classifier(model, points, attributes, mask, vectors, trail)
            else:
                found = _forecaster(model, points, attributes, mask, vectors, trail)
            scale = item.value().flatten().norm()
        first.append(LONGEST * spectral_norm(found.slopes.flatten(1)) / scale)
        bounds.append(torch.nan_to_num(first[-1] + found.radius.sum() / scale, nan=torch.inf, posinf=torch.inf))
        stages.append([*trail.stages, ("output", float(first[-1]), float(found.radius.sum() / scale))])
    worst = max(range(len(bounds)), key=lambda i: float(bounds[i]))
    return Certificate(torch.stack(bounds).cpu(), torch.stack(first).cpu(), stages[worst])


class Trail:
    """What was found on the way, for people to look at."""

    def __init__(self):
        self.stages: list[tuple[str, float, float]] = []

    def note(self, name: str, x: Enclosure) -> None:
        """The median token's numbers."""
        length = x.center.flatten(-x.axes).norm(dim=-1).clamp(min=1e-300)
        self.stages.append((name, float((x.linear_size / length).median()), float((x.rest / length).median())))


def _classifier(
    model: VNTransformerClassifier,
    points: Tensor,
    attributes: Tensor | None,
    mask: Mask,
    vectors: Tensor | None,
    trail: Trail,
) -> Enclosure:
    """Logits less their mean."""
    tokens = input_tokens(model.config, points, attributes, mask, vectors, scale_vectors=False)
    described = model.describe_pairs(tokens)
    x = _lift(model.lift, tokens, described)
    trail.note("lift", x)
    x, mask = _trunk(model.trunk, x, mask)
    trail.note("encoder", x)
    encoded = x
    scalars = model.known_scalars(tokens, described)
    known = None if scalars is None else exact(scalars.to(x.center.dtype), 1)
    inner, last = ([], None) if model.point_mlp is None else _all_but_last(model.point_mlp)

    def rows(x: Enclosure) -> Enclosure:
        y = enclose_invariant(model.invariant, x)
        if known is not None:
            center, slopes = torch.cat([y.center, known.center], -1), torch.cat([y.slopes, known.slopes], -1)
            y = Enclosure(center, slopes, y.rest, 1, y.outer, y.most)
        return enclose_perceptron(inner, y)

    if known is None:
        x = through(x, lambda V: nn.Sequential(*inner)(model.invariant(V).flatten(-2)), rows)
    else:
        x = rows(x)
    trail.note("point MLP", x)
    features, pooled = x if last is None else enclose_perceptron([last], x), []
    if model.config.pooling != "max":
        pooled.append(mean_tokens(features, mask))
    if model.config.pooling != "mean":
        pooled.append(max_rows(features, x, last, mask))
    if model.attribute_pool is not None and known is not None:
        attributes = known.center[..., : model.config.num_attributes]
        pooled.append(_attribute_pool(model.attribute_pool, features, encoded, attributes, mask))
    x = side_by_side(pooled)
    trail.note("pool", x)
    before_logits, to_logits = _all_but_last(model.head)
    W = to_logits.weight - to_logits.weight.mean(0)  # logits less their mean

    def logits(x: Enclosure) -> Enclosure:
        y = enclose_perceptron(before_logits, x)
        return advance(y, to_logits(y.center), y.slopes @ W.mT, spectral_norm(W))

    return through(x, lambda row: nn.Sequential(*before_logits)(row) @ W.mT, logits)


def _attribute_pool(pool: AttributePool, x: Enclosure, V: Enclosure, attributes: Tensor, mask: Mask) -> Enclosure:
    """Attributes do not turn, and so the weights are known."""
    weights = pool.scores(attributes, mask).softmax(-2).mT.to(x.center.dtype)
    invariants = through(
        weighted_means(V, weights),
        lambda V: pool.invariant(V).flatten(-2),
        lambda V: enclose_invariant(pool.invariant, V),
    )
    rows = side_by_side([weighted_means(x, weights), invariants])
    return Enclosure(rows.center.flatten(-2), rows.slopes.flatten(-2), rows.rest.norm(dim=-1), 1)


def _all_but_last(layers: nn.Sequential) -> tuple[list[nn.Module], nn.Linear]:
    *inner, last = layers
    assert isinstance(last, nn.Linear)
    return inner, last


def _forecaster(
    model: VNTransformerForecaster,
    past: Tensor,
    attributes: Tensor | None,
    mask: Mask,
    vectors: Tensor | None,
    trail: Trail,
) -> Enclosure:
    """Displacements from the last observed point; attributes, where it predicts them, behind them."""
    tokens, time = model.tokens(past, attributes, mask, vectors)
    x = _lift(model.lift, tokens, time)
    trail.note("lift", x)
    x, mask = _trunk(model.trunk, x, mask)
    trail.note("encoder", x)
    if model.late_gate is not None and tokens.scalars is not None:
        x = _gate(model.late_gate, x, tokens.scalars.to(x.center.dtype))
    x = mean_tokens(x, mask)
    trail.note("pool", x)
    x = through(x, model.head, lambda x: enclose_mlp(model.head, x))
    if model.motions is not None:
        x = enclose_linear(model.motions, x)
    units = tokens.radius[..., None, None].to(x.center.dtype)
    width = x.center.shape[-1] if model.config.predict_attributes else 3
    scale = torch.cat(
        [units.expand(*units.shape[:-1], 3), torch.ones_like(units).expand(*units.shape[:-1], width - 3)], -1
    )
    return Enclosure(x.center[..., :width] * scale, x.slopes[..., :width] * scale, x.rest * scale.amax((-2, -1)))


def _trunk(trunk: VNTrunk, x: Enclosure, mask: Mask) -> tuple[Enclosure, Mask]:
    x = enclose_encoder(trunk.encoder, x, mask)
    if trunk.chirality is not None:
        x = enclose_cross_product(trunk.chirality, x)
    return x, None if trunk.pools_latents else mask


def _lift(lift: VNLift, tokens: InputTokens, scalars: Tensor | None = None) -> Enclosure:
    """Points are exact; only the lift's own biases change, each channel times its gate."""
    vectors = lift.vectors(tokens).to(next(lift.parameters()).dtype)
    if isinstance(lift.lift, VNEdgeConv):
        return exact(lift(tokens, scalars))
    x = (
        enclose_mlp(lift.lift, exact(vectors))
        if isinstance(lift.lift, VNMLP)
        else enclose_linear(lift.lift, exact(vectors))
    )
    if lift.gate is None:
        return x
    return _gate(lift.gate, x, lift.scalars(tokens, scalars).to(vectors.dtype))


def _gate(gate: VNGate, x: Enclosure, scalars: Tensor) -> Enclosure:
    """Scalars do not turn: each channel is multiplied by a number."""
    gain = gate(torch.ones_like(x.center[..., :1]), scalars)  # (..., C, 1)
    return Enclosure(x.center * gain, x.slopes * gain, x.rest * gain.abs().amax((-2, -1)))
