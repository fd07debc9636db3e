"""Wrong input gets a ValueError that names the value and what was expected.

Runs without the shape-checking import hook of the rest of the suite, as users do.
"""

import numpy as np
import pytest
import torch

import vnt
from vnt.geometry import center, nearest_neighbors, permute, rotate, rotation_about, translate
from vnt.testing import equivariance_error

V = torch.randn(2, 5, 16, 3)
LAYERS = {
    "VNLinear": vnt.VNLinear(16, 8),
    "VNReLU": vnt.VNReLU(16),
    "VNLayerNorm": vnt.VNLayerNorm(16),
    "VNRMSNorm": vnt.VNRMSNorm(16),
    "VNBatchNorm": vnt.VNBatchNorm(16),
    "VNMLP": vnt.VNMLP(16, 8, 16),
    "VNEncoderBlock": vnt.VNEncoderBlock(16, 4),
    "VNEncoder": vnt.VNEncoder(16, 4, depth=2),
    "VNLatentEncoder": vnt.VNLatentEncoder(16, 4, depth=2, num_latents=3),
    "VNMaxPool": vnt.VNMaxPool(16),
    "VNMeanProject": vnt.VNMeanProject(16, 8, num_latents=3),
    "VNInvariant": vnt.VNInvariant(16),
    "VNEdgeConv": vnt.VNEdgeConv(16, 8, num_neighbors=2),
    "VNCrossProduct": vnt.VNCrossProduct(16),
}
REDUCE_OVER_TOKENS = [
    "VNBatchNorm",
    "VNEncoderBlock",
    "VNEncoder",
    "VNLatentEncoder",
    "VNMaxPool",
    "VNMeanProject",
    "VNEdgeConv",
]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_name_a_wrong_number_of_channels(name):
    with pytest.raises(ValueError, match=r"expects a tensor \(\.\.\., 16, S\) of 16 channels, got \(2, 5, 12, 3\)"):
        LAYERS[name](torch.randn(2, 5, 12, 3))


def test_layers_name_a_wrong_last_axis():
    for layer in (vnt.VNLinear(16, 8), vnt.VNEncoder(16, 4, depth=1)):
        with pytest.raises(ValueError, match=r"expects a last axis of 3 coordinates, got \(2, 5, 16, 4\)"):
            layer(torch.randn(2, 5, 16, 4))


@pytest.mark.parametrize("name", REDUCE_OVER_TOKENS)
def test_layers_refuse_masks_of_the_wrong_kind(name):
    layer = LAYERS[name]
    with pytest.raises(ValueError, match=r"Boolean mask.*float32"):
        layer(V, torch.ones(2, 5))
    with pytest.raises(ValueError, match=r"mask of shape \(2, 5\), got \(2, 6\)"):
        layer(V, torch.ones(2, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match="leaves no point"):
        layer(V, torch.tensor([[True] * 5, [False] * 5]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vnt.VNLinear(0, 4), "in_channels must be a whole number of at least 1, got 0"),
        (lambda: vnt.VNLinear(4, 4, bias_epsilon=-1e-6), "bias_epsilon must be at least 0 and finite, got -1e-06"),
        (lambda: vnt.VNReLU(4, out_channels=0), "out_channels must be a whole number of at least 1, got 0"),
        (lambda: vnt.VNMultiheadAttention(10, 4), "num_heads must divide the 10 channels of the values, got 4"),
        (lambda: vnt.VNMultiheadAttention(16, 4, value_channels=6), "num_heads must divide the 6 channels"),
        (lambda: vnt.VNEncoderBlock(16, 4, norm="instance"), "norm must be one of .*, got 'instance'"),
        (lambda: vnt.VNEncoderBlock(16, 4, norm_position="mid"), "norm_position must be one of"),
        (lambda: vnt.VNEncoder(16, 4, depth=0), "depth must be a whole number of at least 1, got 0"),
        (lambda: vnt.VNMeanProject(16, 16, num_latents=0), "num_latents must be a whole number of at least 1, got 0"),
        (
            lambda: vnt.VNEdgeConv(16, 16, num_neighbors=-1),
            "num_neighbors must be a whole number of at least 0, got -1",
        ),
        (lambda: vnt.VNCrossProduct(16, spatial_dim=2), "spatial_dim of at least 3, got 2"),
        (lambda: vnt.VNLayerNorm(16, shift=float("nan")), "shift must be finite, got nan"),
        (lambda: vnt.VNBatchNorm(16, shift=float("inf")), "shift must be finite, got inf"),
    ],
)
def test_constructors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("layer", [vnt.VNLayerNorm, vnt.VNBatchNorm])
def test_a_whole_number_is_a_shift(layer):
    assert layer(4, shift=2).shift.tolist() == [2.0] * 4


