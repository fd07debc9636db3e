"""What every layer keeps: shapes, symmetry, independence, masks, degenerate input, gradients, dtype, state."""

import copy

import pytest
import torch

from contracts.cases import LAYERS, C, N, S, cloud, make
from helpers import assert_close, random_mask
from vnt.testing import equivariance_error, scalar, vector

NAMES = pytest.mark.parametrize("name", LAYERS)
MASKED = pytest.mark.parametrize("name", [name for name, case in LAYERS.items() if case.masked])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


def output_of(name: str):
    case = LAYERS[name]
    if case.invariant:
        return scalar(token_axis=-3)
    return vector(token_axis=-3 if case.permutes and not case.pools else None)


@NAMES
@DTYPES
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_turns_with_its_input(name, dtype, training):
    layer = make(name, dtype).train(training)
    group = "O(3)" if LAYERS[name].reflects else "SO(3)"
    error = equivariance_error(layer, [cloud(6, dtype=dtype)], ["vector"], output_of(name), group=group)
    assert error <= LAYERS[name].gate[dtype == torch.float64]


@pytest.mark.parametrize("name", [name for name, case in LAYERS.items() if not case.reflects])
def test_mirror_images_differ_where_they_should(name):
    assert equivariance_error(make(name), [cloud(6)], ["vector"], "vector", group="O(3)") > 1e-2


@NAMES
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_order_of_tokens_does_not_matter(name, training):
    layer = make(name).train(training)
    assert equivariance_error(layer, [cloud(3)], ["vector"], output_of(name), group="permutations") <= 1e-13


@NAMES
def test_shapes_unbatched_and_with_any_leading_axes(name):
    layer = make(name).eval()
    V = cloud(2, 3)
    whole = layer(V)
    assert whole.shape[:2] == (2, 3)
    assert_close(layer(V[1, 2]), whole[1, 2])
    assert_close(layer(V[1]), whole[1])


@NAMES
def test_an_item_alone_gives_what_it_gives_in_a_batch(name):
    layer, V = make(name).eval(), cloud(4)
    assert_close(layer(V[2:3])[0], layer(V)[2])


@NAMES
def test_one_token(name):
    layer, V = make(name), torch.randn(2, 1, C, S, dtype=torch.float64)
    assert torch.isfinite(layer(V)).all()


@NAMES
def test_memory_layout_does_not_matter(name):
    layer, V = make(name).eval(), cloud(2)
    assert_close(layer(V), layer(V.mT.contiguous().mT))
    assert_close(layer(V), layer(V.transpose(0, 1).contiguous().transpose(0, 1)))


@MASKED
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_values_under_the_mask_do_not_matter(name, training):
    V, mask = cloud(3), random_mask(3, N)
    garbage = torch.where(mask[..., None, None], V, 1e3 * torch.randn_like(V))
    first, second = (make(name).train(training)(x, mask) for x in (V, garbage))
    if LAYERS[name].permutes and not LAYERS[name].pools:
        first, second = first[mask], second[mask]
    assert_close(first, second)


@MASKED
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_padded_cloud_gives_what_the_bare_one_gives(name, training):
    V = cloud(3)
    padded = torch.cat([V, torch.randn(3, 5, C, S, dtype=V.dtype)], 1)
    mask = (torch.arange(N + 5) < N).expand(3, -1)
    bare, full = make(name).train(training)(V), make(name).train(training)(padded, mask)
    if LAYERS[name].permutes and not LAYERS[name].pools:
        full = full[:, :N]
    assert_close(full, bare)


@NAMES
@DTYPES
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("kind", ["zero", "one zero channel", "coincident", "collinear", "tiny", "huge"])
def test_degenerate_input_gives_finite_values_and_gradients(name, dtype, training, kind):
    V = cloud(2, dtype=dtype)
    match kind:
        case "zero":
            V = torch.zeros_like(V)
        case "one zero channel":
            V[..., 3, :] = 0
        case "coincident":
            V = V[:, :1].expand_as(V).clone()
        case "collinear":
            V = V * torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
        case "tiny":
            V = 1e-12 * V
        case "huge":
            V = 1e12 * V
    V.requires_grad_()
    layer = make(name, dtype).train(training)
    out = layer(V)
    assert torch.isfinite(out).all()
    if kind == "huge" and LAYERS[name].attends_raw:
        return
    (out / out.detach().abs().amax().clamp(min=1)).square().sum().backward()
    assert V.grad is not None
    assert torch.isfinite(V.grad).all()
    for key, parameter in layer.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), key


@NAMES
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_gradients_are_right(name, training):
    layer = make(name).train(training)
    V = cloud(1)[:, :3].requires_grad_()
    assert torch.autograd.gradcheck(layer, (V,), fast_mode=True)


@NAMES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtype_is_kept(name, dtype):
    layer, V = make(name, dtype), cloud(2, dtype=dtype)
    assert layer(V).dtype == dtype
    assert layer.eval()(V).dtype == dtype


@NAMES
def test_runs_in_bfloat16_autocast(name):
    layer, V = make(name, torch.float32).eval(), cloud(2, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = layer(V)
    assert torch.isfinite(out).all()
    exact = layer(V).detach()
    assert float((out.detach().float() - exact).norm() / exact.norm()) < LAYERS[name].half


@NAMES
def test_input_is_not_changed(name):
    V = cloud(2)
    before = V.clone()
    make(name)(V)
    assert torch.equal(V, before)


@NAMES
def test_state_dict_round_trip(name):
    layer, V = make(name), cloud(2)
    layer(V)  # moves running statistics
    other = LAYERS[name].make().double()
    other.load_state_dict(copy.deepcopy(layer.state_dict()))
    assert_close(other.eval()(V), layer.eval()(V), 0.0)


@NAMES
def test_every_parameter_matters(name):
    layer = make(name)
    if not list(layer.parameters()):
        pytest.skip("has no parameters")
    layer(cloud(2)).square().sum().backward()
    for key, parameter in layer.named_parameters():
        assert parameter.grad is not None, f"{key} is never used"
        assert float(parameter.grad.abs().max()) > 0, f"{key} has no influence"
