"""Train a forecaster for a moment, then turn the road: the forecast turns with it.

python examples/forecast_tracks.py [FOLDER]
"""

import sys
from dataclasses import replace

import torch

import vnt
from vnt.data.sets import as_batch, load_set
from vnt.geometry import random_rotation, rotate

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/forecast"
model = vnt.train(replace(vnt.recipe("motion"), epochs=2, batch_size=128), folder).model
tracks = as_batch(load_set("motion", "test"))  # your own: vnt data convert tracks.csv
with torch.no_grad():
    forecast = model(tracks.past)
    R = random_rotation(len(tracks))
    turned = model(rotate(tracks.past, R))
print(f"average error {(forecast - tracks.future).norm(dim=-1).mean():.2f} m")
print(f"turned road, turned back: {(turned - rotate(forecast, R)).abs().max():.0e} m apart")
