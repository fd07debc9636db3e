"""What ε does, in little: ModelNet10 with polka dots, clouds of 128 points, minutes for each run on one CPU thread.

python docs/results/epsilon.py ARRANGEMENT FUSION EPSILON PRECISION SEED     for example: paper early 1e-6 float32 0

The arrangement is the paper's to the letter, the same with norms that begin "upright", or ours. Fusion is none, early,
late, or anchored: early, with a constant along the attribute's axis, so that it is no axis like those of space. Clouds
are trained on as they lie, and tested as they lie and turned at random, so that a model that has learned poses shows
it. Prints one line of JSON.
"""

import json
import sys
import tempfile
from dataclasses import replace

import torch

from vnt import ClassifierConfig, TrainConfig, audit, train
from vnt.data import add_polka_dots, as_batch, load_set
from vnt.data.cloud_set import CloudSet, Split
from vnt.evaluation.protocols import evaluate_model
from vnt.models.recipes import paper_classifier, upright
from vnt.training.task import Data

POINTS, EPOCHS = 128, 20


def main(arrangement: str, fusion: str, epsilon: str, precision: str, seed: str) -> None:
    """One run."""
    clouds = {split: dotted(split, fusion) for split in ("train", "val", "test")}
    made = {"paper": paper_classifier(), "upright": upright(paper_classifier()), "ours": ours()}
    model = replace(made[arrangement], bias_epsilon=float(epsilon), attribute_anchor=fusion == "anchored")
    if fusion != "none":
        model = replace(model, num_attributes=1, fusion="early" if fusion == "anchored" else fusion)
    config = TrainConfig(
        model=model,
        batch_size=32,
        epochs=EPOCHS,
        schedule="linear",
        learning_rate=1e-3,
        ema=0.99,
        precision=precision,
        seed=int(seed),
        evaluate_every=EPOCHS,
    )
    whole, held_out, test = (as_batch(part) for part in clouds.values())
    data = Data(whole, held_out, clouds["train"].class_names, clouds["train"].attribute_names, clouds["train"].up)
    found = dict(zip(("arrangement", "fusion", "epsilon", "precision", "seed"), sys.argv[1:], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        try:
            trained = train(config, f"{folder}/run", data=data)
        except ValueError as error:
            if "the loss became" not in str(error):
                raise
            print(json.dumps(found | {"diverged": str(error)}))
            return
    trained.model.eval()
    scores = evaluate_model(trained.model, test, trained="I", up=data.up, class_names=data.class_names).summary()
    few = test.rows(torch.arange(8))
    inputs = (few.points,) if few.attributes is None else (few.points, few.attributes)
    report = audit(trained.model, *inputs, also=(), num_certified=0, num_samples=8, num_starts=0)
    found |= {name: round(numbers["accuracy"], 4) for name, numbers in scores.items()}
    found |= {"violation": float(report.violations["float32"].worst), "loss": trained.metrics[-1]["loss"]}
    print(json.dumps(found | {"torch": torch.__version__, "threads": torch.get_num_threads()}))


def dotted(split: Split, fusion: str) -> CloudSet:
    """The first points of each cloud, thirty of them dots."""
    clouds = load_set("modelnet10", split)
    clouds = replace(clouds, points=clouds.points[:, :POINTS])
    return clouds if fusion == "none" else add_polka_dots(clouds)


def ours() -> ClassifierConfig:
    """A small one of our arrangement."""
    return ClassifierConfig(channels=32, num_heads=8, depth=2, hidden_channels=32, point_channels=64, head_channels=64)


main(*sys.argv[1:])
