"""KITTI by cross-validation over its roads: a recipe of Waymo's on all sequences but some, and its error on those.

python docs/results/kitti.py RECIPE SEQUENCES [EPOCHS [START]]   for example: womd 01,03,04 100

START is a run to begin with (`vnt train womd -o START`), at a rate of 1e-3. The test sequences, 08 to 10, are not
touched. Prints one line of JSON: errors in metres on what was held out, every 25 epochs and at the end.
"""

import json
import sys
import tempfile
from dataclasses import replace

import numpy as np
import torch

from vnt import train
from vnt.data import as_batch, load_set
from vnt.training.recipes import recipe
from vnt.training.task import Data


def main(name: str, sequences: str, epochs: str = "", start: str = "") -> None:
    """One run."""
    torch.set_num_threads(1)
    config = replace(recipe(name), dataset="kitti", device="cpu", start=start)
    config = replace(config, epochs=int(epochs or config.epochs), learning_rate=1e-3 if start else config.learning_rate)
    config = replace(config, evaluate_every=25)
    windows = load_set("kitti", "train+val")
    held_out = np.isin(windows.scenario, sequences.split(","))
    kept, val = windows.take(~held_out), windows.take(held_out)
    data = Data(as_batch(kept, slides=config.slide > 0), as_batch(val), dt=kept.dt)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(config, f"{folder}/run", data=data)
    found = {"recipe": name, "held_out": sequences, "windows": len(val), "epochs": config.epochs, "begun": bool(start)}
    found["ade"] = [[record["epoch"], round(record["val_ade"], 3)] for record in trained.metrics]
    found["loss"] = round(trained.metrics[-1].get("loss", 0), 2)
    print(json.dumps(found | {"torch": torch.__version__}), flush=True)


main(*sys.argv[1:])
