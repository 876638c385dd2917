"""Which hyper-parameters matter, by a rule stated in the report [Wang2020a, Table 4]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean as mean
from typing import NamedTuple

from zerolab.studies.analyses.hyperparameters.sweep_runs import (
    Measure,
    Setting,
    Sweep,
    final_loss,
    seconds,
)
from zerolab.studies.analyses.hyperparameters.values import DEFAULT_HOURS, FACTORS
from zerolab.studies.joint_estimates import RangeEstimate, range_of_means
from zerolab.studies.panels.intervals import Row, draw_intervals
from zerolab.studies.report.cells import P_VALUE, Cell
from zerolab.studies.report.document import Block, Column, DataTable, Heading, Paragraph, Picture
from zerolab.studies.statistics import LEVEL, holm

_RULE = (
    "The rule: the effect of a hyper-parameter is the largest difference between the means of its"
    " three values, the others being at their defaults. Parameters are ranked by their effect on"
    " final Elo, and separately on final loss (policy plus value, last epoch of the last iteration)"
    " and on time (over the mean time of the default). Intervals are over runs, never over games:"
    " those of [Tukey1949] for all differences between three means, with the spread between runs"
    " of one setting pooled over all settings. A measured difference lies above 0 whatever happens:"
    " beside it stands what chance alone would give, and p is the probability of as large a"
    " difference between equal settings, adjusted for twelve parameters [Holm1979]. All runs are"
    " independent, whatever their seed: those of different values have not even the first network"
    " in common. Those with all defaults count for every parameter, so that the effects of two"
    " parameters are not independent. Effects depend on how far apart the three values are, and a"
    " loss is measured on the positions that a run itself has played, which parameters change: a"
    " lower loss is no better play."
)

_NO_ERRORS = (
    "No error of measuring stands beside it: an effect is a difference between means over runs, and"
    " the spread between runs, from which its interval is made, has that error in it."
)


class Effect(NamedTuple):
    """How much of one measure the three values of a hyper-parameter make."""

    symbol: str
    size: RangeEstimate
    adjusted_p: float
    best: Setting
    """The value with the highest mean."""


def effects(sweep: Sweep, measure: Measure) -> dict[str, Effect]:
    """Return the effects on a measure, the largest first; parameters lacking a value are left out.

    p-values are adjusted over those that are there.
    """
    known = {
        symbol: [[measure(run) for run in each.runs] for each in settings]
        for symbol, settings in sweep.by_symbol.items()
        if all(each.runs for each in settings)
    }
    alike = [[measure(run) for run in runs] for runs in sweep.settings]
    sizes = {symbol: range_of_means(groups, alike) for symbol, groups in known.items()}
    adjusted = holm([size.p_value(0.0) for size in sizes.values()])
    found = []
    for (symbol, groups), p in zip(known.items(), adjusted, strict=True):
        best = max(range(len(groups)), key=[mean(group) for group in groups].__getitem__)
        found.append(Effect(symbol, sizes[symbol], p, sweep.by_symbol[symbol][best]))
    return {each.symbol: each for each in sorted(found, key=lambda each: -each.size.value)}


def importance_blocks(sweep: Sweep) -> Iterator[Block]:
    """Yield the table of importance and its figure."""
    yield Heading("Which parameters matter")
    yield Paragraph(_RULE)
    default = mean(map(seconds, sweep.default)) if sweep.default else 1.0
    measured: dict[str, dict[str, Effect]] = {
        "loss": effects(sweep, final_loss),
        "time": effects(sweep, lambda run: seconds(run) / default),
    }
    if sweep.tournament is not None:
        measured = {"Elo": effects(sweep, sweep.elo), **measured}
    if not measured["time"]:
        yield Paragraph("No hyper-parameter has a finished run of each value yet.")
        return
    if "Elo" not in measured:
        yield Paragraph(f"There is no Elo yet: {sweep.results.missing()}.")
    yield _picture(measured)
    yield _table(measured)
    yield Paragraph(_words(measured))


def _picture(measured: Mapping[str, Mapping[str, Effect]]) -> Picture:
    name, found = next(iter(measured.items()))
    rows = {}
    for symbol, effect in found.items():
        chance = effect.size.by_chance
        beside = "" if chance is None else f" (chance: {chance:{_FORMATS[name]}})"
        rows[f"{_title(symbol)}{beside}"] = Row(effect.size)
    figure = draw_intervals(
        rows, f"Effect on {name}: largest difference between three values", name,
        number_format=_FORMATS[name],
    )  # fmt: skip
    if all(effect.size.by_chance is None for effect in found.values()):
        caption = "By the rule above. With one run of each setting, all of it may be chance."
    else:
        caption = (
            "By the rule above; in parentheses what chance alone would give, from the spread"
            " between runs of one setting. An interval that leaves out 0 shows an effect, but for"
            " looking at twelve parameters at once: the table's p takes that into account."
        )
    return Picture("effects", figure, f"{caption} {_NO_ERRORS}")


def _title(symbol: str) -> str:
    return f"{symbol}, {FACTORS[symbol].title}"


_FORMATS = {"Elo": ".0f", "loss": ".3f", "time": ".2f"}


def _table(measured: Mapping[str, Mapping[str, Effect]]) -> DataTable:
    ranks = {
        name: {symbol: rank for rank, symbol in enumerate(found, 1)}
        for name, found in measured.items()
    }
    rows: list[list[Cell]] = []
    for symbol in next(iter(measured.values())):
        row: list[Cell] = [_title(symbol)]
        for name, found in measured.items():
            each = found[symbol]
            row += [ranks[name][symbol], each.size, each.size.by_chance, each.adjusted_p]
        hours = (*FACTORS[symbol].hours, DEFAULT_HOURS)
        row.append((max(hours) - min(hours)) / DEFAULT_HOURS)
        row.append(next(iter(measured.values()))[symbol].best.name)
        rows.append(row)
    columns: list[str | Column] = ["parameter"]
    for name in measured:
        columns += [
            f"rank by {name}", Column(f"effect on {name}", _FORMATS[name]),
            Column(f"by chance, {name}", _FORMATS[name]), Column(f"p, {name}", P_VALUE),
        ]  # fmt: skip
    columns += [
        Column("published effect on time", ".2f"), f"value of the most {next(iter(measured))}"
    ]  # fmt: skip
    return DataTable("importance", "Importance of hyper-parameters", columns, rows)


def _words(measured: Mapping[str, Mapping[str, Effect]]) -> str:
    told = []
    for name, found in measured.items():
        sure = [symbol for symbol, each in found.items() if each.adjusted_p < LEVEL]
        told.append(f"on {name}: {_listed(sure)}")
    return f"Effects that are shown, {'; '.join(told)}. The others may be there or not."


def _listed(symbols: Sequence[str]) -> str:
    return ", ".join(symbols) or "none"
