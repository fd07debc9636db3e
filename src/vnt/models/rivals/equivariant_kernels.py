r"""What Tensor Field Networks and SE(3)-Transformers share: steerable kernels on neighbours, norms and gates.

A point has scalars (type 0) and vectors (type 1). A kernel turns a neighbour's features into a message by
$$W^{\ell k}(x) = \sum_J \varphi_J^{\ell k}(\|x\|) \sum_m Y_{Jm}(x / \|x\|)\, Q_{Jm}^{\ell k}, \qquad
  |\ell - k| \le J \le \ell + k,$$
learned radial functions times spherical harmonics times Clebsch-Gordan coefficients, the last two by e3nn. Features are
rows of numbers in e3nn's order: scalars, then vectors one after the other, each as x, y, z. (e3nn's harmonics of degree
one are x, y, z too: its polar axis is y, so that the textbook's order y, z, x comes out as ours.)

All types are called even here: these networks know SE(3), not reflections, and their kernels contain cross products.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, fx, nn

from vnt.files import require_library
from vnt.geometry import nearest_neighbors

EPS = 1e-6
"""Added to squared lengths of order one: those well below it count as none, and have a gradient all the same."""


def e3nn_o3() -> Any:
    """e3nn's part on O(3), or a word on how to install it."""
    require_library("e3nn", "a steerable network", "rivals")
    return require_library("e3nn.o3", "a steerable network", "rivals")


class Fiber(NamedTuple):
    """How many features of each type a point has."""

    scalars: int
    vectors: int

    @property
    def irreps(self) -> str:
        """In e3nn's words."""
        return " + ".join(f"{count}x{degree}e" for degree, count in enumerate(self) if count > 0)

    @property
    def size(self) -> int:
        """Numbers in a row of features."""
        return self.scalars + 3 * self.vectors

    def split(self, x: Float[Tensor, "*points D"]) -> tuple[Float[Tensor, "*points F"], Float[Tensor, "*points V 3"]]:
        """The scalars and the vectors of a row."""
        return x[..., : self.scalars], x[..., self.scalars :].unflatten(-1, (self.vectors, 3))


@dataclass(frozen=True)
class Edges:
    """The neighbours of each point, the same for all layers.

    Attributes:
        index: (..., N, K), which points.
        weight: (..., N, K), how much each counts: 1, less where it is tied with others for the last place, 0 for none.
        harmonics: (..., N, K, F), spherical harmonics of the direction to it, degrees 0 to the largest.
        distance: (..., N, K, 2), two functions of the distance.
    """

    index: Int[Tensor, "*batch N K"]
    weight: Float[Tensor, "*batch N K"]
    harmonics: Float[Tensor, "*batch N K F"]
    distance: Float[Tensor, "*batch N K 2"]

    def gather(self, x: Float[Tensor, "*batch N D"]) -> Float[Tensor, "*batch N K D"]:
        """What each point's neighbours have."""
        return gather_neighbors(x, self.index)


def gather_neighbors(x: Float[Tensor, "*batch N D"], index: Int[Tensor, "*batch N K"]) -> Float[Tensor, "*batch N K D"]:
    """x^(j) for each neighbour j of i, by one look-up in the rows of all clouds."""
    N = x.shape[-2]
    offset = N * torch.arange(index[..., 0, 0].numel(), device=x.device).view(*index.shape[:-2], 1, 1)
    return torch.nn.functional.embedding(index + offset, x.reshape(-1, x.shape[-1]))