MODELS = [
    (
        vnt.VNTransformerClassifier,
        lambda **options: vnt.ClassifierConfig(num_classes=3, channels=8, num_heads=2, **options),
    ),
    (vnt.VNTransformerForecaster, lambda **options: vnt.ForecasterConfig(channels=8, num_heads=2, **options)),
]


@pytest.mark.parametrize(("model", "config"), MODELS)
def test_models_name_what_is_wrong(model, config):
    plain = model(config())
    points = torch.randn(2, 6, 3)
    broken = points.clone()
    broken[1, 4, 2] = float("nan")
    keep = torch.ones(2, 6, dtype=torch.bool)
    for args, message in [
        ((torch.randn(2, 6, 4),), r"points must be \(\.\.\., N, 3\) with N of at least 1, got \(2, 6, 4\)"),
        ((torch.randn(2, 0, 3),), r"got \(2, 0, 3\)"),
        ((torch.ones(2, 6, 3, dtype=torch.int64),), "floating-point numbers, got torch.int64"),
        ((points, torch.randn(2, 6, 1)), r"built without attributes, but attributes of shape \(2, 6, 1\)"),
        ((points, None, None, torch.randn(2, 6, 1, 3)), "built without vectors"),
        ((broken,), r"points must be finite, got nan at index \(1, 4, 2\)"),
        ((points * float("inf"),), "points must be finite, got"),
        ((points, None, ~keep), "leaves no point"),
        ((points, None, keep[:, :5]), r"mask of shape \(2, 6\), got \(2, 5\)"),
        ((points, None, keep.float()), "Boolean mask"),
    ]:
        with pytest.raises(ValueError, match=message):
            plain(*args)


@pytest.mark.parametrize(("model", "config"), MODELS)
@pytest.mark.parametrize("fusion", ["early", "late"])
def test_models_with_attributes_want_them(model, config, fusion):
    attributed = model(config(num_attributes=2, fusion=fusion))
    points = torch.randn(2, 6, 3)
    with pytest.raises(ValueError, match="built with num_attributes=2, but no attributes were given"):
        attributed(points)
    with pytest.raises(ValueError, match=r"attributes must have shape \(2, 6, 2\), got \(2, 6, 3\)"):
        attributed(points, torch.randn(2, 6, 3))
    with pytest.raises(ValueError, match="attributes must be finite"):
        attributed(points, torch.full((2, 6, 2), float("nan")))


@pytest.mark.parametrize(("model", "config"), MODELS)
def test_nan_under_the_mask_and_switched_off_checks_pass(model, config):
    plain = model(config()).eval()
    points = torch.randn(2, 6, 3)
    points[:, 5] = float("nan")
    mask = (torch.arange(6) < 5).expand(2, -1)
    assert torch.isfinite(plain(points, None, mask)).all()
    with vnt.value_checks(enabled=False):
        assert torch.isnan(plain(points)).any()
    with pytest.raises(ValueError, match="finite"):
        plain(points)


def test_geometry_names_what_is_wrong():
    x = torch.randn(2, 5, 3)
    with pytest.raises(ValueError, match=r"center must be one of .*'mode'"):
        center(x, method="mode")
    with pytest.raises(ValueError, match="num_neighbors must be at least 1, got 0"):
        nearest_neighbors(x, 0)
    with pytest.raises(ValueError, match=r"cannot turn \(2, 5, 3\) by rotations \(4, 3, 3\)"):
        rotate(x, torch.eye(3).expand(4, 3, 3))
    with pytest.raises(ValueError, match=r"cannot move \(2, 5, 3\) by translations \(4, 3\)"):
        translate(x, torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"cannot reorder axis 1 of \(2, 5, 3\) by 4"):
        permute(x, torch.arange(4), 1)
    with pytest.raises(ValueError, match="not all zero"):
        rotation_about((0.0, 0.0, 0.0), torch.tensor(1.0))


