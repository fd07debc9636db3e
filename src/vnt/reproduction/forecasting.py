"""Table 3: motion forecasting, on the paper's number of vehicles, on all there are, and on KITTI. No torch."""

from dataclasses import replace

from vnt.reproduction.experiments import Experiment, Row, Teacher
from vnt.training.config import TrainConfig
from vnt.training.recipes import recipe

EPSILON = 1e-6
TAUGHT = ("transformer_z", "vn_0", "vn_heading_0")
"""Rows of which there is one more that is taught by three of its kind."""
KITTI_EPOCHS = 100
BEGUN_EPOCHS = {"transformer_z": 100, "vn_0": 40}
"""Of ours on KITTI, and of what begins there with Waymo's runs: see docs/results/motion.md."""


def table3() -> Experiment:
    """The paper's six rows, and two that need no training, for each of three sets of vehicles; more for the first."""
    block = _block("", "", "womd_paper", published=True)
    rows = (
        *block,
        *_block("large_", "15,623 vehicles: ", "womd_large", times=4),
        *_kitti(block),
    )
    return Experiment(
        "table3",
        "Table 3: average displacement error on Waymo Open Motion, metres",
        "In the original frame (I), turned about z, and turned at random (SO3). The first block is trained on the "
        "paper's number of vehicles, the second on all that are in no test scenario, and tested on the same 979.",
        rows,
    )


def _kitti(waymo: list[Row]) -> list[Row]:
    """Ours for as many epochs as cross-validation over the roads chose, and two that begin with Waymo's runs."""
    rows = [
        replace(row, config=replace(row.config, epochs=KITTI_EPOCHS)) if row.config and "_vn_" in row.name else row
        for row in _block("kitti_", "KITTI: ", "kitti")
    ]
    known = {row.name: row for row in (*waymo, *rows)}
    for name, epochs in BEGUN_EPOCHS.items():
        alone = known[f"kitti_{name}"]
        assert alone.config is not None
        config = replace(alone.config, epochs=epochs, learning_rate=1e-3)
        rows.append(Row(f"{alone.name}_begun", f"{alone.title}, begun with Waymo's", config, start=known[name]))
    return rows


def _block(prefix: str, about: str, dataset: str, *, published: bool = False, times: int = 1) -> list[Row]:
    """The rows for one data set, so many times as large as the paper's: as many steps on it."""
    plain, ours = (
        replace(config, dataset=dataset, epochs=config.epochs // times)
        for config in (recipe("womd_transformer"), recipe("womd"))
    )
    solved = (replace(recipe(f"womd_{name}"), dataset=dataset) for name in ("constant_velocity", "linear"))
    biased, fast = _biased(ours), _with_speed(ours)
    found: list[tuple[str, str, TrainConfig, float | None]] = [
        ("transformer", "Transformer", replace(plain, rotation="I"), 5.01),
        ("transformer_z", "Transformer + z", plain, 4.51),
        ("vn_0", "VN-Transformer, ε = 0", ours, 4.91),
        ("vn_eps", "VN-Transformer, ε = 1e-6", biased, 3.95),
        ("vn_speed_0", "VN-Transformer, speed, ε = 0", fast, 5.01),
        ("vn_speed_eps", "VN-Transformer, speed, ε = 1e-6", _biased(fast), 3.67),
        *zip(
            ("constant_velocity", "linear"),
            ("constant velocity", "linear equivariant map"),
            solved,
            (None, None),
            strict=True,
        ),
    ]
    if published:
        found += [
            ("transformer_z_heading", "Transformer + z, heading", replace(plain, attributes=("heading",)), None),
            ("vn_heading_0", "VN-Transformer, heading, ε = 0", replace(ours, attributes=("heading",)), None),
        ]
        literal, upright = recipe("womd_paper"), recipe("womd_upright")
        found += [
            ("literal_0", "the paper to the letter, ε = 0", _biased(literal, 0.0), 4.91),
            ("literal_eps", "the paper to the letter, ε = 1e-6", literal, 3.95),
            ("upright_0", "the paper with norms that begin upright, ε = 0", _biased(upright, 0.0), 4.91),
            ("upright_eps", "the paper with norms that begin upright, ε = 1e-6", upright, 3.95),
        ]
    rows = [
        Row(prefix + name, about + title, config, number if published else None)
        for name, title, config, number in found
    ]
    if not published:
        return rows
    return rows + [_taught(row) for row in rows if row.name in TAUGHT] + _longer(plain, ours)


def _taught(row: Row) -> Row:
    teacher = Teacher(row, seeds=(0, 1, 2), hold_out=False)
    return Row(f"{row.name}_taught", f"{row.title}, taught by three of its kind", row.config, teacher=teacher)


def _longer(plain: TrainConfig, ours: TrainConfig) -> list[Row]:
    """Twice the epochs, and ours twice as deep; and that in the usual number of them, since teachers save epochs."""
    longer = replace(plain, epochs=2 * plain.epochs)
    deep = replace(ours, model=replace(ours.model, depth=4), epochs=2 * ours.epochs)  # type: ignore[unexpected-keyword]
    title = f"depth 4, {deep.epochs} epochs"
    alone = Row("vn_deep", f"VN-Transformer, ε = 0, {title}", deep)
    heading = Row("vn_deep_heading", f"VN-Transformer, heading, ε = 0, {title}", replace(deep, attributes=("heading",)))
    taught = Row(
        "vn_deep_taught",
        f"VN-Transformer, ε = 0, depth 4, {ours.epochs} epochs, taught by two of the above",
        replace(deep, epochs=ours.epochs),
        teacher=Teacher(alone, seeds=(0, 1), hold_out=False),
    )
    told = replace(longer, attributes=("heading",))
    return [
        Row("transformer_z_long", f"Transformer + z, {longer.epochs} epochs", longer),
        Row("transformer_z_long_heading", f"Transformer + z, heading, {longer.epochs} epochs", told),
        alone,
        heading,
        taught,
    ]


def _biased(config: TrainConfig, epsilon: float = EPSILON) -> TrainConfig:
    return replace(config, model=replace(config.model, bias_epsilon=epsilon))  # type: ignore[unexpected-keyword]


def _with_speed(config: TrainConfig) -> TrainConfig:
    model = replace(config.model, num_attributes=1, fusion="early")  # type: ignore[unexpected-keyword]
    return replace(config, model=model, attributes=("speed",))
