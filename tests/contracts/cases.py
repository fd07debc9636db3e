"""Every layer, as a table: how to make it, and how its tensors transform. What a layer must keep is tested on all."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import vnt

C, S, N = 16, 3, 12


@dataclass(frozen=True)
class LayerCase:
    """One layer and what is true of it.

    Attributes:
        make: builds it with C = 16 channels.
        masked: whether forward takes a mask.
        pools: whether the token axis is gone from the result.
        permutes: whether the result has the input's tokens, in the input's order.
        invariant: whether the result does not turn.
        reflects: whether mirror images give mirrored results.
        attends_raw: whether attention meets tokens of any length: at 1e12 the scores reach 1e24, where the softmax is
            a choice, and fused kernels lose its gradient to rounding.
        gate: relative equivariance error allowed in (float32, float64).
        half: relative difference of the result that bfloat16 autocast may make.
    """

    make: Callable[..., nn.Module]
    masked: bool = True
    pools: bool = False
    permutes: bool = True
    invariant: bool = False
    reflects: bool = True
    attends_raw: bool = False
    gate: tuple[float, float] = (2e-6, 1e-14)
    half: float = 0.03


class SelfAttention(nn.Module):
    """VNMultiheadAttention of a cloud with itself, as one function of V and mask."""

    def __init__(self, **options):
        super().__init__()
        self.attention = vnt.VNMultiheadAttention(C, 4, **options)

    def forward(self, V: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attention(V, V, V, mask)


class CrossAttention(nn.Module):
    """VNMultiheadAttention with C ≠ C', values and queries made out of the same cloud."""

    def __init__(self):
        super().__init__()
        self.attention = vnt.VNMultiheadAttention(C, 2, value_channels=6)

    def forward(self, V: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.attention(V + 0, V, V[..., :6, :], mask)


class Gate(nn.Module):
    """VNGate by the lengths of the channels, which are invariant."""

    def __init__(self):
        super().__init__()
        self.gate = vnt.VNGate(C, C)

    def forward(self, V: Tensor) -> Tensor:
        return self.gate(V, V.norm(dim=-1))


ATTENTION, BLOCK, STACK = (5e-6, 1e-13), (1e-5, 1e-12), (1e-4, 1e-11)

LAYERS: dict[str, LayerCase] = {
    "linear": LayerCase(lambda: vnt.VNLinear(C, 24), masked=False),
    "relu": LayerCase(lambda: vnt.VNReLU(C), masked=False),
    "relu leaky": LayerCase(lambda: vnt.VNReLU(C, negative_slope=0.2), masked=False),
    "relu shared direction": LayerCase(lambda: vnt.VNReLU(C, share_direction=True), masked=False),
    "relu rectangular": LayerCase(lambda: vnt.VNReLU(C, out_channels=24), masked=False),
    "layer norm": LayerCase(lambda: vnt.VNLayerNorm(C)),
    "rms norm": LayerCase(lambda: vnt.VNRMSNorm(C)),
    "batch norm": LayerCase(lambda: vnt.VNBatchNorm(C)),
    "gate": LayerCase(Gate, masked=False),
    "cross product": LayerCase(lambda: vnt.VNCrossProduct(C), masked=False, reflects=False, gate=ATTENTION),
    "mlp": LayerCase(lambda: vnt.VNMLP(C, 24, C)),
    "mlp with batch norm": LayerCase(lambda: vnt.VNMLP(C, 24, C, norm="batch"), gate=BLOCK),
    "mlp with rms norm": LayerCase(lambda: vnt.VNMLP(C, 24, C, norm="rms")),
    "self-attention": LayerCase(SelfAttention, attends_raw=True, gate=ATTENTION),
    "cross-attention": LayerCase(CrossAttention, attends_raw=True, gate=ATTENTION),
    "block": LayerCase(lambda: vnt.VNEncoderBlock(C, 4), gate=BLOCK),
    "block of the paper": LayerCase(
        lambda: vnt.VNEncoderBlock(C, 4, norm="layer", norm_position="post", mlp_norm="batch"),
        attends_raw=True,
        gate=(2e-5, 1e-12),
    ),
    "upright block of the paper": LayerCase(
        lambda: vnt.VNEncoderBlock(C, 4, norm="upright_layer", norm_position="post", mlp_norm="upright_batch"),
        attends_raw=True,
        gate=BLOCK,
    ),
    "block with norms in its branches": LayerCase(
        lambda: vnt.VNEncoderBlock(C, 4, norm_position="branch"), attends_raw=True, gate=BLOCK
    ),
    "encoder": LayerCase(lambda: vnt.VNEncoder(C, 4, depth=3), gate=STACK),
    "encoder used twice": LayerCase(lambda: vnt.VNEncoder(C, 4, depth=2, repeats=2), gate=STACK),
    "latent encoder": LayerCase(lambda: vnt.VNLatentEncoder(C, 4, depth=1, num_latents=5), permutes=False, gate=STACK),
    "latent encoder, read back": LayerCase(
        lambda: vnt.VNLatentEncoder(C, 4, depth=1, num_latents=5, read_back=True), gate=STACK
    ),
    "latent encoder of the paper": LayerCase(
        lambda: vnt.VNLatentEncoder(C, 4, depth=1, num_latents=5, norm="layer", norm_position="post"),
        permutes=False,
        attends_raw=True,
        gate=STACK,
        half=0.3,
    ),
    "mean pool": LayerCase(vnt.VNMeanPool, pools=True),
    "max pool": LayerCase(lambda: vnt.VNMaxPool(C), pools=True),
    "mean project": LayerCase(lambda: vnt.VNMeanProject(C, 8, num_latents=5), permutes=False),
    "invariant": LayerCase(lambda: vnt.VNInvariant(C), masked=False, invariant=True, gate=ATTENTION),
    "edge convolution": LayerCase(lambda: vnt.VNEdgeConv(C, 8, num_neighbors=4), gate=ATTENTION),
    "edge convolution, k = 0": LayerCase(lambda: vnt.VNEdgeConv(C, 8, num_neighbors=0)),
}


def make(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The layer of that name, with every parameter moved off its starting value, so that gains and shifts count."""
    torch.manual_seed(1)
    layer = LAYERS[name].make().to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


def cloud(*batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal tokens (*batch, N, C, S)."""
    return torch.randn(*batch, N, C, S, dtype=dtype)
