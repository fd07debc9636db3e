"""Where forecasts of Table 3 go wrong: by what a vehicle does next, along its path and across it; how alike models are.

python docs/results/where_errors.py RUN RUN ...   for example, below runs/reproduce/table3: vn_deep-I-0 vn_deep-I-1

Prints tables of average displacement errors, in metres, on the 979 test vehicles of `womd_paper`, as roads lie.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor

import vnt
from vnt.bench.timing import markdown_table
from vnt.data import as_batch, load_set
from vnt.evaluation.evaluate import forward
from vnt.models.saving import read_about

STANDING = 0.3
"""Metres in half a second, below which a vehicle has no direction."""


def main(runs: list[str]) -> None:
    """All tables."""
    tracks = load_set("womd_paper", "test")
    truth = torch.from_numpy(tracks.future).double()
    past = torch.from_numpy(tracks.past).double()
    forecasts = {"constant velocity": past[:, -1:] + (past[:, -1:] - past[:, -2:-1]) * torch.arange(1, 81)[:, None]}
    with torch.no_grad():
        for run in runs:
            batch = as_batch(tracks, read_about(Path(run))["training"]["attributes"])
            forecasts[Path(run).name] = forward(vnt.load(run).eval(), batch).double()
    if len(runs) > 1:
        forecasts[f"mean of the {len(runs)} forecasts"] = torch.stack([*forecasts.values()][1:]).mean(0)
    errors = {name: (f - truth).norm(dim=-1).mean(-1) for name, f in forecasts.items()}
    kinds = what_they_do(past, truth)
    rows = [
        [kind, f"{int(which.sum())}", *(f"{float(e[which].mean()):.2f}" for e in errors.values())]
        for kind, which in {**kinds, "all": torch.ones(len(truth), dtype=torch.bool)}.items()
    ]
    print(markdown_table(["what it does next", "vehicles", *errors], rows), end="\n\n")
    along, across = directions(past, truth)
    rows = []
    for name, f in forecasts.items():
        parts = [((f - truth) * unit).sum(-1).abs().mean() for unit in (along, across)]
        rows.append([name, *(f"{float(part):.2f}" for part in parts)])
    print(markdown_table(["forecast", "along its path", "across it"], rows), end="\n\n")
    names = [name for name in errors if name != "constant velocity"]
    rows = []
    for i, a in enumerate(names):
        for b in names[i + 1 : len(runs)]:
            apart = (forecasts[a] - forecasts[b]).norm(dim=-1).mean()
            alike = torch.corrcoef(torch.stack([errors[a], errors[b]]))[0, 1]
            gap = errors[a] - errors[b]
            rows.append([a, b, f"{float(apart):.2f}", f"{float(alike):.3f}", mean_and_error(gap)])
    if rows:
        print(markdown_table(["forecast", "and", "apart", "errors correlate", "difference of errors"], rows))


def what_they_do(past: Tensor, truth: Tensor) -> dict[str, Tensor]:
    """Each vehicle once: standing, turning, braking, speeding up, or going on."""
    before = past[:, -1] - past[:, -6]
    after = truth[:, -1] - truth[:, -6]
    was, will = (x.norm(dim=-1) for x in (before, after))
    cosine = (before * after).sum(-1) / (was * will).clamp(min=1e-9)
    stands = was < STANDING
    turns = ~stands & (will >= STANDING) & (cosine < 0.866)
    brakes = ~stands & ~turns & (will < was / 1.5)
    hurries = ~stands & ~turns & (will > was * 1.5)
    goes_on = ~(stands | turns | brakes | hurries)
    return {
        "stands now": stands,
        "turns by more than 30°": turns,
        "brakes to less than 2/3 of its speed": brakes,
        "speeds up to more than 3/2 of it": hurries,
        "goes on as it did": goes_on,
    }


def directions(past: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Level unit vectors along the path that was driven, at each step of it, and across; as before while it stands."""
    path = torch.cat([past[:, -6:], truth], 1)
    moved = path[:, 5:] - path[:, :-5]
    moved[..., 2] = 0
    along, found = moved[:, 0], []
    for step in moved[:, 1:].unbind(1):
        along = torch.where(step.norm(dim=-1, keepdim=True) > STANDING, step, along)
        found.append(along / along.norm(dim=-1, keepdim=True).clamp(min=1e-9))
    forward = torch.stack(found, 1)
    return forward, torch.stack([-forward[..., 1], forward[..., 0], torch.zeros_like(forward[..., 0])], -1)


def mean_and_error(x: Tensor) -> str:
    """With its standard error."""
    return f"{float(x.mean()):+.3f} ± {float(x.std()) / len(x) ** 0.5:.3f}"


main(sys.argv[1:])
