"""Folders of clouds: what is taken of each file."""

import numpy as np
import pytest

from vnt.data.folder import load_folder


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """Balls and sticks with two attributes, of which the first is the number of the file."""
    monkeypatch.setenv("VNT_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for kind in ("ball", "stick"):
        (tmp_path / "scans" / kind).mkdir(parents=True)
        for number in range(20):
            columns = np.c_[random.normal(size=(30, 3)), np.full(30, number), random.normal(size=30)]
            np.savetxt(tmp_path / "scans" / kind / f"{number}.xyz", columns, header="x y z number heat")
    return tmp_path / "scans"


def test_attributes_are_those_that_are_named_in_that_order(scans):
    none = load_folder(scans)
    assert none.attributes is None
    one, both = load_folder(scans, attributes=["number"]), load_folder(scans, attributes=["heat", "number"])
    assert one.attribute_names == ("number",)
    assert one.attributes.shape == (len(none), 30, 1)
    assert both.attribute_names == ("heat", "number")
    assert both.attributes[..., 1:].equal(one.attributes)
    assert (one.attributes[:, 0] == one.attributes[:, -1]).all()
    assert load_folder(scans, attributes=["number"]).attributes.equal(one.attributes)  # as it was kept


def test_a_file_that_lacks_one_is_named(scans):
    np.savetxt(scans / "stick" / "7.xyz", np.random.default_rng(0).normal(size=(30, 4)), header="x y z heat")
    load_folder(scans, attributes=["heat"])
    with pytest.raises(ValueError, match=r"stick/7\.xyz has attributes \['heat'\], and not number"):
        load_folder(scans, attributes=["heat", "number"])
