"""What forecasting rivals say of wrong input."""

import pytest
import torch

from vnt.models.kinds import build_model
from vnt.models.rivals.forecasting_config import ConstantVelocityConfig, GRUForecasterConfig, LinearForecasterConfig

CONFIGS = [ConstantVelocityConfig(), LinearForecasterConfig(), GRUForecasterConfig()]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_wrong_input_is_told_so(config):
    model = build_model(config)
    for arguments, message in (
        ((torch.randn(2, 11, 3), torch.randn(2, 11, 1)), "positions alone, and got attributes"),
        ((torch.randn(2, 11, 3), None, None, torch.randn(2, 11, 1, 3)), "positions alone, and got vectors"),
        ((torch.randn(2, 11, 2),), "past must be"),
        ((torch.full((2, 11, 3), float("inf")),), "must be finite"),
        ((torch.randn(2, 11, 3), None, torch.zeros(2, 11, dtype=torch.bool)), "leaves no point"),
    ):
        with pytest.raises(ValueError, match=message):
            model(*arguments)
    with pytest.raises(ValueError, match="takes positions alone, got num_attributes=1"):
        type(config)(num_attributes=1)