def test_the_tester_names_what_is_wrong():
    x = torch.randn(2, 5, 3)
    with pytest.raises(ValueError, match="1 arguments but 2 descriptions"):
        equivariance_error(lambda x: x, [x], ["point", "scalar"], "point")
    with pytest.raises(ValueError, match=r"group must be one of .*'SU\(2\)'"):
        equivariance_error(lambda x: x, [x], ["point"], "point", group="SU(2)")
    with pytest.raises(ValueError, match=r"transforms as one of .*'tensor'"):
        equivariance_error(lambda x: x, [x], ["tensor"], "point")
    with pytest.raises(ValueError, match=r"SO\(3\) change nothing here"):
        equivariance_error(lambda x: x, [x], ["scalar"], "scalar")
    with pytest.raises(ValueError, match="translations change nothing here"):
        equivariance_error(lambda x: x, [x], ["vector"], "vector", group="translations")
    with pytest.raises(ValueError, match=r"permutations need arguments with one number of tokens, got \[\]"):
        equivariance_error(lambda x: x, [x], ["scalar"], "scalar", group="permutations")
    with pytest.raises(ValueError, match="num_trials must be at least 1, got 0"):
        equivariance_error(lambda x: x, [x], ["point"], "point", num_trials=0)


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'VNQuaternion'"):
        vnt.VNQuaternion  # noqa: B018
    assert "VNLinear" in dir(vnt)


@pytest.mark.parametrize(
    ("q", "k", "z"),
    [
        ((4, 8, 3), (5, 8, 3), (60, 8, 3)),
        ((2, 4, 8, 3), (2, 60, 8, 3), (2, 50, 8, 3)),
        ((2, 3, 4, 8, 3), (3, 2, 5, 8, 3), (3, 2, 5, 8, 3)),
        ((4, 8, 3), (2, 5, 8, 3), (2, 5, 8, 3)),
    ],
)
def test_attention_wants_a_value_for_each_key_and_the_same_items(q, k, z):
    with pytest.raises(ValueError, match=r"attention expects Q \(\.\.\., M, C, S\).*got \("):
        vnt.VNMultiheadAttention(8, 2)(torch.randn(q), torch.randn(k), torch.randn(z))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vnt.VNRMSNorm(8, eps=-1.0), "eps must be at least 0 and finite, got -1.0"),
        (lambda: vnt.VNLayerNorm(8, eps=float("nan")), "eps must be at least 0 and finite, got nan"),
        (lambda: vnt.VNBatchNorm(8, eps=-1e-3), "eps must be at least 0 and finite"),
        (lambda: vnt.VNBatchNorm(8, momentum=5.0), r"momentum must lie in \[0, 1\], got 5.0"),
        (lambda: vnt.VNReLU(8, eps=float("inf")), "eps must be at least 0 and finite, got inf"),
        (lambda: vnt.VNReLU(8, negative_slope=float("nan")), "negative_slope must be finite, got nan"),
        (lambda: vnt.VNMaxPool(8, tie_tolerance=-1.0), "tie_tolerance must be at least 0 and finite, got -1.0"),
        (lambda: vnt.VNLinear(8, 8, bias_epsilon=float("inf")), "bias_epsilon must be at least 0 and finite, got inf"),
        (lambda: vnt.VNLinear(True, 8), "in_channels must be a whole number of at least 1, got True"),
        (lambda: nearest_neighbors(torch.randn(9, 3), 5, num_slots=2), "num_slots must be at least the 5 neighbours"),
    ],
)
def test_guards_that_would_give_nan_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_numbers_of_numpy_are_numbers():
    assert vnt.VNLinear(np.int64(4), np.int32(8))(torch.randn(5, 4, 3)).shape == (5, 8, 3)
    config = vnt.ClassifierConfig(num_classes=np.array([0, 4]).max() + 1, dropout=np.float64(0.5))
    assert vnt.ClassifierConfig.from_json(config.to_json()) == config


def test_whole_numbers_are_not_turned():
    for act in (lambda x: rotate(x, torch.eye(3)), lambda x: translate(x, torch.ones(3))):
        with pytest.raises(ValueError, match=r"must be floating-point numbers, got torch\.int64"):
            act(torch.tensor([[3, 4, 5]]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum(), r"the first axis of the result must count batch items, got \(\)"),
        (lambda x: x[:0], r"the first axis of the result must count batch items, got \(0"),
        (lambda x: (x, x), "the function must return one tensor, got tuple"),
    ],
)
def test_the_tester_says_what_it_cannot_compare(function, message):
    with pytest.raises(ValueError, match=message):
        equivariance_error(function, [torch.randn(2, 5, 3)], ["point"], "vector")
