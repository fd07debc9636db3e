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
from vnt.functional.invariant import invariant
from vnt.functional.linear import channels_innermost, linear, linear_with_bias, unit_rows
from vnt.functional.normalization import batch_norm, batch_statistics, layer_norm, rms_norm
from vnt.functional.pooling import max_pool, mean_pool, mean_project

__all__ = [
    "attention",
    "attention_weights",
    "batch_norm",
    "batch_statistics",
    "channels_innermost",
    "cross_product",
    "edge_convolution",
    "edge_features",
    "frobenius_inner_product",
    "invariant",
    "layer_norm",
    "linear",
    "linear_with_bias",
    "max_pool",
    "mean_pool",
    "mean_project",
    "multihead_attention",
    "neighbor_mean",
    "read_scalars",
    "relu",
    "rms_norm",
    "unit_rows",
]
