"""Mean pool, max pool and VN-MeanProject as modules."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels, require_mask
from vnt.geometry.neighbors import default_tie_tolerance
from vnt.layers.chunks import Chunks
from vnt.layers.initialization import fan_in_weight, require_guard, require_positive


class VNMeanPool(nn.Module):
    """The mean of the tokens that exist.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., C, S)

    Differences from the paper: none.

    >>> import torch
    >>> VNMeanPool()(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 8, 3])
    """

    def forward(
        self, V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch C S"]:
        require_mask(mask, V.shape[:-2], "VNMeanPool")
        return functional.mean_pool(V, mask)


class VNMaxPool(nn.Module):
    r"""For each channel the vector that reaches farthest along its own learned direction (Deng et al. 2021).

    $$k = W V^{(n)}, \qquad \text{VN-MaxPool}(V)^{(c)} = V^{(n^*, c)}, \quad
      n^* = \text{argmax}_n \langle V^{(n,c)}, k^{(n,c)} \rangle$$

    No gradient reaches W through the choice of n*, here as in Deng et al.: the directions stay as they were drawn, and
    W is a buffer.

    Args:
        channels: C.
        tie_tolerance: relative difference below which two scores are equal; by default 1e-5, or 1e-10 in float64.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., C, S)

    Differences from the paper: tokens that tie for the maximum are averaged, so that a cloud with symmetries keeps
    them (Deng et al. take the first).

    >>> import torch
    >>> VNMaxPool(8)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 8, 3])
    """

    weight: Tensor

    def __init__(self, channels: int, *, tie_tolerance: float | None = None):
        super().__init__()
        require_positive(channels=channels)
        require_guard(tie_tolerance=tie_tolerance)
        self.channels, self.tie_tolerance = channels, tie_tolerance
        self.register_buffer("weight", fan_in_weight(channels, channels).detach())

    def forward(
        self, V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch C S"]:
        require_channels(V, self.channels, "VNMaxPool")
        require_mask(mask, V.shape[:-2], "VNMaxPool")
        tolerance = default_tie_tolerance(V.dtype) if self.tie_tolerance is None else self.tie_tolerance
        return functional.max_pool(V, self.weight, mask, tie_tolerance=tolerance)

    def extra_repr(self) -> str:
        return f"{self.channels}"


class VNMeanProject(nn.Module):
    r"""M latent tokens from the mean of all tokens (section 6).

    $$\text{VN-MeanProject}(V)^{(m)} = W^{(m)} \Bigl[\tfrac1N \sum_{n=1}^N V^{(n)}\Bigr], \qquad
      W \in \mathbb{R}^{M \times C' \times C}$$

    Beware: the mean of a mean-centred cloud under a linear lift is zero. Something non-linear, at least a norm, has to
    come first.

    Args:
        in_channels: C.
        out_channels: C'.
        num_latents: M.

    Shape:
        (..., N, C, S), or `Chunks` of it, with ``mask`` (..., N) -> (..., M, C', S)

    Differences from the paper: none.

    >>> import torch
    >>> VNMeanProject(8, 16, num_latents=4)(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 4, 16, 3])
    """

    def __init__(self, in_channels: int, out_channels: int, num_latents: int):
        super().__init__()
        require_positive(in_channels=in_channels, out_channels=out_channels, num_latents=num_latents)
        self.in_channels, self.out_channels, self.num_latents = in_channels, out_channels, num_latents
        self.weight = fan_in_weight(num_latents, out_channels, in_channels)

    def forward(
        self, V: Float[Tensor, "*batch N C S"] | Chunks, mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch M C_out S"]:
        if isinstance(V, Chunks):
            mean = functional.merge_sums(V.map(functional.token_sum, mask))
            return functional.project_mean(mean.to(self.weight.dtype), self.weight)
        require_channels(V, self.in_channels, "VNMeanProject")
        require_mask(mask, V.shape[:-2], "VNMeanProject")
        return functional.mean_project(V, self.weight, mask)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, num_latents={self.num_latents}"
