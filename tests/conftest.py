import os

import pytest
import torch
from hypothesis import settings

# The same examples everywhere: a test that fails on one machine fails on all.
settings.register_profile("vnt", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("vnt")


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


@pytest.fixture
def no_gradients():
    """For tests that only look at values."""
    with torch.no_grad():
        yield


def pytest_configure():
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)
