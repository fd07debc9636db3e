"""PyPI's VN-transformer (lucidrains, 0.1.0): three of its layers are ours, its networks are not.

VN-Linear without bias, attention by inner products and the weighted pool are the paper's, and the same numbers come
out. Each of its networks also has a VN-ReLU and a VN-LayerNorm of its own: other mathematics, for which no weights of
ours would give the same result, so that these are refused, with every reason that there is.
"""

import re

import torch
from torch import nn

from vnt.layers import VNLinear, VNMeanProject, VNMultiheadAttention
from vnt.models.foreign.states import State, fill, some

PROJECTIONS = {"query": "to_q", "key": "to_k", "value": "to_v", "output": "to_out"}
MARKS = re.compile(r"(^|\.)(to_q\.weight|ln\.gamma|vn_proj_in\.1\.weight|[0-9]+\.W)$")

REASONS = {
    r"(^|\.)bias$": (
        "its ε bias is one number for each channel, the same along all coordinates, of length ε over all channels "
        "together; ours is a vector for each channel, each of length ε (and weights do not tell ε)"
    ),
    r"(^|\.)mlp\.1\.W$": (
        "its VN-Invariant sums over the channels, and leaves as many numbers as there are coordinates; ours keeps them "
        "for each channel"
    ),
    r"(^|\.)W$": (
        "its VN-ReLU takes away ⟨q, k/|k|⟩ k where ⟨q, k⟩ < 0, which grows with |k| and is no projection; ours takes "
        "away ⟨q, k/|k|⟩ k/|k|"
    ),
    r"(^|\.)ln\.gamma$": (
        "its VN-LayerNorm divides by max(|v|, 1e-6) and guards the variance by 1e-5; ours has one guard for both, of "
        "|v|² and of the variance"
    ),
    r"(^|\.)to_q_input\.weight$": (
        "its attention makes its own queries, out of the mean of the tokens; ours is given them"
    ),
    r"(^|\.)token_emb\.weight$": "it looks up attributes in a table by number; ours are numbers themselves",
    r"(^|\.)vn_proj_out\.1\.weight$": (
        "it ends with one vector for each point; our models end with classes or a forecast"
    ),
}
"""What differs, by the names that show it."""


def is_vn_transformer(state: State) -> bool:
    """Whether the names are those of its layers; a lone "weight" could be anybody's."""
    return any(MARKS.search(name) for name in state)


def import_vn_transformer(state: State, num_heads: int = 8) -> nn.Module:
    """The layer of ours that computes the same, or all reasons why there is none."""
    if found := _differences(state):
        raise ValueError(f"not the mathematics of vnt: {'; '.join(found)}")
    if set(state) == {f"{theirs}.weight" for theirs in PROJECTIONS.values()}:
        return _attention(state, num_heads)
    if set(state) == {"weight"} and state["weight"].ndim == 2:
        out_channels, in_channels = state["weight"].shape
        return fill(VNLinear(in_channels, out_channels), state)
    if set(state) == {"weight"} and state["weight"].ndim == 3:
        num_latents, in_channels, out_channels = state["weight"].shape
        pool = VNMeanProject(in_channels, out_channels, num_latents)
        return fill(pool, {"weight": state["weight"].mT})
    raise ValueError(
        "none of the layers of VN-transformer that vnt takes, which are VNAttention (to_q, to_k, to_v, to_out), "
        f"VNLinear and VNWeightedPool (weight): {some(state)}"
    )


def _differences(state: State) -> list[str]:
    """Each reason once, with the first name that shows it."""
    found = []
    for pattern, reason in REASONS.items():
        if name := next((name for name in state if re.search(pattern, name)), None):
            found.append(f"{name}: {reason}")
    for name, q in state.items():
        key = name.removesuffix("to_q.weight") + "to_k.weight"
        if name.endswith("to_q.weight") and key in state and torch.equal(q, state[key]):
            found.append(
                f"{name} and {key} are the same: made with l2_dist_attn, whose scores are distances of which the cross "
                "term alone is scaled; ours are inner products"
            )
            break
    return found


def _attention(state: State, num_heads: int) -> nn.Module:
    """VN-MultiHeadAttn; heads lie one after another among the rows, there as here."""
    channels = state["to_out.weight"].shape[:1].numel()
    for name, weight in state.items():
        if weight.shape != (channels, channels):
            raise ValueError(
                f"{name} has shape {tuple(weight.shape)}, expected {(channels, channels)}: all heads together must "
                "have as many channels as the tokens (heads · dim_head = dim)"
            )
    attention = VNMultiheadAttention(channels, num_heads)
    return fill(attention, {f"{ours}.weight": state[f"{theirs}.weight"] for ours, theirs in PROJECTIONS.items()})
