"""What every test shares, the examples in docstrings too: the same random numbers each time, and one thread each."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# The same examples everywhere: a test that fails on one machine fails on all.
settings.register_profile("vnt", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("vnt")

DATA = os.environ.get("VNT_DATA")  # as it was at the start: tests may unset it for themselves


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    torch.manual_seed(0)


@pytest.fixture
def no_gradients():
    """For tests that only look at values."""
    with torch.no_grad():
        yield


@pytest.fixture
def real_data():
    """Finds a file of the real data sets, or skips with the reason."""

    def find(name: str) -> Path:
        if not DATA:
            pytest.skip("VNT_DATA is not set: real data sets are not here")
        if not (Path(DATA) / name).exists():
            pytest.skip(f"VNT_DATA has no {name}")
        return Path(DATA)

    return find


def pytest_configure():
    """One thread for each worker."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)
