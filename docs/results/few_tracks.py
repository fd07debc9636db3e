"""How much of the motion data is needed: Table 3's two models on a share of the training vehicles, on one CPU thread.

python docs/results/few_tracks.py RECIPE SHARE LONGER SEED   for example: womd 0.25 4 0

The vehicles are drawn at random, the same for both models. LONGER times the recipe's epochs make up for the steps that
an epoch of fewer vehicles lacks. Prints one line of JSON: errors on the 979 test vehicles.
"""

import json
import sys
import tempfile
from dataclasses import replace

import torch

from vnt import train
from vnt.data import as_batch, load_set
from vnt.evaluation.protocols import evaluate_model
from vnt.training.recipes import recipe
from vnt.training.task import load_data


def main(name: str, share: str, longer: str, seed: str) -> None:
    """One run."""
    config = replace(recipe(name), hold_out=False, seed=int(seed), device="cpu")
    data = load_data(config)
    chosen = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))
    data = replace(data, train=data.train.rows(chosen[: round(float(share) * len(data.train))]))
    epochs = config.epochs * int(longer)
    config = replace(config, epochs=epochs, evaluate_every=epochs)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(config, f"{folder}/run", data=data)
    test = as_batch(load_set(config.dataset, "test"))
    scores = evaluate_model(trained.model.eval(), test, trained=config.rotation, up=data.up).summary()
    found = {"recipe": name, "vehicles": len(data.train), "epochs": epochs, "seed": int(seed)}
    found |= {rotation: round(numbers["ade"], 4) for rotation, numbers in scores.items()}
    print(json.dumps(found | {"loss": trained.metrics[-1]["loss"], "torch": torch.__version__}), flush=True)


main(*sys.argv[1:])
