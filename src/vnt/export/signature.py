"""What an exported model takes and gives, by name."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from vnt.geometry.symmetry import Kind


@dataclass(frozen=True)
class Signature:
    """Inputs in their order, each (items, tokens, ...).

    Attributes:
        names: of the inputs.
        shapes: of one token of each, or None for the mask.
        kinds: how each of them turns.
        output: name of the result.
        turns: whether the result turns with the input: a forecast does, logits do not.
        least_tokens: a track needs two steps, a cloud one point.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    kinds: tuple[Kind, ...]
    output: str
    turns: bool
    least_tokens: int

    def random(self, items: int, tokens: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Inputs of that size: Gaussian clouds, or random walks, with the last tenth of the first item masked out."""
        generator = Generator().manual_seed(seed)
        made = []
        for shape in self.shapes:
            if shape is None:
                mask = torch.ones(items, tokens, dtype=torch.bool)
                mask[0, max(self.least_tokens, tokens - tokens // 10) :] = False
                made.append(mask)
                continue
            x = torch.randn(items, tokens, *shape, generator=generator)
            made.append(x.cumsum(1) if self.turns and not made else x)
        return tuple(made)


def signature_of(model: nn.Module, *, mask: bool = False) -> Signature:
    """Of a classifier or a forecaster of ours, by its config."""
    config = getattr(model, "config", None)
    is_classifier, is_forecaster = hasattr(config, "num_classes"), hasattr(config, "num_future")
    if config is None or not (is_classifier or is_forecaster):
        raise ValueError(f"a {type(model).__name__} is none of the models that can be exported")
    names, shapes, kinds = ["points" if is_classifier else "past"], [(3,)], ["point"]
    if config.num_attributes:
        names, shapes, kinds = [*names, "attributes"], [*shapes, (config.num_attributes,)], [*kinds, "scalar"]
    if mask:
        names, shapes, kinds = [*names, "mask"], [*shapes, None], [*kinds, "scalar"]
    if config.num_vectors:
        names, shapes, kinds = [*names, "vectors"], [*shapes, (config.num_vectors, 3)], [*kinds, "vector"]
    output = "logits" if is_classifier else "forecast"
    return Signature(tuple(names), tuple(shapes), tuple(kinds), output, is_forecaster, 1 if is_classifier else 2)  # type: ignore[bad-argument-type]
