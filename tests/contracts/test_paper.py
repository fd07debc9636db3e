"""One named test for each Definition, Lemma and Proposition of the paper, in its own words and numbering."""

import math

import pytest
import torch
from torch import Tensor

import vnt
from vnt import functional
from vnt.geometry import random_rotation, rotate, rotation_about
from vnt.testing import equivariance_error, oracles, vector

F64 = torch.float64
N, C, C_OUT = 10, 16, 24

pytestmark = pytest.mark.usefixtures("no_gradients")


def cloud(*size: int) -> Tensor:
    return torch.randn(*size, dtype=F64)


def violation(f, X: Tensor, R: Tensor) -> Tensor:
    """Δ(f, X, R) = ‖f(XR) − f(X)R‖_F (section 7)."""
    return (f(rotate(X, R)) - rotate(f(X), R)).norm()


def test_definition_1_rotation_invariance():
    """f(XR) = f(X) for every R in SO(3): the classifier."""
    model = vnt.VNTransformerClassifier(vnt.ClassifierConfig(num_classes=7)).to(F64).eval()
    X = cloud(N, 3)
    for R in random_rotation(20):
        torch.testing.assert_close(model(rotate(X, R)), model(X), rtol=0, atol=1e-11)


def test_definition_2_rotation_equivariance():
    """f(XR) = f(X)R for every R in SO(3): the forecaster."""
    model = vnt.VNTransformerForecaster(vnt.ForecasterConfig()).to(F64).eval()
    X = cloud(N, 3)
    for R in random_rotation(20):
        torch.testing.assert_close(model(rotate(X, R)), rotate(model(X), R), rtol=0, atol=1e-11)


def test_definition_3_frobenius_inner_product():
    """⟨A, B⟩_F = Σ_c Σ_s A^(c,s) B^(c,s) = Σ_c A^(c) B^(c)ᵀ = tr(A Bᵀ)."""
    A, B = cloud(C, 3), cloud(C, 3)
    expected = sum(float(A[c] @ B[c]) for c in range(C))
    assert math.isclose(float(functional.frobenius_inner_product(A, B)), expected, rel_tol=1e-13)
    assert math.isclose(float(torch.trace(A @ B.mT)), expected, rel_tol=1e-13)
    assert math.isclose(oracles.frobenius_inner_product(A, B), expected, rel_tol=1e-13)


@pytest.mark.parametrize("fusion", ["early", "late"])
def test_definition_4_partial_rotation_invariance(fusion):
    """f(XR, A) = f(X, A): attributes stay where they are, and the logits too."""
    config = vnt.ClassifierConfig(num_classes=7, num_attributes=2, fusion=fusion)
    model = vnt.VNTransformerClassifier(config).to(F64).eval()
    X, A = cloud(4, N, 3), cloud(4, N, 2)
    assert equivariance_error(model, [X, A], ["point", "scalar"], "scalar") < 1e-11


def test_definition_5_partial_rotation_equivariance():
    """f(XR, A)^(:,:3) = f(X, A)^(:,:3) R, and the attribute columns stay."""
    config = vnt.ForecasterConfig(num_attributes=2, fusion="early", predict_attributes=True)
    model = vnt.VNTransformerForecaster(config).to(F64).eval()
    X, A, R = cloud(N, 3), cloud(N, 2), random_rotation()
    turned, still = model(rotate(X, R), A), model(X, A)
    assert still.shape == (80, 5)
    torch.testing.assert_close(turned[:, :3], rotate(still[:, :3], R), rtol=0, atol=1e-11)
    torch.testing.assert_close(turned[:, 3:], still[:, 3:], rtol=0, atol=1e-11)


@pytest.mark.parametrize(("d1", "d2"), [(3, 1), (3, 4), (2, 3)])
def test_lemma_1_two_rotations_side_by_side_are_a_rotation(d1, d2):
    """The block-diagonal matrix of R₁ ∈ SO(d₁) and R₂ ∈ SO(d₂) is in SO(d₁ + d₂)."""

    def special_orthogonal(d: int) -> Tensor:
        Q = torch.linalg.qr(cloud(d, d)).Q
        Q[0] *= torch.det(Q).sign()
        return Q

    R = torch.block_diag(special_orthogonal(d1), special_orthogonal(d2))
    torch.testing.assert_close(R @ R.mT, torch.eye(d1 + d2, dtype=F64), rtol=0, atol=1e-14)
    assert math.isclose(float(torch.det(R)), 1.0, rel_tol=1e-12)


def test_lemma_1_is_how_we_rotate_tokens_with_attributes():
    """V times the block-diagonal matrix of R and I is `rotate`: the first three turn, the rest stay."""
    V, R = cloud(N, C, 5), random_rotation()
    torch.testing.assert_close(rotate(V, R), V @ torch.block_diag(R, torch.eye(2, dtype=F64)), rtol=0, atol=1e-14)


