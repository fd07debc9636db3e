"""The paper's equations as pure functions, one file per object; parameters are arguments."""

from vnt.functional.activation import relu
from vnt.functional.attention import (
    attention,
    attention_weights,
    frobenius_inner_product,
    multihead_attention,
    read_scalars,
)
from vnt.functional.chirality import cross_product
from vnt.functional.edge import edge_convolution, edge_features, neighbor_mean
from vnt.functional.fused import framed_invariant, residual_attention, residual_mlp
from vnt.functional.invariant import invariant
from vnt.functional.linear import channels_innermost, linear, linear_with_bias, unit_rows
from vnt.functional.normalization import batch_norm, batch_statistics, layer_norm, moments, rms_norm
from vnt.functional.pairs import OF_PAIR, OF_SCALE, pair_invariants
from vnt.functional.pooling import max_pool, mean_pool, mean_project, project_mean
from vnt.functional.scan import scan
from vnt.functional.streaming import (
    ChunkAttention,
    attend_to_chunk,
    fold_keys,
    merge_attention,
    merge_sums,
    pick_heads,
    token_sum,
)
from vnt.functional.surroundings import VECTORS, LocalMoments, local_moments, surroundings, vectors_around

__all__ = [
    "OF_PAIR",
    "OF_SCALE",
    "VECTORS",
    "ChunkAttention",
    "LocalMoments",
    "attend_to_chunk",
    "attention",
    "attention_weights",
    "batch_norm",
    "batch_statistics",
    "channels_innermost",
    "cross_product",
    "edge_convolution",
    "edge_features",
    "fold_keys",
    "framed_invariant",
    "frobenius_inner_product",
    "invariant",
    "layer_norm",
    "linear",
    "linear_with_bias",
    "local_moments",
    "max_pool",
    "mean_pool",
    "mean_project",
    "merge_attention",
    "merge_sums",
    "moments",
    "multihead_attention",
    "neighbor_mean",
    "pair_invariants",
    "pick_heads",
    "project_mean",
    "read_scalars",
    "relu",
    "residual_attention",
    "residual_mlp",
    "rms_norm",
    "scan",
    "surroundings",
    "token_sum",
    "unit_rows",
    "vectors_around",
]
