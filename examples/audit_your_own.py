"""Is my own network really rotation-equivariant? Two that claim to be, and one of them is wrong.

python examples/audit_your_own.py
"""

import torch
from torch import nn

import vnt


class Mine(nn.Module):
    """One vector for each cloud: neighbours' offsets, weighted by their distance."""

    def __init__(self, by_coordinates: bool):
        super().__init__()
        self.weigh = nn.Sequential(nn.Linear(3 if by_coordinates else 1, 16), nn.SiLU(), nn.Linear(16, 1))
        self.by_coordinates = by_coordinates

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        offsets = points - points.mean(1, keepdim=True)
        seen = offsets if self.by_coordinates else offsets.norm(dim=-1, keepdim=True)
        return (self.weigh(seen) * offsets).mean(1, keepdim=True)


torch.manual_seed(0)
clouds = torch.randn(4, 100, 3)
for title, wrong in (("by distance", False), ("by coordinates", True)):
    report = vnt.audit(Mine(wrong).eval(), clouds, inputs=["point"], output="vector")
    print(title, {precision: verdict.word for precision, verdict in report.verdicts.items()})
