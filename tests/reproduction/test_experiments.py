"""What the tables consist of: published numbers as the paper has them, and models of the sizes that are claimed."""

import pytest

from vnt.models.kinds import build_model
from vnt.models.recipes import upright
from vnt.reproduction.classification import LATENTS, NEIGHBORS, figure7, figure8, small, table1, table2, table5
from vnt.reproduction.forecasting import table3
from vnt.reproduction.smoke import shrink, smoke

ALL = [table1, table2, table3, table5, figure7, figure8]


def published(experiment):
    return {row.name: row.published for row in experiment.rows if row.published is not None}


def test_published_numbers():
    assert published(table1()) == {
        "tfn": 0.885,
        "ri_conv": 0.865,
        "gc_conv": 0.890,
        "vn_pointnet": 0.772,
        "vn_dgcnn": 0.900,
        "small": 0.908,
        "literal": 0.908,
        "upright": 0.908,
    }
    two = published(table2())
    assert (two["plain_0"], two["plain_eps"], two["vn_pointnet_early"]) == (0.885, 0.908, 0.820)
    assert (two["early_0"], two["early_eps"], two["late_eps"]) == (0.911, 0.954, 0.910)
    for name in ("literal", "upright"):
        assert (two[f"{name}_0"], two[f"{name}_eps"]) == (0.885, 0.908)
        assert (two[f"{name}_early_0"], two[f"{name}_early_eps"]) == (0.911, 0.954)
    assert list(published(table3()).values()) == [5.01, 4.51, 4.91, 3.95, 5.01, 3.67, 4.91, 3.95, 4.91, 3.95]


def test_upright_rows_are_the_paper_but_for_the_start_of_its_norms():
    for experiment in (table2(), table3()):
        rows = {row.name: row.config.model for row in experiment.rows if row.config is not None}
        literal = {name: model for name, model in rows.items() if name.startswith("literal")}
        assert len(literal) >= 2
        for name, model in literal.items():
            assert rows[name.replace("literal", "upright")] == upright(model)
            assert (model.norm, model.mlp_norm) == ("layer", "batch")


def test_the_small_model_is_as_small_as_the_paper_s():
    assert sum(weight.numel() for weight in build_model(small().model).parameters()) <= 40_000


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_every_row_is_a_model_of_its_own(make):
    experiment = make()
    names = [row.name for row in experiment.rows]
    assert len(set(names)) == len(names)
    for each in (experiment, smoke(experiment)):
        for row in each.rows:
            if row.config is not None:
                build_model(row.config.model)
    configs = [
        f"{row.config} {row.teacher} {row.start} {row.parts}" for row in experiment.rows if row.config is not None
    ]
    assert len(set(configs)) == len(configs)


def test_rows_differ_in_what_they_are_about():
    assert [row.config.model.num_neighbors for row in figure7().rows] == list(NEIGHBORS)
    latents = [(row.config.model.num_latents, row.config.model.read_back) for row in figure8().rows]
    assert latents == [(m, False) for m in LATENTS] + [(m, True) for m in LATENTS if m]
    epsilons = {row.name: row.config.model.bias_epsilon for row in table3().rows if hasattr(row.config.model, "norm")}
    assert all((value > 0) == name.endswith("_eps") for name, value in epsilons.items())
    assert table3().only(("vn_speed_0",)).rows[0].config.attributes == ("speed",)


def test_what_is_quoted_is_trained_only_by_name():
    assert next(row for row in table1().only(()).rows if row.name == "tfn").config is None
    assert table1().only(("tfn",)).rows[0].config is not None
    with pytest.raises(ValueError, match=r"table1 has no row nobody; it has tfn, ri_conv"):
        table1().only(("nobody",))


def test_a_smoke_test_needs_no_download():
    for make in ALL:
        for row in make().rows:
            if row.config is not None:
                assert shrink(row.config).dataset in ("shapes", "shapes_polka_dot", "motion")


def test_a_smoke_test_trains_nothing_twice():
    """Blocks of Table 3 differ in their data alone, for which one built-in set stands in; but KITTI's has two more."""
    small = smoke(table3())
    configs = [(row.config, row.teacher, row.start) for row in small.rows]
    assert all(a != b for i, a in enumerate(configs) for b in configs[:i])
    assert {row.name.split("_")[0] for row in small.rows} == {
        "transformer",
        "vn",
        "constant",
        "linear",
        "literal",
        "upright",
        "kitti",
    }
    assert [row.name for row in small.rows if "kitti" in row.name] == ["kitti_transformer_z_begun", "kitti_vn_0_begun"]
    assert published(small) == {}
    assert smoke(table1()).rotations == ("I",)
    taught = next(row for row in smoke(table1()).rows if row.name == "taught")
    assert taught.teacher.row.config.dataset == "shapes"
