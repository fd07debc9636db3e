"""Configs: frozen, checked, the same after JSON, and free of torch."""

import dataclasses
import json
import subprocess
import sys

import pytest

import vnt
from vnt.models.rivals.config import TransformerClassifierConfig, TransformerForecasterConfig
from vnt.models.rivals.network_config import VNPointNetConfig

CONFIGS = [
    vnt.ClassifierConfig(num_classes=40),
    vnt.ForecasterConfig(),
    vnt.paper_classifier(),
    vnt.paper_forecaster(),
    vnt.ClassifierConfig(num_classes=3, num_attributes=2, fusion="late", hidden_channels=8, bias_epsilon=1e-6),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_survives_json(config):
    assert type(config).from_json(config.to_json()) == config
    assert type(config)(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_is_frozen_and_keyword_only():
    config = vnt.ClassifierConfig(num_classes=40)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.channels = 32
    with pytest.raises(TypeError):
        vnt.ClassifierConfig(40)


def test_a_variant_is_a_replace():
    config = dataclasses.replace(vnt.paper_classifier(), bias_epsilon=0.0)
    assert config.bias_epsilon == 0
    assert config.norm_position == "post"


def test_norms_of_the_paper_can_begin_upright():
    assert (vnt.upright(vnt.paper_forecaster()).norm, vnt.upright(vnt.paper_forecaster()).mlp_norm) == (
        "upright_layer",
        "upright_batch",
    )
    assert vnt.upright(VNPointNetConfig(num_classes=3)).norm == "upright_batch"
    with pytest.raises(ValueError, match=r"no norm of this config is VN-LayerNorm or VN-BatchNorm: .*'rms'"):
        vnt.upright(vnt.ForecasterConfig())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_class": 3}, "no key 'num_class'; did you mean 'num_classes'"),
        ({"xyzzy": 3}, "no key 'xyzzy'; known are channels"),
        ({"num_classes": 3, "channels": 10, "num_heads": 4}, "num_heads must divide channels, got 4 heads for 10"),
        ({"num_classes": 3, "channels": 0}, "channels must be at least 1 and finite, got 0"),
        ({"num_classes": 3, "channels": 16.0}, "channels must be int, got 16.0"),
        ({"num_classes": 3, "channels": True}, "channels must be int, got True"),
        ({"num_classes": 0}, "num_classes must be at least 1 and finite, got 0"),
        ({"num_classes": 3, "norm": "instance"}, "norm must be one of .*'rms'.*, got 'instance'"),
        ({"num_classes": 3, "bias_epsilon": -1.0}, "bias_epsilon must be at least 0 and finite, got -1.0"),
        ({"num_classes": 3, "bias_epsilon": float("nan")}, "bias_epsilon must be at least 0 and finite, got nan"),
        ({"num_classes": 3, "norm_eps": -1.0}, "norm_eps must be positive and finite, got -1.0"),
        ({"num_classes": 3, "norm_eps": float("nan")}, "norm_eps must be positive and finite, got nan"),
        ({"num_classes": 3, "relu_eps": 0.0}, "relu_eps must be positive and finite, got 0.0"),
        ({"num_classes": 3, "num_attributes": 2}, "num_attributes=2 with fusion='none'"),
        ({"num_classes": 3, "fusion": "early"}, "num_attributes=0 with fusion='early'"),
        ({"num_classes": 3, "bias_epsilon": float("inf")}, "bias_epsilon must be at least 0 and finite, got inf"),
        ({"num_classes": 3, "negative_slope": float("nan")}, "negative_slope must be finite, got nan"),
        ({"num_classes": 3, "dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1.0"),
        ({"num_classes": 3, "lift": "mlp", "num_neighbors": 4}, "lift='mlp'"),
        ({"num_classes": 3, "chunk_size": -1}, "chunk_size must be at least 0 and finite, got -1"),
        ({"num_classes": 3, "hidden_channels": 0}, "hidden_channels must be at least 1 and finite, got 0"),
    ],
)
def test_wrong_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        vnt.ClassifierConfig(**values)


def test_subclasses_refuse_unknown_keys_too():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(vnt.ForecasterConfig):
        extra: int = 3

    assert Mine(extra=4).extra == 4
    with pytest.raises(ValueError, match="Mine has no key 'extras'; did you mean 'extra'"):
        Mine(extras=4)


def test_wrong_forecaster_values_are_named():
    with pytest.raises(ValueError, match="num_motions must be between 0 and num_future, got 9 for 8 steps"):
        vnt.ForecasterConfig(num_future=8, num_motions=9)
    with pytest.raises(ValueError, match="predict_attributes needs fusion='early', got 'none'"):
        vnt.ForecasterConfig(predict_attributes=True)
    with pytest.raises(ValueError, match="num_future must be at least 1 and finite, got 0"):
        vnt.ForecasterConfig(num_future=0)
    with pytest.raises(ValueError, match=r"got dropout=0\.5 with head_channels=0"):
        vnt.ForecasterConfig(dropout=0.5)


def test_wrong_values_of_the_plain_transformers_are_named():
    with pytest.raises(ValueError, match="hidden_channels must be at least 1 and finite, got 0"):
        TransformerForecasterConfig(hidden_channels=0)
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\), got 3.0"):
        TransformerClassifierConfig(num_classes=3, dropout=3.0)


def test_a_config_file_must_be_an_object():
    with pytest.raises(ValueError, match="JSON object, got list"):
        vnt.ForecasterConfig.from_json("[1, 2]")


def test_configs_do_not_import_torch():
    code = "import sys, vnt; vnt.ClassifierConfig(num_classes=3); vnt.paper_forecaster(); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_the_papers_classifier_has_the_papers_size():
    model = vnt.VNTransformerClassifier(vnt.paper_classifier())
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 2) == 0.04