def test_lemma_2_a_violation_passes_through_a_layer():
    """g∘f is (L_g ε_f + ε_g)-approximately equivariant."""
    f = vnt.VNLinear(C, C_OUT, bias_epsilon=0.3).to(F64)
    g = vnt.VNLinear(C_OUT, C, bias_epsilon=0.1).to(F64)
    L_g = float(torch.linalg.matrix_norm(g.weight, 2))
    bound = L_g * 2 * 0.3 * math.sqrt(C_OUT) + 2 * 0.1 * math.sqrt(C)
    measured = max(float(violation(lambda X: g(f(X)), cloud(C, 3), R)) for R in random_rotation(200))
    assert 0 < measured <= bound


def test_proposition_1_frobenius_inner_product_is_invariant():
    A, B = cloud(100, C, 3), cloud(100, C, 3)
    R = random_rotation(100)
    expected = functional.frobenius_inner_product(A, B)
    torch.testing.assert_close(
        functional.frobenius_inner_product(rotate(A, R), rotate(B, R)), expected, rtol=0, atol=1e-12
    )


def test_proposition_2_attention_is_equivariant():
    """VN-Attn(QR, KR, ZR) = VN-Attn(Q, K, Z)R, with A(QR, KR) = A(Q, K); also with several heads."""
    Q, K, Z = cloud(5, 4, C, 3), cloud(5, N, C, 3), cloud(5, N, 8, 3)
    kinds = ["vector"] * 3
    assert equivariance_error(functional.attention, [Q, K, Z], kinds, "vector") < 1e-13
    assert equivariance_error(functional.attention_weights, [Q, K], kinds[:2], "scalar") < 1e-13
    heads = vnt.VNMultiheadAttention(C, 4, value_channels=8).to(F64)
    assert equivariance_error(heads, [Q, K, Z], kinds, "vector") < 1e-13


def test_proposition_3_bias_costs_at_most_two_epsilon_root_c():
    """Δ ≤ 2ε√C', for every input and rotation."""
    f = vnt.VNLinear(C, C_OUT, bias_epsilon=1e-2).to(F64)
    measured = [float(violation(f, cloud(C, 3), R)) for R in random_rotation(200)]
    assert 0 < max(measured) <= 2 * 1e-2 * math.sqrt(C_OUT)


def test_proposition_3_is_tight_at_minus_identity_which_is_no_rotation():
    """At R = −I the bound is attained. But det(−I) = −1: over SO(3) the worst case is 2ε√(C' − λ_min(UᵀU))."""
    epsilon = 1e-2
    f = vnt.VNLinear(C, C_OUT, bias_epsilon=epsilon).to(F64)
    minus = -torch.eye(3, dtype=F64)
    assert math.isclose(float(violation(f, cloud(C, 3), minus)), 2 * epsilon * math.sqrt(C_OUT), rel_tol=1e-9)
    assert f.bias_direction is not None
    U = functional.unit_rows(f.bias_direction.detach())
    eigenvalues, axes = torch.linalg.eigh(U.mT @ U)
    exact = 2 * epsilon * math.sqrt(C_OUT - float(eigenvalues[0]))
    worst = rotation_about(axes[:, 0].tolist(), torch.tensor(math.pi, dtype=F64))
    X = cloud(C, 3)
    assert math.isclose(float(violation(f, X, worst)), exact, rel_tol=1e-9)
    assert exact < 0.95 * 2 * epsilon * math.sqrt(C_OUT)
    assert all(float(violation(f, X, R)) <= exact * (1 + 1e-9) for R in random_rotation(500))


def test_proposition_3_is_tight_on_rotations_where_the_biases_lie_in_a_plane():
    """Rank U ≤ 2: a half-turn about the plane's normal negates every bias, and 2ε√C' is attained."""
    f = vnt.VNLinear(C, C_OUT, bias_epsilon=1e-2).to(F64)
    assert f.bias_direction is not None
    with torch.no_grad():
        f.bias_direction[:, 2] = 0
    half_turn = rotation_about((0.0, 0.0, 1.0), torch.tensor(math.pi, dtype=F64))
    assert math.isclose(float(violation(f, cloud(C, 3), half_turn)), 2e-2 * math.sqrt(C_OUT), rel_tol=1e-9)


def test_proposition_4_violations_through_depth():
    """ε_{1…K} = L_K(⋯(L_2 ε_1 + ε_2)⋯) + ε_K bounds a composition of K layers."""
    sizes, epsilons = [8, 16, 12, 8, 4], [1e-3, 1e-2, 1e-3, 1e-1]
    layers = [
        vnt.VNLinear(a, b, bias_epsilon=epsilon).to(F64)
        for a, b, epsilon in zip(sizes, sizes[1:], epsilons, strict=False)
    ]
    bound = 0.0
    for layer in layers:
        lipschitz = float(torch.linalg.matrix_norm(layer.weight, 2))
        bound = lipschitz * bound + 2 * layer.bias_epsilon * math.sqrt(layer.out_channels)
    network = torch.nn.Sequential(*layers)
    measured = max(float(violation(network, cloud(8, 3), R)) for R in random_rotation(200))
    assert 0 < measured <= bound


