"""Latent features for large clouds (section 6, Fig. 5)."""

from typing import Unpack

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.layers.chunks import Chunks
from vnt.layers.encoder import BlockOptions, VNEncoder, VNEncoderBlock, pre_norm
from vnt.layers.pooling import VNMeanProject


class VNLatentEncoder(nn.Module):
    """M latents that read from N tokens once and then attend among themselves: cost N·M + M², not N².

    VN-MeanProject makes the latents out of the cloud, so that they turn with it; cross-attention with the tokens as
    keys and values fills them; ``depth`` encoder blocks follow.

    Args:
        channels: C, of tokens and latents.
        num_heads: H.
        depth: blocks of self-attention among the latents.
        num_latents: M.
        options: keywords of `VNEncoderBlock`.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., M, C, S). The tokens may come in `Chunks`, for a cloud that is
        too large to hold: the result is the same, in memory that grows with the chunk and not with N. A norm of batch
        statistics (norm="batch" in training) needs them whole.

    A cloud that is its own point reflection has no equivariant mean but zero, whatever comes before: its latents are
    zero, and tell nothing of it.

    Differences from the paper: with norm_position="pre" the tokens are normalised before VN-MeanProject as well.
    Without that the mean of a centred cloud under a linear lift would be zero, and all latents with it. Latents have as
    many channels as tokens; the paper allows fewer.

    >>> import torch
    >>> VNLatentEncoder(8, num_heads=2, depth=1, num_latents=4)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 4, 8, 3])
    """

    def __init__(self, channels: int, num_heads: int, depth: int, num_latents: int, **options: Unpack[BlockOptions]):
        super().__init__()
        self.input_norm = pre_norm(channels, options)
        self.project = VNMeanProject(channels, channels, num_latents)
        self.cross = VNEncoderBlock(channels, num_heads, **options)
        self.encoder = VNEncoder(channels, num_heads, depth, **options)

    def forward(
        self, V: Float[Tensor, "*batch N C S"] | Chunks, mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch M C S"]:
        if self.input_norm is not None:
            V = V.through(self.input_norm) if isinstance(V, Chunks) else self.input_norm(V, mask)
        latents = self.project(V, mask)
        return self.encoder(self.cross(latents, mask, context=V))
