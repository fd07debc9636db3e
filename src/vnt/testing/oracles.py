"""Every equation of the paper as loops over numbers: slow, plain, and independent of the fast code.

Arguments are what the functions of `vnt.functional` take (tensors or arrays, one cloud, no leading axes unless said);
results are float64 arrays. A layer that guards a division takes ``eps``, and so does its oracle; eps = 0 is the paper's
formula to the letter. Use them to check a kernel of your own.
"""

from collections.abc import Sequence
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
ArrayLike = Tensor | NDArray | Sequence


def as_array(x: ArrayLike) -> Array:
    """Anything numeric as a float64 array."""
    return np.asarray(x.detach().cpu().double().numpy() if isinstance(x, Tensor) else x, dtype=np.float64)


def linear(V: ArrayLike, W: ArrayLike) -> Array:
    """VN-Linear of one token (C, S): (W V)^(c',s) = Σ_c W^(c',c) V^(c,s)."""
    V, W = as_array(V), as_array(W)
    out = np.zeros((W.shape[0], V.shape[1]))
    for c_out in range(W.shape[0]):
        for s in range(V.shape[1]):
            for c in range(V.shape[0]):
                out[c_out, s] += W[c_out, c] * V[c, s]
    return out


def linear_with_bias(V: ArrayLike, W: ArrayLike, B: ArrayLike, epsilon: float) -> Array:
    """VN-LinearWithBias of one token: W V + ε U with U^(c) = B^(c) / |B^(c)|."""
    out, B = linear(V, W), as_array(B)
    for c in range(out.shape[0]):
        length = sqrt(sum(B[c, s] ** 2 for s in range(B.shape[1])))
        for s in range(out.shape[1]):
            out[c, s] += epsilon * B[c, s] / length
    return out


def relu(V: ArrayLike, W: ArrayLike, U: ArrayLike, *, negative_slope: float = 0.0, eps: float = 0.0) -> Array:
    """VN-ReLU of one token; U may have a single row, shared by all channels."""
    q, k = linear(V, W), linear(V, U)
    out = np.zeros_like(q)
    for c in range(q.shape[0]):
        direction = k[c if k.shape[0] > 1 else 0]
        inner = sum(q[c, s] * direction[s] for s in range(q.shape[1]))
        square = sum(direction[s] ** 2 for s in range(q.shape[1]))
        for s in range(q.shape[1]):
            projected = q[c, s] if inner >= 0 else q[c, s] - inner / (square + eps) * direction[s]
            out[c, s] = negative_slope * q[c, s] + (1 - negative_slope) * projected
    return out


def channel_length(v: Array, eps: float) -> float:
    """√(|v|² + eps)."""
    return sqrt(sum(x * x for x in v) + eps)


def layer_norm(V: ArrayLike, gain: ArrayLike, shift: ArrayLike, *, eps: float = 0.0) -> Array:
    """VN-LayerNorm of one token."""
    V, gain, shift = as_array(V), as_array(gain), as_array(shift)
    C = V.shape[0]
    length = [channel_length(V[c], eps) for c in range(C)]
    mean = sum(length) / C
    variance = sum((x - mean) ** 2 for x in length) / C
    out = np.zeros_like(V)
    for c in range(C):
        normal = (length[c] - mean) / sqrt(variance + eps) * gain[c] + shift[c]
        out[c] = V[c] / length[c] * normal
    return out


def rms_norm(V: ArrayLike, gain: ArrayLike, *, eps: float = 0.0) -> Array:
    """VN-RMSNorm of one token."""
    V, gain = as_array(V), as_array(gain)
    C = V.shape[0]
    mean_square = sum(channel_length(V[c], 0.0) ** 2 for c in range(C)) / C
    return np.stack([gain[c] * V[c] / sqrt(mean_square + eps) for c in range(C)])


