"""Best value of each hyper-parameter by loss and by time, beside [Wang2020a, Table 4]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zerolab.papers.hyperparameters.effects import HyperparameterEffect, hyperparameter_effects
from zerolab.papers.hyperparameters.main_effects import final_loss, training_seconds
from zerolab.papers.hyperparameters.study import HYPERPARAMETERS
from zerolab.papers.hyperparameters.sweep_runs import VALUE_NAMES, Sweep
from zerolab.report.document import Block, Heading, Paragraph
from zerolab.report.interval import P_VALUE_FORMAT, Cell
from zerolab.report.table import Column, Table

PUBLISHED_BEST: Mapping[str, tuple[int | None, int | None]] = {
    "I": (1, 0), "E": (0, 0), "T'": (0, None), "m": (2, 0), "c": (0, None), "rs": (0, 0),
    "ep": (2, 0), "bs": (2, 2), "lr": (0, None), "d": (1, None), "n": (None, 0),
    "u": (None, None),
}  # fmt: skip
"""Index of the best published value by loss and by time [Wang2020a, Table 4].

None stands for "insignificant" (loss) and "similar" (time)."""


def best_value_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of best values; nothing without a hyper-parameter whose runs are finished."""
    by_loss = hyperparameter_effects(sweep, lambda run: -final_loss(run))
    by_time = hyperparameter_effects(sweep, lambda run: -training_seconds(run))
    if not by_loss:
        return
    yield Heading("Best values")
    yield Paragraph(
        "The value of each hyper-parameter with the lowest mean final loss and with the lowest mean"
        " time, beside those of Table 4 of [Wang2020a], which names the values of single runs. The"
        " p-values are those of equal means, as in the table of importance: a best value is due to"
        " chance unless they are small. Smaller scales use other values, so compare the names."
    )
    rows: list[list[Cell]] = [
        [
            f"{symbol}, {HYPERPARAMETERS[symbol].title}",
            *_cells(by_loss[symbol], PUBLISHED_BEST[symbol][0]),
            *_cells(by_time[symbol], PUBLISHED_BEST[symbol][1]),
        ]
        for symbol in HYPERPARAMETERS
        if symbol in by_loss
    ]
    columns: list[str | Column] = [
        "parameter", "lowest loss", "published by loss", Column("p, loss", P_VALUE_FORMAT),
        "least time", "published by time", Column("p, time", P_VALUE_FORMAT),
    ]  # fmt: skip
    yield Table("best-values", "Best values by loss and by time", columns, rows)


def _cells(effect: HyperparameterEffect, published_index: int | None) -> list[Cell]:
    """Return the best value, the published one, and the p-value of equal means."""
    best = effect.best_value
    published = "no difference"
    if published_index is not None:
        value = HYPERPARAMETERS[effect.symbol].published_values[published_index]
        published = _named(value, published_index)
    return [_named(best.value, best.value_index), published, effect.adjusted_p_value]


def _named(value: float, index: int) -> str:
    return f"{value:g} ({VALUE_NAMES[index]})"