@pytest.mark.parametrize("latents", [0, 4])
@pytest.mark.parametrize("anchor", [True, False])
def test_proposition_5_early_fusion_classifier_is_partially_invariant(latents, anchor):
    config = vnt.ClassifierConfig(
        num_classes=7, num_attributes=3, fusion="early", num_latents=latents, attribute_anchor=anchor
    )
    model = vnt.VNTransformerClassifier(config).to(F64).eval()
    X, A = cloud(4, N, 3), cloud(4, N, 3)
    assert equivariance_error(model, [X, A], ["point", "scalar"], "scalar") < 1e-11


@pytest.mark.parametrize("latents", [0, 4])
@pytest.mark.parametrize("anchor", [True, False])
def test_proposition_6_early_fusion_forecaster_is_partially_equivariant(latents, anchor):
    config = vnt.ForecasterConfig(
        num_attributes=3, fusion="early", num_latents=latents, attribute_anchor=anchor, predict_attributes=True
    )
    model = vnt.VNTransformerForecaster(config).to(F64).eval()
    X, A = cloud(4, N, 3), cloud(4, N, 3)
    assert equivariance_error(model, [X, A], ["point", "scalar"], "concat") < 1e-11


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("S", [2, 3, 5])
def test_proposition_7_linear_layers_are_sigma_w_lipschitz(epsilon, S):
    """‖f(X₁) − f(X₂)‖ ≤ σ(W) ‖X₁ − X₂‖, and the top singular vector attains it."""
    f = vnt.VNLinear(C, C_OUT, bias_epsilon=epsilon, spatial_dim=S).to(F64)
    _, sigma, right = torch.linalg.svd(f.weight.detach())
    X1, X2 = cloud(200, C, S), cloud(200, C, S)
    ratio = (f(X1) - f(X2)).flatten(1).norm(dim=1) / (X1 - X2).flatten(1).norm(dim=1)
    assert float(ratio.max()) <= float(sigma[0])
    step = right[0][:, None] * torch.randn(1, S, dtype=F64)
    attained = (f(X1[0] + step) - f(X1[0])).norm() / step.norm()
    assert math.isclose(float(attained), float(sigma[0]), rel_tol=1e-9)


def test_proposition_8_layer_norm_is_equivariant():
    assert equivariance_error(vnt.VNLayerNorm(C).to(F64), [cloud(8, N, C, 3)], ["vector"], "vector") < 1e-14


def test_proposition_9_linear_is_equivariant():
    assert equivariance_error(vnt.VNLinear(C, C_OUT).to(F64), [cloud(8, N, C, 3)], ["vector"], "vector") < 1e-14


@pytest.mark.parametrize("options", [{}, {"negative_slope": 0.2}, {"share_direction": True}], ids=str)
def test_proposition_10_relu_is_equivariant(options):
    assert equivariance_error(vnt.VNReLU(C, **options).to(F64), [cloud(8, N, C, 3)], ["vector"], "vector") < 1e-14


def test_proposition_11_invariant_is_invariant():
    """C×3 out, not 3, and none of it moves."""
    layer = vnt.VNInvariant(C).to(F64)
    V = cloud(8, N, C, 3)
    assert layer(V).shape == (8, N, C, 3)
    assert equivariance_error(layer, [V], ["vector"], "scalar") < 1e-13


@pytest.mark.parametrize(("dtype", "gate"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_twelve_blocks(dtype, gate):
    """An encoder of 12 blocks, 64 channels, 8 heads, 256 points, with VN-RMSNorm."""
    encoder = vnt.VNEncoder(64, 8, depth=12).to(dtype)
    V = torch.randn(4, 256, 64, 3, dtype=dtype)
    for training in (True, False):
        assert equivariance_error(encoder.train(training), [V], ["vector"], "vector") <= gate


def test_mean_project_is_equivariant_and_blind_to_order():
    """Section 6: "VN-MeanProject is both rotation-equivariant and permutation-invariant"."""
    layer = vnt.VNMeanProject(C, 8, num_latents=4).to(F64)
    V = cloud(8, N, C, 3)
    assert equivariance_error(layer, [V], ["vector"], "vector") < 1e-14
    assert equivariance_error(layer, [V], ["vector"], vector(None), group="permutations") < 1e-14


def test_mean_project_of_a_centred_cloud_under_a_linear_lift_is_zero():
    """What section 6 does not say: the mean of a mean-centred cloud is zero, and so are latents made from it."""
    x = cloud(N, 3)
    lifted = vnt.VNLinear(1, C).to(F64)((x - x.mean(0))[:, None])
    latents = vnt.VNMeanProject(C, C, num_latents=4).to(F64)
    assert float(latents(lifted).norm()) < 1e-13
    assert float(latents(vnt.VNRMSNorm(C).to(F64)(lifted)).norm()) > 1e-2