def batch_norm(
    tokens: ArrayLike, gain: ArrayLike, shift: ArrayLike, mask: ArrayLike | None = None, *, eps: float = 0.0
) -> Array:
    """VN-BatchNorm of all tokens (T, C, S) of a batch with that batch's own statistics; mask (T) says which exist."""
    tokens, gain, shift = as_array(tokens), as_array(gain), as_array(shift)
    T, C, _ = tokens.shape
    kept = [t for t in range(T) if mask is None or as_array(mask)[t]]
    out = np.zeros_like(tokens)
    for c in range(C):
        mean = sum(channel_length(tokens[t, c], eps) for t in kept) / len(kept)
        variance = sum((channel_length(tokens[t, c], eps) - mean) ** 2 for t in kept) / len(kept)
        for t in range(T):
            length = channel_length(tokens[t, c], eps)
            out[t, c] = tokens[t, c] / length * ((length - mean) / sqrt(variance + eps) * gain[c] + shift[c])
    return out


def frobenius_inner_product(A: ArrayLike, B: ArrayLike) -> float:
    """⟨A, B⟩_F of two tokens (Definition 3)."""
    A, B = as_array(A), as_array(B)
    return sum(A[c, s] * B[c, s] for c in range(A.shape[0]) for s in range(A.shape[1]))


