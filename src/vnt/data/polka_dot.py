"""Polka dots (section 8.2): an attribute that is useless by itself and tells the class together with the shape.

Thirty points near a random centre get a = 1, the others a = 0, and how near depends on the class: r(y) grows from 0.3
to 1 over the classes in alphabetical order. Every cloud has thirty ones, so the attributes alone say nothing.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vnt.data.cloud_set import CloudSet
from vnt.geometry import center, masked_max


def class_radius(class_names: tuple[str, ...], *, low: float = 0.3, high: float = 1.0) -> Float[Tensor, "K"]:
    """r(y) = r_lo + (y − 1)/(K − 1) (r_hi − r_lo), y counting from 1 in alphabetical order.

    >>> class_radius(("table", "airplane", "chair"))
    tensor([1.0000, 0.3000, 0.6500])
    """
    rank = torch.tensor([sorted(class_names).index(name) for name in class_names], dtype=torch.float32)
    return low + rank / max(len(class_names) - 1, 1) * (high - low)


def add_polka_dots(clouds: CloudSet, *, num_dots: int = 30, seed: int = 0) -> CloudSet:
    """The set with one attribute more, "dot": 1 on ``num_dots`` points of each cloud, drawn once, 0 elsewhere.

    Distances are those of the cloud centred and scaled to the unit sphere; the points themselves stay as they are. The
    centre is one of the points.

    **Where the paper is silent:** a cloud with fewer than ``num_dots`` points within the radius (a thin or torn one)
    takes all of them and then the next nearest, so that the number of ones tells nothing.
    """
    M, N = clouds.points.shape[:2]
    exists = torch.ones(M, N, dtype=torch.bool) if clouds.mask is None else clouds.mask
    if M and int(exists.sum(1).min()) < num_dots:
        raise ValueError(
            f"polka dots need {num_dots} points, set {clouds.name!r} has clouds of {int(exists.sum(1).min())}"
        )
    generator = torch.Generator().manual_seed(seed)
    radius = class_radius(clouds.class_names)[clouds.labels]
    dots = torch.zeros(M, N, 1)
    for start in range(0, M, 1024):  # in pieces, so that memory does not grow with the set
        part = slice(start, start + 1024)
        chosen = _choose(clouds.points[part], exists[part], radius[part], num_dots, generator)
        dots[part].scatter_(1, chosen[..., None], 1.0)
    attributes = dots if clouds.attributes is None else torch.cat([clouds.attributes, dots], -1)
    names = (*clouds.attribute_names, "dot")
    return replace(clouds, name=f"{clouds.name}_polka_dot", attributes=attributes, attribute_names=names)


def _choose(
    points: Float[Tensor, "B N 3"],
    exists: Tensor,
    radius: Float[Tensor, "B"],
    num_dots: int,
    generator: torch.Generator,
) -> Int[Tensor, "B num_dots"]:
    """Points in random order within the radius, then those beyond it by distance, then padding: the first are dots."""
    x, _ = center(points, exists)
    x = x / masked_max(x.norm(dim=-1), exists, -1).clamp(min=torch.finfo(x.dtype).tiny)[:, None, None]
    draw = torch.rand(2, *exists.shape, generator=generator)
    middle = torch.where(exists, draw[0], 2).argmin(1)
    distance = (x - x[torch.arange(len(x)), middle, None]).norm(dim=-1)
    order = torch.where(distance <= radius[:, None], draw[1], 1 + distance)
    return torch.where(exists, order, torch.inf).topk(num_dots, dim=1, largest=False).indices