def find_edges(
    positions: Float[Tensor, "*batch N 3"],
    num_neighbors: int,
    mask: Bool[Tensor, "*batch N"] | None = None,
    *,
    max_degree: int = 1,
    resolution: Float[Tensor, "*batch"] | None = None,
    eps: float = EPS,
) -> Edges:
    """The nearest neighbours of each point and what kernels want to know of them.

    Distances d are in units of the cloud's own spacing, the root mean square distance of a point from its neighbours,
    so that a cloud of more points looks much like one of fewer. The direction is x / √(d² + eps), and √(d² + eps) what
    is told of the distance: a copy of a point lies in no direction, and nothing jumps as two points meet.
    """
    index, weight = nearest_neighbors(positions, num_neighbors, mask, resolution=resolution)
    weight = weight.to(positions.dtype)
    difference = gather_neighbors(positions, index) - positions[..., None, :]
    counted = (weight if mask is None else weight * mask[..., None])[..., None]
    squares = (counted * difference.square()).sum((-3, -2, -1), keepdim=True)
    total = counted.sum((-3, -2, -1), keepdim=True)
    difference = difference / (squares / torch.where(total > 0, total, 1) + eps).sqrt()
    distance = (difference.square().sum(-1, keepdim=True) + eps).sqrt()
    degrees = " + ".join(f"1x{degree}e" for degree in range(max_degree + 1))
    harmonics = e3nn_o3().SphericalHarmonics(degrees, normalize=False, normalization="component", irreps_in="1e")
    told = torch.cat([distance.log(), distance / (1 + distance)], -1)
    return Edges(index, weight, harmonics(difference / distance), told)


class SteerableKernel(nn.Module):
    """Messages from neighbours: their features times a kernel of the direction and distance to them.

    Args:
        inputs, outputs: how many features of each type come in and go out.
        radial_channels: width of the network that makes the radial functions.
        max_degree: largest degree of the harmonics.
        radial: "channel" has one radial function for each path and channel, followed by linear self-interaction that
            mixes channels; "pair" one for each path and pair of channels.

    Shape:
        rows of the neighbours (..., N, K, D_in), edges -> (..., N, K, D_out). That is `mixed` of `messages`; both are
        linear, so that sums over neighbours and inner products can be taken of the messages before they are mixed.

    Differences from the paper: Thomas et al. have radial functions of Gaussians of the distance, Fuchs et al. of the
    distance itself; here of its logarithm and of d / (1 + d), in units of the cloud's spacing, with LayerNorm between
    as the latter have.

    >>> kernel = SteerableKernel(Fiber(4, 2), Fiber(8, 4))
    >>> edges = find_edges(torch.randn(2, 20, 3), 5)
    >>> kernel(edges.gather(torch.randn(2, 20, 10)), edges).shape
    torch.Size([2, 20, 5, 20])
    """

    def __init__(
        self,
        inputs: Fiber,
        outputs: Fiber,
        *,
        radial_channels: int = 32,
        max_degree: int = 1,
        radial: Literal["channel", "pair"] = "channel",
    ):
        super().__init__()
        o3 = e3nn_o3()
        harmonics = o3.Irreps.spherical_harmonics(max_degree, p=1)
        options = {"internal_weights": False, "shared_weights": False}
        if radial == "pair":
            self.product = o3.FullyConnectedTensorProduct(inputs.irreps, harmonics, outputs.irreps, **options)
            self.mix = None
        else:
            between, paths = _paths(o3.Irreps(inputs.irreps), harmonics, o3.Irreps(outputs.irreps))
            self.product = o3.TensorProduct(inputs.irreps, harmonics, between, paths, **options)
            # Paths to the same type lie side by side, so that one linear map mixes all of them.
            self.mix = SelfInteraction(Fiber(*(between.count(f"{degree}e") for degree in (0, 1))), outputs)
        self.radial = nn.Sequential(
            nn.Linear(2, radial_channels),
            nn.LayerNorm(radial_channels),
            nn.SiLU(),
            nn.Linear(radial_channels, radial_channels),
            nn.LayerNorm(radial_channels),
            nn.SiLU(),
            last := nn.Linear(radial_channels, self.product.weight_numel),
        )
        nn.init.normal_(last.weight, std=radial_channels**-0.5)
        leave_out_unused(self.product)
        keep_constants_out_of_files(self.product)

    def forward(self, neighbors: Float[Tensor, "*batch N K D"], edges: Edges) -> Float[Tensor, "*batch N K D_out"]:
        return self.mixed(self.messages(neighbors, edges))

    def messages(self, neighbors: Float[Tensor, "*batch N K D"], edges: Edges) -> Float[Tensor, "*batch N K P"]:
        """Before the channels are mixed."""
        return self.product(neighbors, edges.harmonics.to(neighbors.dtype), self.radial(edges.distance))

    def mixed(self, messages: Float[Tensor, "*points P"]) -> Float[Tensor, "*points D_out"]:
        """Features from messages, or from sums of them."""
        return messages if self.mix is None else self.mix(messages)

    def unmixed(self, x: Float[Tensor, "*points D_out"]) -> Float[Tensor, "*points P"]:
        """The transpose: ⟨x, mixed(m)⟩ = ⟨unmixed(x), m⟩."""
        return x if self.mix is None else self.mix.transpose(x)

    def _apply(self, fn: Any, recurse: bool = True) -> "SteerableKernel":
        """Clebsch-Gordan coefficients anew in each precision: those of float32 are not exact in float64."""
        super()._apply(fn, recurse)
        o3 = e3nn_o3()
        for name, buffer in self.product.named_buffers():
            kind, _, degrees = name.rpartition(".")[2].partition("j_")
            if kind == "_w3":
                buffer.copy_(o3.wigner_3j(*map(int, degrees.split("_")), dtype=torch.float64))
        return self


