"""VN-PointNet and VN-DGCNN of Deng et al.'s program, from their equations, under the names that its weights have."""

import torch
import torch.nn.functional as F

K, CLASSES = 7, 5


def thirds(*published, width=0.25):
    return [int(channels * width) // 3 for channels in published]


def layer(name, in_channels, out_channels, shared=False):
    """Shapes of a VNLinearLeakyReLU."""
    shapes = {"map_to_feat.weight": (out_channels, in_channels), "map_to_dir.weight": (out_channels, in_channels)}
    if shared:
        shapes["map_to_dir.weight"] = (1, in_channels)
    return {f"{name}.{key}": shape for key, shape in shapes.items()} | norm(f"{name}.batchnorm.bn", out_channels)


def norm(name, channels):
    keys = ("weight", "bias", "running_mean", "running_var")
    return {f"{name}.{key}": (channels,) for key in keys} | {f"{name}.num_batches_tracked": ()}


def dense(name, in_features, out_features):
    return {f"{name}.weight": (out_features, in_features), f"{name}.bias": (out_features,)}


def frame(name, channels):
    return (
        layer(f"{name}.vn1", 2 * channels, channels)
        | layer(f"{name}.vn2", channels, 2 * channels // 4)
        | {f"{name}.vn_lin.weight": (3, 2 * channels // 4)}
    )


def shapes_of(kind, pooling, width=0.25, classes=CLASSES):
    narrow, middle, upper, last = thirds(64, 128, 256, 1024, width=width)
    hidden, lower = int(512 * width), int(256 * width)
    if kind == "vn_dgcnn_cls":
        shapes = layer("conv1", 2, narrow) | layer("conv2", 2 * narrow, narrow) | layer("conv3", 2 * narrow, middle)
        shapes |= layer("conv4", 2 * middle, upper) | layer("conv5", 2 * narrow + middle + upper, last, shared=True)
        shapes |= frame("std_feature", last)
        shapes |= (
            dense("linear1", 12 * last, hidden) | dense("linear2", hidden, lower) | dense("linear3", lower, classes)
        )
        pools = {f"pool{i + 1}": channels for i, channels in enumerate((narrow, narrow, middle, upper))}
    else:
        (half,) = thirds(512, width=width)
        shapes = layer("feat.conv_pos", 3, narrow) | layer("feat.conv1", narrow, narrow)
        shapes |= layer("feat.conv2", 2 * narrow, middle) | {"feat.conv3.map_to_feat.weight": (last, middle)}
        shapes |= norm("feat.bn3.bn", last) | frame("feat.std_feature", last)
        shapes |= layer("feat.fstn.conv1", narrow, narrow) | layer("feat.fstn.conv2", narrow, middle)
        shapes |= layer("feat.fstn.conv3", middle, last) | layer("feat.fstn.fc1", last, half)
        shapes |= layer("feat.fstn.fc2", half, upper) | {"feat.fstn.fc3.map_to_feat.weight": (narrow, upper)}
        shapes |= dense("fc1", 6 * last, hidden) | dense("fc2", hidden, lower) | dense("fc3", lower, classes)
        pools = {"feat.pool": narrow, "feat.fstn.pool": last}
    shapes |= norm("bn1", hidden) | norm("bn2", lower)
    if pooling == "max":
        shapes |= {f"{name}.map_to_dir.weight": (channels, channels) for name, channels in pools.items()}
    return shapes


def state_of(kind, pooling, dtype=torch.float64, **sizes):
    """Random weights and statistics, as training might leave them."""
    torch.manual_seed(0)
    state = {}
    for name, shape in shapes_of(kind, pooling, **sizes).items():
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(100)
        elif name.endswith("running_var") or (len(shape) == 1 and name.endswith("weight")):
            state[name] = 0.5 + torch.rand(shape, dtype=dtype)
        else:
            state[name] = torch.randn(shape, dtype=dtype) / (shape[1] ** 0.5 if len(shape) == 2 else 1)
    return state


class Deng:
    """The forward pass of the program in evaluation mode, on clouds (B, N, 3), with vectors as (..., C, 3)."""

    def __init__(self, state, num_neighbors=K):
        self.s, self.k = state, num_neighbors

    def __call__(self, kind, points):
        return self.dgcnn(points) if kind == "vn_dgcnn_cls" else self.pointnet(points)

    def scalar_norm(self, name, x):
        mean, var, gain, shift = (self.s[f"{name}.{key}"] for key in ("running_mean", "running_var", "weight", "bias"))
        return (x - mean) / torch.sqrt(var + 1e-5) * gain + shift

    def vector_norm(self, name, v):
        length = v.norm(dim=-1) + 1e-6
        return v / length[..., None] * self.scalar_norm(name, length)[..., None]

    def layer(self, name, v, slope):
        p = self.vector_norm(f"{name}.batchnorm.bn", self.s[f"{name}.map_to_feat.weight"] @ v)
        d = self.s[f"{name}.map_to_dir.weight"] @ v
        along = (p * d).sum(-1, keepdim=True)
        rectified = torch.where(along >= 0, p, p - along / ((d * d).sum(-1, keepdim=True) + 1e-6) * d)
        return slope * p + (1 - slope) * rectified

    def pool(self, name, v, axis):
        """Over an axis of tokens: the mean, or for each channel the vector farthest along its direction."""
        if f"{name}.map_to_dir.weight" not in self.s:
            return v.mean(axis)
        best = (v * (self.s[f"{name}.map_to_dir.weight"] @ v)).sum(-1).argmax(axis + 1, keepdim=True)
        return v.gather(axis, best[..., None].expand(*best.shape, 3)).squeeze(axis)

    def neighbors(self, v):
        """Of each point its k nearest, itself among them, by the distance of all channels: (B, N, k, C, 3)."""
        x = v.flatten(2)
        squares = (x * x).sum(-1)
        distance = squares[:, :, None] + squares[:, None] - 2 * x @ x.mT
        index = distance.topk(self.k, largest=False).indices
        return v[torch.arange(len(v))[:, None, None], index], v[:, :, None].expand(-1, -1, self.k, -1, -1)

    def invariants(self, name, v, slope):
        v = torch.cat([v, v.mean(1, keepdim=True).expand_as(v)], -2)
        z = self.layer(f"{name}.vn2", self.layer(f"{name}.vn1", v, slope), slope)
        z = self.s[f"{name}.vn_lin.weight"] @ z
        return torch.einsum("bnci,bnki->bnck", v, z).flatten(2)

    def linear(self, name, x):
        return x @ self.s[f"{name}.weight"].T + self.s[f"{name}.bias"]

    def dgcnn(self, points):
        v, levels = points[:, :, None], []
        for number in range(1, 5):
            far, near = self.neighbors(v)
            v = self.pool(f"pool{number}", self.layer(f"conv{number}", torch.cat([far - near, near], -2), 0.2), -3)
            levels.append(v)
        x = self.invariants("std_feature", self.layer("conv5", torch.cat(levels, -2), 0.2), 0.2)
        x = torch.cat([x.amax(1), x.mean(1)], -1)
        x = F.leaky_relu(self.scalar_norm("bn1", self.linear("linear1", x)), 0.2)
        return self.linear("linear3", F.leaky_relu(self.scalar_norm("bn2", self.linear("linear2", x)), 0.2))

    def pointnet(self, points):
        far, near = self.neighbors(points[:, :, None])
        edges = torch.cat([far - near, near, torch.linalg.cross(far, near)], -2)
        v = self.layer("feat.conv1", self.pool("feat.pool", self.layer("feat.conv_pos", edges, 0.0), -3), 0.0)
        whole = v
        for name in ("conv1", "conv2", "conv3"):
            whole = self.layer(f"feat.fstn.{name}", whole, 0.0)
        whole = self.pool("feat.fstn.pool", whole, -3)
        for name in ("fc1", "fc2"):
            whole = self.layer(f"feat.fstn.{name}", whole, 0.0)
        whole = self.s["feat.fstn.fc3.map_to_feat.weight"] @ whole
        v = self.layer("feat.conv2", torch.cat([v, whole[:, None].expand_as(v)], -2), 0.0)
        v = self.vector_norm("feat.bn3.bn", self.s["feat.conv3.map_to_feat.weight"] @ v)
        x = self.invariants("feat.std_feature", v, 0.0).amax(1)
        x = self.scalar_norm("bn1", self.linear("fc1", x)).relu()
        x = self.scalar_norm("bn2", self.linear("fc2", x)).relu()
        return self.linear("fc3", x).log_softmax(-1)