def attention_weights(Q: ArrayLike, K: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """A(Q, K) between M and N tokens (eq. cross_attn), with 1/√(S·C)."""
    Q, K = as_array(Q), as_array(K)
    M, C, S = Q.shape
    kept = [n for n in range(K.shape[0]) if mask is None or as_array(mask)[n]]
    weights = np.zeros((M, K.shape[0]))
    for m in range(M):
        score = {n: frobenius_inner_product(Q[m], K[n]) / sqrt(S * C) for n in kept}
        top = max(score.values())
        total = sum(exp(x - top) for x in score.values())
        for n in kept:
            weights[m, n] = exp(score[n] - top) / total
    return weights


def attention(Q: ArrayLike, K: ArrayLike, Z: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """VN-Attn(Q, K, Z)^(m) = Σₙ A(Q, K)^(m,n) Z^(n) (eq. f_attn)."""
    weights, Z = attention_weights(Q, K, mask), as_array(Z)
    out = np.zeros((weights.shape[0], *Z.shape[1:]))
    for m in range(weights.shape[0]):
        for n in range(Z.shape[0]):
            out[m] += weights[m, n] * Z[n]
    return out


def multihead_attention(
    Q: ArrayLike,
    K: ArrayLike,
    Z: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    W_Z: ArrayLike,
    W_O: ArrayLike,
    num_heads: int,
    mask: ArrayLike | None = None,
) -> Array:
    """VN-MultiHeadAttn (eq. f_MHA); row block h of W_Q, W_K, W_Z belongs to head h."""
    P = len(as_array(W_Z)) // num_heads
    heads = []
    for h in range(num_heads):
        rows = slice(h * P, (h + 1) * P)
        q = np.stack([linear(token, as_array(W_Q)[rows]) for token in as_array(Q)])
        k = np.stack([linear(token, as_array(W_K)[rows]) for token in as_array(K)])
        z = np.stack([linear(token, as_array(W_Z)[rows]) for token in as_array(Z)])
        heads.append(attention(q, k, z, mask))
    joined = np.concatenate(heads, axis=1)
    return np.stack([linear(token, W_O) for token in joined])


def mean_pool(V: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """The mean of the tokens (N, C, S) that exist."""
    V = as_array(V)
    kept = [n for n in range(len(V)) if mask is None or as_array(mask)[n]]
    return sum((V[n] for n in kept), start=np.zeros_like(V[0])) / len(kept)


def max_pool(V: ArrayLike, W: ArrayLike, mask: ArrayLike | None = None, *, tie_tolerance: float = 0.0) -> Array:
    """VN-MaxPool of tokens (N, C, S): per channel the mean of the vectors whose score ⟨v, k⟩ is the largest."""
    V = as_array(V)
    N, C, S = V.shape
    kept = [n for n in range(N) if mask is None or as_array(mask)[n]]
    k = {n: linear(V[n], W) for n in kept}
    out = np.zeros((C, S))
    for c in range(C):
        score = {n: sum(V[n, c, s] * k[n][c, s] for s in range(S)) for n in kept}
        best = max(score.values())
        size = max(np.linalg.norm(V[n, c]) * np.linalg.norm(k[n][c]) for n in kept)
        winners = [n for n in kept if score[n] >= best - tie_tolerance * size]
        for n in winners:
            out[c] += V[n, c] / len(winners)
    return out


def mean_project(V: ArrayLike, W: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """VN-MeanProject(V)^(m) = W^(m) mean(V) for W of (M, C', C)."""
    return np.stack([linear(mean_pool(V, mask), W_m) for W_m in as_array(W)])


def invariant(V: ArrayLike, T: ArrayLike) -> Array:
    """V Tᵀ of one token: (C, S) and (D, S) to (C, D)."""
    V, T = as_array(V), as_array(T)
    return np.array([[sum(v[s] * t[s] for s in range(len(v))) for t in T] for v in V])


def neighbor_weights(
    positions: ArrayLike, num_neighbors: int, mask: ArrayLike | None = None, *, tie_tolerance: float = 0.0
) -> Array:
    """(N, N) weights: 1 for points closer than the k-th neighbour; those tied at its distance share what is left."""
    x = as_array(positions)
    N = len(x)
    kept = [n for n in range(N) if mask is None or as_array(mask)[n]]
    weights = np.zeros((N, N))
    for i in range(N):
        distance = {j: channel_length(x[i] - x[j], 0.0) for j in kept if j != i}
        k = min(num_neighbors, len(distance))
        if k == 0:
            continue
        kth = sorted(distance.values())[k - 1]
        closer = [j for j in distance if distance[j] < kth * (1 - tie_tolerance)]
        tied = [j for j in distance if j not in closer and distance[j] <= kth * (1 + tie_tolerance)]
        for j in closer:
            weights[i, j] = 1.0
        for j in tied:
            weights[i, j] = (k - len(closer)) / len(tied)
    return weights


def fading_weights(positions: ArrayLike, divisor: int, mask: ArrayLike | None = None) -> Array:
    """(N, N) weights of the nearest N/divisor points, at least four, fading towards the first that is one too many."""
    x = as_array(positions)
    N = len(x)
    kept = [n for n in range(N) if mask is None or as_array(mask)[n]]
    k, weights = max(4, len(kept) // divisor), np.zeros((N, N))
    for i in kept:
        squared = sorted((sum((x[i] - x[j]) ** 2), j) for j in kept if j != i)
        for d, j in squared[:k]:
            weights[i, j] = 1.0 if len(squared) <= k else min(1.0, (1 - d / squared[k][0]) / 0.1)
    return weights


def edge_convolution(
    V: ArrayLike, weights: ArrayLike, W: ArrayLike, U: ArrayLike, *, negative_slope: float = 0.0, eps: float = 0.0
) -> Array:
    """The mean over neighbours j, weighted by weights[i, j], of VN-ReLU([V^(j) − V^(i); V^(i)])."""
    V, weights = as_array(V), as_array(weights)
    out = np.zeros((V.shape[0], as_array(W).shape[0], V.shape[2]))
    for i in range(len(V)):
        for j in range(len(V)):
            if weights[i, j] > 0:
                edge = np.concatenate([V[j] - V[i], V[i]])
                message = relu(edge, W, U, negative_slope=negative_slope, eps=eps)
                out[i] += weights[i, j] * message / sum(weights[i])
    return out


def surroundings(points: ArrayLike, scales: tuple[float, ...], mask: ArrayLike | None = None) -> Array:
    """o, M x, M o and M² x of each point (N, 3) for each scale, by loops over pairs; (N, 4 · scales, 3)."""
    x = as_array(points)
    exists = [mask is None or bool(as_array(mask)[n]) for n in range(len(x))]
    out = np.zeros((len(x), 4 * len(scales), 3))
    for i in range(len(x)):
        if not exists[i]:
            continue
        for number, scale in enumerate(scales):
            offset, M = _moments(x, scale, i, exists)
            out[i, 4 * number : 4 * number + 4] = [offset, M @ x[i], M @ offset, M @ M @ x[i]]
    return out


def pair_invariants(points: ArrayLike, scales: tuple[float, ...], i: int, j: int, unit: float) -> Array:
    """Of points i and j of a cloud (N, 3): four numbers, and eight kinds of numbers with one for each scale."""
    x = as_array(points)
    u = (x[j] - x[i]) / unit
    of_scales = []
    for scale in scales:
        (o_i, M_i), (o_j, M_j) = (_moments(x, scale, n) for n in (i, j))
        lengths = [u @ M_i @ u, u @ M_j @ u, sum((M_i @ u) ** 2), sum((M_j @ u) ** 2)]
        of_scales.append([*lengths, np.trace(M_i @ M_j), o_i @ u, o_j @ u, o_i @ o_j])
    kinds = [row[kind] for kind in range(8) for row in of_scales]
    return np.array([u @ u, x[i] @ u, x[i] @ x[i], x[j] @ x[j], *kinds])


def _moments(x: Array, scale: float, i: int, exists: Sequence[bool] = ()) -> tuple[Array, Array]:
    """Offset and spread of what point i sees through one window."""
    w = [exp(-sum((x[i] - x[j]) ** 2) / (2 * scale**2)) * (not exists or exists[j]) for j in range(len(x))]
    mean = sum(w[j] * x[j] for j in range(len(x))) / sum(w)
    C = sum(w[j] * np.outer(x[j] - mean, x[j] - mean) for j in range(len(x))) / sum(w)
    return (mean - x[i]) / scale, C / (np.trace(C) + 0.1 * scale**2)


def scan(points: ArrayLike, masses: ArrayLike, spacing: float, num_radii: int, mask: ArrayLike | None = None) -> Array:
    """The best ball of each radius for each mass (N, d), by loops over balls and points; (d, num_radii)."""
    x, m = as_array(points), as_array(masses)
    kept = [n for n in range(len(x)) if mask is None or bool(as_array(mask)[n])]
    out = np.zeros((m.shape[1], num_radii))
    for i in range(m.shape[1]):
        total = sum(m[n, i] for n in kept)
        for k in range(1, num_radii + 1):
            for center in kept:
                inside = [min(max(0.5 + k - sqrt(sum((x[center] - x[n]) ** 2)) / spacing, 0), 1) for n in kept]
                p = sum(w * m[n, i] for w, n in zip(inside, kept, strict=True)) / total if total > 0 else 0
                p, q = (min(max(share, 1e-6), 1 - 1e-6) for share in (p, sum(inside) / len(kept)))
                if p > q:
                    out[i, k - 1] = max(out[i, k - 1], p * log(p / q) + (1 - p) * log((1 - p) / (1 - q)))
    return out


def cross_product(A: ArrayLike, B: ArrayLike) -> Array:
    """A^(c) × B^(c) in the first three coordinates of one token, zero in the others."""
    A, B = as_array(A), as_array(B)
    out = np.zeros_like(A)
    for c in range(len(A)):
        out[c, 0] = A[c, 1] * B[c, 2] - A[c, 2] * B[c, 1]
        out[c, 1] = A[c, 2] * B[c, 0] - A[c, 0] * B[c, 2]
        out[c, 2] = A[c, 0] * B[c, 1] - A[c, 1] * B[c, 0]
    return out


def gate(V: ArrayLike, gain: ArrayLike) -> Array:
    """One token with channel c multiplied by gain[c]."""
    V, gain = as_array(V), as_array(gain)
    return np.stack([gain[c] * V[c] for c in range(len(V))])


def center(points: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """The mean of the points (N, S) that exist."""
    points = as_array(points)
    kept = [n for n in range(len(points)) if mask is None or as_array(mask)[n]]
    return np.array([sum(points[n, s] for n in kept) / len(kept) for s in range(points.shape[1])])


def geometric_median(
    points: ArrayLike, mask: ArrayLike | None = None, *, num_iterations: int = 32, smoothing: float = 1e-3
) -> Array:
    """Weiszfeld's iteration from the mean: weights 1/√(|x − c|² + δ²), δ relative to the RMS radius."""
    points, c = as_array(points), center(points, mask)
    kept = [n for n in range(len(points)) if mask is None or as_array(mask)[n]]
    delta = smoothing * sqrt(sum(channel_length(points[n] - c, 0.0) ** 2 for n in kept) / len(kept))
    for _ in range(num_iterations if delta > 0 else 0):  # all points in one place: that place
        weight = {n: 1 / channel_length(points[n] - c, delta**2) for n in kept}
        c = sum((weight[n] * points[n] for n in kept), start=np.zeros_like(c)) / sum(weight.values())
    return c