def _paths(inputs: Any, harmonics: Any, outputs: Any) -> tuple[Any, list[tuple]]:
    """Every way from a type of feature, by a degree, to a wanted type, channel by channel; sorted by that type."""
    found = [
        (product, mul, i, j)
        for i, (mul, feature) in enumerate(inputs)
        for j, (_, degree) in enumerate(harmonics)
        for product in feature * degree
        if product in outputs
    ]
    found.sort(key=lambda path: path[0].l)
    between = e3nn_o3().Irreps([(mul, product) for product, mul, _, _ in found])
    return between, [(i, j, n, "uvu", True) for n, (_, _, i, j) in enumerate(found)]


def leave_out_unused(product: nn.Module) -> None:
    """Take out of e3nn's generated code the products that nothing uses: it leaves that to TorchScript."""
    for part in product.modules():
        if isinstance(part, fx.GraphModule):
            part.graph.eliminate_dead_code()
            part.recompile()


def keep_constants_out_of_files(module: nn.Module) -> None:
    """Make e3nn's buffers, which are constants of its own, no part of the state that is saved and loaded."""
    module.register_state_dict_post_hook(_take_constants_out)
    module.register_load_state_dict_pre_hook(_put_constants_in)


def _take_constants_out(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    for name, _buffer in module.named_buffers():
        state.pop(prefix + name, None)


def _put_constants_in(module: nn.Module, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    state.update({prefix + name: buffer for name, buffer in module.named_buffers()})


class SelfInteraction(nn.Module):
    """A linear map that mixes channels of the same type, by e3nn; VN-Linear, where there are only vectors.

    Weights are of VN-Linear's scale, N(0, 1/fan-in). e3nn's own are of order one and divided by √fan-in when they are
    used, which makes an optimizer that moves each by the learning rate that much slower.

    Shape:
        (..., D_in) -> (..., D_out)

    Differences from the paper: none.
    """

    def __init__(self, inputs: Fiber, outputs: Fiber, *, bias: bool = False):
        super().__init__()
        self.outputs = outputs
        options = {"internal_weights": False, "shared_weights": True, "biases": bias}
        self.linear = e3nn_o3().Linear(inputs.irreps, outputs.irreps, **options)
        self.paths = [path for path in self.linear.instructions if path.i_in >= 0]
        self.weights = nn.ParameterList(torch.randn(path.path_shape) * path.path_weight for path in self.paths)
        self.bias = nn.Parameter(torch.zeros(self.linear.bias_numel)) if bias else None
        keep_constants_out_of_files(self.linear)

    def forward(self, x: Float[Tensor, "*points D"]) -> Float[Tensor, "*points D_out"]:
        weights = [W.flatten() / path.path_weight for W, path in zip(self.weights, self.paths, strict=True)]
        return self.linear(x, torch.cat(weights), self.bias)

    def transpose(self, x: Float[Tensor, "*points D_out"]) -> Float[Tensor, "*points D"]:
        """⟨x, forward(y)⟩ = ⟨transpose(x), y⟩, but for the bias."""
        parts = {}
        for W, path in zip(self.weights, self.paths, strict=True):
            rows = self.outputs.split(x)[self.linear.irreps_out[path.i_out].ir.l]
            rows = rows[..., None] if rows.ndim == x.ndim else rows
            parts[path.i_in] = (W @ rows).flatten(-2)
        return torch.cat([parts[i] for i in sorted(parts)], -1)
