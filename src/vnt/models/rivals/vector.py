"""Vector-neuron layers in the arrangement of Deng et al. 2021: VN-Linear, VN-BatchNorm and VN-ReLU in one."""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vnt import functional
from vnt.checks import require_channels
from vnt.functional.activation import rectify
from vnt.layers import VNBatchNorm, VNLinear, VNMaxPool
from vnt.layers.normalization import UPRIGHT
from vnt.models.heads import MaskedBatchNorm
from vnt.models.rivals.graph import Graph
from vnt.models.rivals.network_config import VectorNetworkConfig
from vnt.precision import at_least_float32, full_precision


class LengthBatchNorm(MaskedBatchNorm):
    r"""VN-BatchNorm with the guards of Deng et al.'s program: one of the lengths, another one of the variance.

    $$\frac{V^{(c)}}{\|V^{(c)}\|_2 + \delta} \, \text{BatchNorm}\bigl(\|V^{(c)}\|_2 + \delta\bigr)$$

    Args:
        channels: C.
        length_eps: δ.
        eps: guards the variance.
        shift: what the learned shift begins with, as in `vnt.VNBatchNorm`.

    Shape:
        (..., C, S) -> (..., C, S), with ``mask`` (...) True where a token exists.

    Differences from the paper: the guards; padding does not count.

    >>> LengthBatchNorm(8, length_eps=1e-6)(torch.randn(4, 100, 8, 3)).shape
    torch.Size([4, 100, 8, 3])
    """

    def __init__(self, channels: int, *, length_eps: float, eps: float = 1e-5, shift: float = 0.0):
        super().__init__(channels, eps=eps, shift=shift)
        self.length_eps = length_eps

    def forward(
        self, V: Float[Tensor, "*tokens C S"], mask: Bool[Tensor, "*tokens"] | None = None
    ) -> Float[Tensor, "*tokens C S"]:
        require_channels(V, self.channels, "LengthBatchNorm")
        length = torch.linalg.vector_norm(at_least_float32(V), dim=-1) + self.length_eps
        return (V * (super().forward(length, mask) / length)[..., None]).to(V.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, length_eps={self.length_eps}"


def make_batch_norm(channels: int, config: VectorNetworkConfig) -> VNBatchNorm:
    """The VN-BatchNorm with the guards that the config says, and the start of its shift."""
    shift = UPRIGHT if config.norm == "upright_batch" else 0.0
    if config.length_eps is None:
        return VNBatchNorm(channels, eps=config.norm_eps, shift=shift)
    return LengthBatchNorm(channels, length_eps=config.length_eps, eps=config.norm_eps, shift=shift)


class VNLayer(nn.Module):
    r"""VN-Linear, VN-BatchNorm and VN-ReLU in one, which Deng et al. call VNLinearLeakyReLU.

    $$q = \text{VN-BatchNorm}(W V), \quad k = U V, \qquad
      q^{(c)} - (1 - \alpha) \frac{\min(\langle q^{(c)}, k^{(c)} \rangle, 0)}{\|k^{(c)}\|^2 + \text{eps}} \, k^{(c)}$$

    The directions come from V, not from what the norm has made of it: that is what sets it apart from a `VNMLP`.

    Args:
        in_channels, out_channels: the widths.
        config: gives the slope α and the guards.
        share_direction: one direction k for all channels.

    Shape:
        (..., in_channels, S) -> (..., out_channels, S), with ``mask`` (...) True where a token exists.

    Differences from the paper: the guards, see `VNDGCNNConfig`; weights start by fan-in; padding does not count.

    >>> from vnt.models.rivals.network_config import VNDGCNNConfig
    >>> VNLayer(4, 8, VNDGCNNConfig(num_classes=5))(torch.randn(2, 100, 4, 3)).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        config: VectorNetworkConfig,
        *,
        share_direction: bool = False,
    ):
        super().__init__()
        S = config.spatial_dim
        self.feature = VNLinear(in_channels, out_channels, spatial_dim=S)
        self.direction = VNLinear(in_channels, 1 if share_direction else out_channels, spatial_dim=S)
        self.norm = make_batch_norm(out_channels, config)
        self.negative_slope, self.relu_eps = config.negative_slope, config.relu_eps

    def forward(
        self,
        V: Float[Tensor, "*tokens C S"],
        mask: Bool[Tensor, "*tokens"] | None = None,
        whole: Float[Tensor, "*batch C_w S"] | None = None,
    ) -> Float[Tensor, "*tokens C_out S"]:
        """``whole`` is what all tokens of a cloud have in common, as further channels: multiplied once, not N times."""
        if whole is None:
            return self.activate(self.feature(V), self.direction(V), mask)
        C = V.shape[-2]
        q, k = (
            functional.linear(V, layer.weight[:, :C]) + functional.linear(whole, layer.weight[:, C:])[..., None, :, :]
            for layer in (self.feature, self.direction)
        )
        return self.activate(q, k, mask)

    def activate(self, q: Tensor, k: Tensor, mask: Bool[Tensor, "*tokens"] | None) -> Tensor:
        """Norm and VN-ReLU of features q along directions k."""
        return rectify(self.norm(q, mask), k, negative_slope=self.negative_slope, eps=self.relu_eps)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class VNEdgeLayer(nn.Module):
    r"""A `VNLayer` on the edges [V^(j) − V^(i); V^(i)] of a graph.

    $$W [V^{(j)} - V^{(i)}; V^{(i)}] = A V^{(j)} + (B - A) V^{(i)}, \qquad W = [A, B]$$

    so the products are taken once for each point, not for each edge.

    Args:
        in_channels: C, of V; an edge has twice as many.
        out_channels: C'.
        config: gives slope and guards.

    Shape:
        V (..., N, C, S), a graph of K slots -> (..., N, K, C', S)

    Differences from the paper: none but those of `VNLayer`. Points that tie share one place among the neighbours, and
    in the batch statistics each of their edges counts as one.

    >>> from vnt.models.rivals.graph import nearest_graph
    >>> from vnt.models.rivals.network_config import VNDGCNNConfig
    >>> V = torch.randn(2, 100, 1, 3)
    >>> graph = nearest_graph(V[:, :, 0], 4, None, torch.zeros(2))
    >>> VNEdgeLayer(1, 8, VNDGCNNConfig(num_classes=5))(V, graph).shape
    torch.Size([2, 100, 4, 8, 3])
    """

    def __init__(self, in_channels: int, out_channels: int, config: VectorNetworkConfig):
        super().__init__()
        self.layer = VNLayer(2 * in_channels, out_channels, config)

    def forward(self, V: Float[Tensor, "*batch N C S"], graph: Graph) -> Float[Tensor, "*batch N K C_out S"]:
        there, here = torch.cat([self.layer.feature.weight, self.layer.direction.weight]).chunk(2, -1)
        far, near = functional.linear(V, there).mT, functional.linear(V, here - there).mT  # (..., N, S, 2 C_out)
        edges = graph.gather(far.flatten(-2)).unflatten(-1, far.shape[-2:]) + near[..., None, :, :]
        q, k = edges.mT.flatten(-4, -3).chunk(2, -2)
        return self.layer.activate(q, k, graph.counted).unflatten(-3, graph.index.shape[-2:])


class EdgePool(nn.Module):
    """From the edges of each point to the point: the weighted mean, or the `VNMaxPool` of those that exist.

    Args:
        channels: C.
        pooling: "mean" or "max".
        tie_tolerance: of the maximum, as in `VNMaxPool`.

    Shape:
        (..., N, K, C, S), a graph of K slots -> (..., N, C, S)

    Differences from the paper: neighbours that tie share a place, in the maximum too.

    >>> from vnt.models.rivals.graph import nearest_graph
    >>> graph = nearest_graph(torch.randn(2, 100, 3), 4, None, torch.zeros(2))
    >>> EdgePool(8, "max")(torch.randn(2, 100, 4, 8, 3), graph).shape
    torch.Size([2, 100, 8, 3])
    """

    def __init__(self, channels: int, pooling: Literal["mean", "max"], *, tie_tolerance: float | None = None):
        super().__init__()
        self.farthest = VNMaxPool(channels, tie_tolerance=tie_tolerance) if pooling == "max" else None

    def forward(self, edges: Float[Tensor, "*batch N K C S"], graph: Graph) -> Float[Tensor, "*batch N C S"]:
        if self.farthest is None:
            return functional.neighbor_mean(edges, graph.weight.to(edges.dtype))
        return self.farthest(edges, graph.used)


class VNFrame(nn.Module):
    r"""Invariant features of each token and of the cloud, which Deng et al. call VNStdFeature.

    $$\bigl[V^{(n)}; \bar V\bigr] \, T^\top, \qquad T = W_3 \, \text{VNLayer}_2(\text{VNLayer}_1([V^{(n)}; \bar V]))$$

    with $\bar V$ the mean of all tokens and T of three vectors: a frame that turns with the cloud.

    Args:
        channels: C, of V; the layers have C and C/2.
        config: gives slope and guards.

    Shape:
        (..., N, C, S) with ``mask`` (..., N) -> (..., N, 6 C)

    Differences from the paper: none but those of `VNLayer`.

    >>> from vnt.models.rivals.network_config import VNDGCNNConfig
    >>> VNFrame(8, VNDGCNNConfig(num_classes=5))(torch.randn(2, 100, 8, 3)).shape
    torch.Size([2, 100, 48])
    """

    def __init__(self, channels: int, config: VectorNetworkConfig):
        super().__init__()
        self.first = VNLayer(2 * channels, channels, config)
        self.second = VNLayer(channels, channels // 2, config)
        self.last = VNLinear(channels // 2, 3, spatial_dim=config.spatial_dim)

    def forward(
        self, V: Float[Tensor, "*batch N C S"], mask: Bool[Tensor, "*batch N"] | None = None
    ) -> Float[Tensor, "*batch N F"]:
        mean = functional.mean_pool(V, mask)
        frame = self.last(self.second(self.first(V, mask, mean), mask))
        V = torch.cat([V, mean[..., None, :, :].expand_as(V)], -2)
        with full_precision(V):  # V Tᵀ as one product, with channels innermost: `functional.invariant` takes more room
            return (at_least_float32(frame) @ at_least_float32(V).mT).flatten(-2).to(V.dtype)
