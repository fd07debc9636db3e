"""What polka dots can tell: a model's answers without dots, times what dots say of each class.

python docs/results/dots.py MODEL val|test, of a model that has been trained without dots, and without that split.
"""

import math
import sys

import torch
from torch import Tensor, nn

from vnt import load
from vnt.data.cloud_set import Split
from vnt.data.polka_dot import class_radius
from vnt.geometry import center
from vnt.training.recipes import recipe
from vnt.training.task import load_split

DOTS = 30


def on_unit_sphere(points: Tensor) -> Tensor:
    """Centred, with the farthest point at distance 1, as dots are drawn."""
    x, _ = center(points)
    return x / x.norm(dim=-1).amax(-1)[:, None, None]


def exact(x: Tensor, dots: Tensor, radii: Tensor) -> Tensor:
    """log p(dots | cloud, class) of one cloud: of a random middle, and a subset within the class's radius of it."""
    distance = torch.cdist(x, x).double()
    needed = distance[:, dots].amax(1)
    nearest = distance <= distance.kthvalue(DOTS, dim=1).values[:, None]
    forced = (nearest == dots).all(1)  # where fewer lie within the radius, the nearest are taken
    inside = (distance[..., None] <= radii).sum(1).double()  # middles, classes
    few = inside < DOTS
    n = inside.clamp(min=DOTS)
    subsets = torch.lgamma(n + 1) - torch.lgamma(n - DOTS + 1) - math.lgamma(DOTS + 1)
    possible = torch.where(few, forced[:, None], needed[:, None] <= radii)
    log = torch.where(possible, torch.where(few, 0.0, -subsets), -torch.inf).logsumexp(0) - math.log(len(x))
    return log.clamp(min=-200).float()


def numbers(x: Tensor, dots: Tensor) -> dict[str, Tensor]:
    """Single numbers about where dots lie."""
    places = x[dots].view(len(x), DOTS, 3)
    apart = (places - places.mean(1, keepdim=True)).norm(dim=-1)
    pieces = [torch.cdist(*pair) for pair in zip(x.split(256), places.split(256), strict=True)]
    soft = torch.cat([distance.pow(32).mean(-1).pow(1 / 32).amin(1) for distance in pieces])
    return {
        "spread": apart.square().mean(1).sqrt(),
        "farthest from their middle": apart.amax(1),
        "smallest ball about a point": torch.cat([distance.amax(-1).amin(1) for distance in pieces]),
        "by a norm of order 32": soft,
        "by it, over the root mean square": soft / x.square().sum(-1).mean(-1).sqrt(),
    }


def learn(known: Tensor, labels: Tensor, asked: Tensor, num_classes: int) -> Tensor:
    """log p(class | number) of the asked, by an MLP that has learned it from the known."""
    torch.manual_seed(0)
    mean, size, epochs = known.mean(), known.std(), 60
    mlp = nn.Sequential(nn.Linear(1, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, num_classes))
    optimizer = torch.optim.AdamW(mlp.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(known)).split(256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(mlp((known[rows, None] - mean) / size), labels[rows]).backward()
            optimizer.step()
        schedule.step()
    with torch.no_grad():
        return mlp((asked[:, None] - mean) / size).log_softmax(-1)


def main(name: str, split: Split) -> None:
    """The share of clouds that are right, and the loss, with what each number tells."""
    config = recipe("modelnet40_polka_dot")
    train, clouds = load_split(config, "train", None), load_split(config, split, None)
    model = load(name).eval()
    with torch.no_grad():
        shape = torch.cat([model(points) for points in clouds.points.split(16)]).log_softmax(-1)
    known, asked = (numbers(on_unit_sphere(each.points), each.attributes[..., 0] > 0.5) for each in (train, clouds))
    radii = class_radius(clouds.class_names)
    prior = torch.bincount(train.labels, minlength=len(radii)).float().log().log_softmax(-1)
    told = {number: learn(known[number], train.labels, asked[number], len(radii)) - prior for number in known}
    pairs = zip(on_unit_sphere(clouds.points), clouds.attributes[..., 0] > 0.5, strict=True)
    told["all there is to know"] = torch.stack([exact(x, dots, radii) for x, dots in pairs])
    for number, evidence in {"nothing": torch.zeros(()), **told}.items():
        together = shape + evidence
        right = (together.argmax(-1) == clouds.labels).float().mean()
        loss = nn.functional.cross_entropy(together, clouds.labels)
        print(f"{number:34} {right:.1%}  loss {loss:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[bad-argument-type]
