"""From the paper to the letter to our models, a choice at a time, in little: what does each of them cost?

python docs/results/letter.py KIND SEED EPOCHS CHOICE ...    for example: clouds 0 15 lift prenorm
                                                              or: tracks 0 60 all -radius

Each choice of the paper's literal arrangement, at ε = 0, is made as ours are; "all" makes them all, and a minus takes
one back. KIND is "clouds": ModelNet40 without 3,000 of its training clouds, on which the answer is looked at, turned at
random; 128 points of each cloud in a step, 256 of those held out. Or "tracks": Waymo Open Motion without a quarter of
its training scenarios, on which the answer is looked at. Or "vn_pointnet" or "vn_dgcnn", of a quarter of their width,
on those clouds. Test splits are not touched. Prints one line of JSON.
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from vnt import TrainConfig, audit, train
from vnt.data import as_batch, load_set
from vnt.data.batches import CloudBatch, MotionBatch
from vnt.evaluation.evaluate import evaluate_batches
from vnt.geometry import random_rotation
from vnt.layers import VNBatchNorm, VNLayerNorm
from vnt.models.heads import MaskedBatchNorm
from vnt.models.recipes import paper_classifier
from vnt.training.recipes import recipe
from vnt.training.task import Data

HELD_OUT, POINTS = 3000, 128
BOTH: dict[str, dict[str, Any]] = {
    "upright": {"norm": "upright_layer", "mlp_norm": "upright_batch"},
    "lift": {"lift": "linear"},
    "branch": {"norm_position": "branch"},
    "prenorm": {"norm_position": "pre"},
    "no_batch_norm": {"mlp_norm": "none"},
    "rms_norm": {"norm": "rms", "norm_eps": 1.0, "relu_eps": 1e-2},
    "radius": {"scale": "relative"},
    "leaky": {"negative_slope": 0.2},
    "epsilon": {"bias_epsilon": 1e-6},
}
"""What a choice changes in the model's config, or in the run's (TRAINING); later ones have the last word."""
READINGS = {"upright", "branch", "leaky", "epsilon", "max"}
"""Other readings of the paper, and none of our choices: "all" does not make them."""
CLOUDS = BOTH | {
    "point_mlp": {"point_channels": 56, "pooling": "mean+max", "head_channels": 56},
    "heads": {"num_heads": 16},
    "surroundings": {"surroundings": (0.1, 0.2, 0.4)},
    "rate": {"learning_rate": 2e-3, "schedule": "cosine", "label_smoothing": 0.1},
    "max": {"pooling": "max"},
}
TRACKS = BOTH | {
    "motions": {"num_motions": 6},
    "mixing": {"head_channels": 256, "dropout": 0.3},
    "slide": {"slide": 20},
    "rate": {"learning_rate": 2e-3, "schedule": "cosine"},
}
VECTOR_NETWORKS: dict[str, dict[str, Any]] = {
    "upright": {"norm": "upright_batch"},
    "adam": {"optimizer": "adamw", "learning_rate": 1e-3},
}
TRAINING = ("rate", "slide", "adam")
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "clouds": CLOUDS,
    "tracks": TRACKS,
    "vn_pointnet": VECTOR_NETWORKS,
    "vn_dgcnn": VECTOR_NETWORKS,
}


def main(kind: str, seed: int, epochs: int, *words: str) -> None:
    """One run."""
    choices = KINDS[kind]
    if unknown := {word.removeprefix("-") for word in words} - {*choices, "all"}:
        raise SystemExit(f"no choice {', '.join(sorted(unknown))}; there are all, {', '.join(choices)}")
    chosen = {name for word in words for name in ([*choices] if word == "all" else [word]) if word[0] != "-"}
    chosen -= {word[1:] for word in words if word[0] == "-"} | (READINGS - {*words})
    config = literal(kind)
    model = config.model
    for name in (name for name in choices if name in chosen):
        if name in TRAINING:
            config = replace(config, **choices[name])
        else:
            model = replace(model, **choices[name])
    config = replace(config, model=model, seed=seed, epochs=epochs, evaluate_every=epochs, device="cpu")

    data = tracks(slides=config.slide > 0) if kind == "tracks" else clouds()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(config, f"{folder}/run", data=data)
    found = {
        "kind": kind,
        "choices": " ".join(words) or "none",
        "seed": seed,
        "epochs": epochs,
        "parameters": sum(parameter.numel() for parameter in trained.model.parameters()),
        "training_loss": round(trained.metrics[-1]["loss"], 4),
        **judge(trained.model.eval(), data.val),
        "seconds": round(time.perf_counter() - began),
        "torch": torch.__version__,
    }
    print(json.dumps(found), flush=True)


def literal(kind: str) -> TrainConfig:
    """How the paper trains, as far as it says, and with batches of 32 clouds; how Deng et al. train theirs."""
    if kind == "tracks":
        config = recipe("womd_paper")
        return replace(config, model=replace(config.model, bias_epsilon=0.0))  # type: ignore[unexpected-keyword]
    if kind != "clouds":
        config = recipe(f"modelnet40_{kind}")
        model = replace(config.model, width=0.25)  # type: ignore[unexpected-keyword]
        return replace(config, model=model, num_points=POINTS, precision="float32")
    return TrainConfig(
        model=replace(paper_classifier(), bias_epsilon=0.0),
        num_points=POINTS,
        batch_size=32,
        learning_rate=1e-3,
        schedule="linear",
        ema=0.99,
        compile=True,
    )


def clouds() -> Data:
    """The training clouds in two parts."""
    whole = load_set("modelnet40", "train+val")
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))
    held_out = whole.take(order[:HELD_OUT])
    held_out = replace(held_out, points=held_out.points[:, : 2 * POINTS])
    return Data(as_batch(whole.take(order[HELD_OUT:])), as_batch(held_out), whole.class_names, up=whole.up)


def tracks(*, slides: bool) -> Data:
    """The training vehicles in two parts, no scenario in both."""
    kept, held_out = load_set("womd_paper", "train+val").split(0.25)
    return Data(as_batch(kept, slides=slides), as_batch(held_out), dt=kept.dt)


def judge(network: nn.Module, held_out: CloudBatch | MotionBatch) -> dict[str, float]:
    """What is right of that which was held out, and how far a rotation changes the answer."""
    few = held_out.rows(torch.arange(8))
    report = audit(network, few.points if isinstance(few, CloudBatch) else few.past, **BRIEFLY)
    found = {"violation": float(report.violations["float32"].worst), **turned_round(network, few)}
    if isinstance(held_out, MotionBatch):
        return {"ade": round(evaluate_batches(network, held_out, rotation="SO3").summary()["ade"], 4), **found}
    R = random_rotation(HELD_OUT, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = torch.cat([network(part) for part in held_out.rotated(R).points.split(100)])
    right = (logits.argmax(-1) == held_out.labels).double().mean().item()
    # At the best temperature, since labels are smoothed in some runs alone.
    loss = min(nn.functional.cross_entropy(logits / T, held_out.labels).item() for T in torch.arange(0.2, 3.0, 0.05))
    return {"accuracy": round(right, 4), "loss": round(loss, 4), **found}


def turned_round(network: nn.Module, few: CloudBatch | MotionBatch) -> dict[str, float]:
    """The share of vectors that VN-LayerNorms and VN-BatchNorms turn round, the mean over those layers."""
    against: list[torch.Tensor] = []

    def look(_: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        against.append(((inputs[0] * output).sum(-1) < 0).double().mean())

    norms = [module for module in network.modules() if isinstance(module, VNLayerNorm | VNBatchNorm)]
    norms = [norm for norm in norms if type(norm) is not MaskedBatchNorm]  # which is of numbers
    hooks = [norm.register_forward_hook(look) for norm in norms]
    with torch.no_grad():
        network(few.points if isinstance(few, CloudBatch) else few.past)
    for hook in hooks:
        hook.remove()
    return {"turned_round": round(torch.stack(against).mean().item(), 3)} if against else {}


BRIEFLY: dict[str, Any] = {"also": (), "num_certified": 0, "num_samples": 8, "num_starts": 0}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
