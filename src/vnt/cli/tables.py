"""Results as tables that people read."""

from rich.table import Table

from vnt.evaluation.metrics import Classification
from vnt.evaluation.protocols import Evaluation


def evaluation_table(found: Evaluation) -> Table:
    """One line for each protocol, named training/test."""
    if any(isinstance(result, Classification) for result in found.results.values()):
        return _classification_table(found)
    table = Table("train/test", "ADE, m", "FDE, m", "missed", "tracks", box=None, header_style="bold", pad_edge=False)
    for name, numbers in found.summary().items():
        table.add_row(
            name,
            f"{numbers['ade']:.3f} ± {numbers['ade_95']:.3f}",
            f"{numbers['fde']:.3f} ± {numbers['fde_95']:.3f}",
            f"{numbers['miss_rate']:.1%} ({numbers['miss_rate_low']:.1%} to {numbers['miss_rate_high']:.1%})",
            f"{numbers['count']:,}",
        )
    return table


def _classification_table(found: Evaluation) -> Table:
    table = Table(
        "train/test",
        "accuracy",
        "95 % interval",
        "mean of classes",
        "clouds",
        box=None,
        header_style="bold",
        pad_edge=False,
    )
    for name, numbers in found.summary().items():
        table.add_row(
            name,
            f"{numbers['accuracy']:.1%}",
            f"{numbers['accuracy_low']:.1%} to {numbers['accuracy_high']:.1%}",
            f"{numbers['class_accuracy']:.1%}",
            f"{numbers['count']:,}",
        )
    return table


def class_table(found: Evaluation) -> Table:
    """The accuracy of each class under each protocol."""
    results = {name: result for name, result in found.results.items() if isinstance(result, Classification)}
    header = [f"{found.trained}/{name}" for name in results]
    table = Table("class", *header, "clouds", box=None, header_style="bold", pad_edge=False)
    first = next(iter(results.values()))
    for row, name in enumerate(found.class_names):
        values = [f"{result.class_accuracy[row]:.1%}" for result in results.values()]
        table.add_row(name, *values, str(int(first.confusion[row].sum())))
    return table
