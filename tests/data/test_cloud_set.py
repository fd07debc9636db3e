from itertools import chain

import pytest
import torch

from vnt.data.cloud_set import CloudSet, carve_validation, select_split


def make_set(M=10, K=2):
    points = torch.arange(float(M))[:, None, None].expand(M, 4, 3).clone()
    return CloudSet(name="toy", points=points, labels=torch.arange(M) % K, class_names=tuple("abcdef"[:K]))


def test_validation_is_carved_by_class_and_always_the_same():
    labels = torch.tensor([0] * 100 + [1] * 20 + [2] * 3 + [3])
    train, val = carve_validation(labels)
    assert labels[val].bincount(minlength=4).tolist() == [10, 2, 1, 0]
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(124))
    assert torch.equal(val, carve_validation(labels)[1])
    assert not torch.equal(val, carve_validation(labels, seed=1)[1])


def test_splits_cover_the_set_once():
    clouds, is_test = make_set(20), torch.arange(20) >= 15
    parts = {split: select_split(clouds, is_test, split).points[:, 0, 0].tolist() for split in ("train", "val", "test")}
    assert sorted(chain(*parts.values())) == list(range(20))
    assert parts["test"] == [15, 16, 17, 18, 19]
    assert len(select_split(clouds, is_test, "train+val")) == 15
    with pytest.raises(ValueError, match=r"split must be .* got 'fit'"):
        select_split(clouds, is_test, "fit")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.tensor([0, 1])}, "labels of set 'toy' must have 10 rows.*got 2"),
        ({"labels": torch.full((10,), 7)}, "labels of set 'toy' must lie in 0..1"),
        ({"attributes": torch.zeros(10, 4, 2)}, "2 attributes and 0 names"),
    ],
)
def test_what_does_not_fit_together_is_refused(change, message):
    from dataclasses import replace

    with pytest.raises(ValueError, match=message):
        replace(make_set(), **change)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_a_share_lies_between_none_and_all(fraction):
    with pytest.raises(ValueError, match="fraction must be between 0 and 1, got"):
        carve_validation(torch.arange(10) % 2, fraction=fraction)
