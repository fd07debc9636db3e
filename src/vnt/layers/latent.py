"""Latent features for large clouds (section 6, Fig. 5)."""

from typing import Unpack

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt.checks import require_mask
from vnt.geometry.masking import blank
from vnt.layers.chunks import Chunks
from vnt.layers.encoder import BlockOptions, VNEncoder, VNEncoderBlock, pre_norm
from vnt.layers.pooling import VNMeanProject


class VNLatentEncoder(nn.Module):
    """M latents that read from N tokens once and then attend among themselves: cost N·M + M², not N².

    VN-MeanProject makes the latents out of the cloud, so that they turn with it; cross-attention with the tokens as
    keys and values fills them; ``depth`` encoder blocks follow. With ``read_back`` each token then reads from the
    latents, and tokens are what comes out: each knows the cloud, and has kept what it knew of itself.

    Args:
        channels: C, of tokens and latents.
        num_heads: H.
        depth: blocks of self-attention among the latents.
        num_latents: M.
        read_back: whether tokens read from the latents.
        repeats: how often latents go through those blocks, as in `VNEncoder`.
        options: keywords of `VNEncoderBlock`.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., M, C, S), or (..., N, C, S) with ``read_back``. The tokens may
        come in `Chunks`, for a cloud that is too large to hold: the result is the same, in memory that grows with the
        chunk and not with N, and itself in chunks where tokens come out. A norm of batch statistics ("batch" and
        "upright_batch" in training) needs them whole.

    A cloud that is its own point reflection has no equivariant mean but zero, whatever comes before: its latents are
    zero, and tell nothing of it.

    Differences from the paper: with norm_position="pre" the tokens are normalised before VN-MeanProject as well.
    Without that the mean of a centred cloud under a linear lift would be zero, and all latents with it. Latents have as
    many channels as tokens; the paper allows fewer. ``read_back`` is ours.

    >>> import torch
    >>> VNLatentEncoder(8, num_heads=2, depth=1, num_latents=4)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 4, 8, 3])
    """

    def __init__(
        self,
        channels: int,
        num_heads: int,
        depth: int,
        num_latents: int,
        *,
        read_back: bool = False,
        repeats: int = 1,
        **options: Unpack[BlockOptions],
    ):
        super().__init__()
        self.input_norm = pre_norm(channels, options)
        self.project = VNMeanProject(channels, channels, num_latents)
        self.cross = VNEncoderBlock(channels, num_heads, **options)
        self.encoder = VNEncoder(channels, num_heads, depth, repeats=repeats, **options)
        self.read_back = ReadBack(channels, num_heads, **options) if read_back else None

    def forward(
        self, V: Float[Tensor, "*batch N C S"] | Chunks, mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch M C S"] | Chunks:
        tokens = V
        if not isinstance(V, Chunks):
            require_mask(mask, V.shape[:-2], "VNLatentEncoder")
            V = blank(V, mask)
        if self.input_norm is not None:
            V = V.through(self.input_norm) if isinstance(V, Chunks) else self.input_norm(V, mask)
        latents = self.encoder(self.cross(self.project(V, mask), mask, context=V))
        if self.read_back is None:
            return latents
        if isinstance(tokens, Chunks):
            return tokens.through(self.read_back, latents)
        return self.read_back(tokens, latents, mask)


class ReadBack(nn.Module):
    """Each token reads from the latents: a block of cross-attention, and the norm that a stack of blocks ends with.

    Shape:
        (..., N, C, S) and latents (..., M, C, S) -> (..., N, C, S), with ``mask`` (..., N) True where a token exists.
    """

    def __init__(self, channels: int, num_heads: int, **options: Unpack[BlockOptions]):
        super().__init__()
        self.block = VNEncoderBlock(channels, num_heads, **options)
        self.final_norm = pre_norm(channels, options)

    def forward(
        self,
        V: Float[Tensor, "*batch N C S"],
        latents: Float[Tensor, "*batch M C S"],
        mask: Bool[Tensor, "*batch N"] | None = None,
    ) -> Float[Tensor, "*batch N C S"]:
        V = self.block(V, context=latents, own_mask=mask)
        return V if self.final_norm is None else self.final_norm(V, mask)
