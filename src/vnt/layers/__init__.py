"""nn.Modules that own the parameters of the equations in `vnt.functional`; the files have the same names."""

from vnt.layers.activation import VNReLU
from vnt.layers.attention import VNMultiheadAttention
from vnt.layers.chirality import VNCrossProduct
from vnt.layers.edge import VNEdgeConv
from vnt.layers.encoder import VNEncoder, VNEncoderBlock
from vnt.layers.gate import VNGate
from vnt.layers.invariant import VNInvariant
from vnt.layers.latent import VNLatentEncoder
from vnt.layers.linear import VNLinear
from vnt.layers.mlp import VNMLP
from vnt.layers.normalization import VNBatchNorm, VNLayerNorm, VNRMSNorm
from vnt.layers.pooling import VNMaxPool, VNMeanPool, VNMeanProject

__all__ = [
    "VNMLP",
    "VNBatchNorm",
    "VNCrossProduct",
    "VNEdgeConv",
    "VNEncoder",
    "VNEncoderBlock",
    "VNGate",
    "VNInvariant",
    "VNLatentEncoder",
    "VNLayerNorm",
    "VNLinear",
    "VNMaxPool",
    "VNMeanPool",
    "VNMeanProject",
    "VNMultiheadAttention",
    "VNRMSNorm",
    "VNReLU",
]
