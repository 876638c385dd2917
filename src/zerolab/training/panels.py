"""Training curves from a run's metrics, with one panel per quantity.

`training.curves` draws some of the panels as a figure; the web pages show all panels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from zerolab.training.records import (
    AccuracyRecord,
    GateRecord,
    HeldOutRecord,
    LearnRecord,
    Record,
    SelfPlayRecord,
)

XAxis = Literal["iterations", "games", "hours"]
"""The x axis: iterations, games of self-play, or hours of training."""

BEST_NETWORK_SERIES = "best network"
"""Name of the series of accepted networks in the panel of training Elo."""

_MIN_SECONDS = 1e-9
_Placed = tuple[float, Record]  # a record with its x coordinate
_Point = tuple[float, float | None]


@dataclass(frozen=True)
class Series:
    """A curve in a panel."""

    name: str
    points: list[tuple[float, float | None]]
    """[x, y] in order of x; y is None for a missing measurement."""
    band: list[tuple[float, float, float]] | None = None
    """[x, low, high]: ends of 95 % confidence intervals."""


@dataclass(frozen=True)
class Panel:
    """Curves with a common vertical axis."""

    key: str
    """Identifier of the quantity, the same in all runs."""
    title: str
    unit: str
    series: list[Series]


def metric_panels(records: Sequence[Record], x: XAxis = "iterations") -> list[Panel]:
    """Return all panels with at least one measurement."""
    placed = list(zip(x_coordinates(records, x), records, strict=True))
    panels = [
        _losses(placed),
        _elo(placed),
        *_accuracy(placed),
        *_validation(placed),
        _speed(placed),
        _simulations(placed),
        _samples(placed),
        _seconds(placed),
        _length(placed),
        _distinct(placed),
        _memory(placed),
    ]
    return [each for each in map(_without_empty_series, panels) if each.series]


@dataclass(frozen=True)
class Trend:
    """Sparkline that shows at a glance how a run is progressing."""

    name: str
    """Quantity; empty without measurements."""
    values: list[float]
    """At most `MAX_TREND_VALUES` measurements in time order, including the first and the latest."""


MAX_TREND_VALUES = 40


def trend_of_run(records: Sequence[Record]) -> Trend:
    """Return a run's accuracy on solved positions if measured more than once, or else its loss."""
    accuracies = [r.search_strong for r in records if isinstance(r, AccuracyRecord)]
    if len(accuracies) > 1:
        return Trend("accuracy", _thinned(accuracies))
    learned = [r for r in records if isinstance(r, LearnRecord)]
    losses = [
        r.loss.get("total", sum(r.loss.get(head, 0.0) for head in r.head_names)) for r in learned
    ]
    return Trend("loss" if losses else "", _thinned(losses))


def _thinned(values: Sequence[float]) -> list[float]:
    last, most = len(values) - 1, MAX_TREND_VALUES - 1
    if last < most:
        return list(values)
    return [values[round(place * last / most)] for place in range(MAX_TREND_VALUES)]


def x_coordinates(records: Sequence[Record], x: XAxis) -> list[float]:
    """Return the x coordinate of each record."""
    if x == "hours":
        return [seconds / 3600 for seconds in accumulate(each.wall_seconds for each in records)]
    if x == "games":
        played = (each.games if isinstance(each, SelfPlayRecord) else 0 for each in records)
        return [float(games) for games in accumulate(played)]
    return [float(record.iteration) for record in records]


def _without_empty_series(panel: Panel) -> Panel:
    measured = [each for each in panel.series if any(y is not None for _, y in each.points)]
    return replace(panel, series=measured)


def _line(
    placed: Sequence[_Placed], kind: type[Record], value: Callable[..., float | None]
) -> list[_Point]:
    return [(x, value(record)) for x, record in placed if isinstance(record, kind)]


def _losses(placed: Sequence[_Placed]) -> Panel:
    learned = [record for _, record in placed if isinstance(record, LearnRecord)]
    heads = list(dict.fromkeys(head for record in learned for head in record.head_names))
    series = [
        Series(name=head, points=_line(placed, LearnRecord, lambda r, h=head: r.loss.get(h)))
        for head in heads
    ]
    return Panel(key="loss", title="Loss in the last epoch", unit="loss", series=series)


def _elo(placed: Sequence[_Placed]) -> Panel:
    best = Series(name=BEST_NETWORK_SERIES, points=_line(placed, GateRecord, lambda r: r.elo))
    band = [
        (x, r.candidate_elo_low, r.candidate_elo_high)
        for x, r in placed
        if isinstance(r, GateRecord)
        and r.candidate_elo_low is not None
        and r.candidate_elo_high is not None
    ]
    points = _line(placed, GateRecord, lambda r: r.candidate_elo)
    candidate = Series(name="candidate", points=points, band=band or None)
    return Panel(key="elo", title="Training Elo", unit="Elo", series=[best, candidate])


def _accuracy(placed: Sequence[_Placed]) -> list[Panel]:
    titles = {
        "strong": "Best move found in solved positions",
        "weak": "Result preserved in solved positions",
    }
    names = {"network": "network alone", "search": "with search"}
    return [
        Panel(
            key=f"accuracy-{measure}",
            title=title,
            unit="share",
            series=[
                _with_interval(placed, AccuracyRecord, f"{player}_{measure}", name)
                for player, name in names.items()
            ],
        )
        for measure, title in titles.items()
    ]


def _validation(placed: Sequence[_Placed]) -> list[Panel]:
    parts = [
        (x, record)
        for x, record in placed
        if isinstance(record, HeldOutRecord) and record.part == "validation"
    ]
    titles = {"strong": "Best move found (validation)", "result": "Result predicted (validation)"}
    return [
        Panel(
            key=f"validation-{measure}",
            title=title,
            unit="share",
            series=[_with_interval(parts, HeldOutRecord, measure, "network")],
        )
        for measure, title in titles.items()
    ]


def _with_interval(placed: Sequence[_Placed], kind: type[Record], field: str, name: str) -> Series:
    matching = [(x, record) for x, record in placed if isinstance(record, kind)]
    return Series(
        name=name,
        points=[(x, getattr(record, field)) for x, record in matching],
        band=[
            (x, getattr(record, f"{field}_low"), getattr(record, f"{field}_high"))
            for x, record in matching
        ],
    )


def _speed(placed: Sequence[_Placed]) -> Panel:
    def rate(record: SelfPlayRecord) -> float:
        return record.searched_move_count / max(record.wall_seconds, _MIN_SECONDS)

    return _single_curve(
        placed, SelfPlayRecord, rate, "speed", "Self-play positions per second", "1/s"
    )


def _simulations(placed: Sequence[_Placed]) -> Panel:
    def rate(record: SelfPlayRecord) -> float:
        return record.simulations / max(record.wall_seconds, _MIN_SECONDS)

    return _single_curve(
        placed, SelfPlayRecord, rate, "simulations", "Simulations per second", "1/s"
    )


def _samples(placed: Sequence[_Placed]) -> Panel:
    def rate(record: LearnRecord) -> float:
        return record.examples_seen / max(record.wall_seconds, _MIN_SECONDS)

    return _single_curve(
        placed, LearnRecord, rate, "samples", "Training examples per second", "1/s"
    )


def _seconds(placed: Sequence[_Placed]) -> Panel:
    """Return the seconds per stage, summed over the stage's records in an iteration."""
    seconds: dict[str, dict[float, float]] = {}
    ends = {record.iteration: x for x, record in placed}
    for _, record in placed:
        name, x = record.stage.replace("_", " "), ends[record.iteration]
        stage_seconds = seconds.setdefault(name, {})
        stage_seconds[x] = stage_seconds.get(x, 0.0) + record.wall_seconds
    series = [Series(name=name, points=list(points.items())) for name, points in seconds.items()]
    return Panel(key="seconds", title="Seconds per stage", unit="s", series=series)


def _length(placed: Sequence[_Placed]) -> Panel:
    return _single_curve(
        placed, SelfPlayRecord, lambda r: r.plies_per_game, "length", "Game length", "plies"
    )


def _distinct(placed: Sequence[_Placed]) -> Panel:
    def share(record: SelfPlayRecord) -> float | None:
        return record.distinct_games / record.games if record.games else None

    return _single_curve(
        placed, SelfPlayRecord, share, "distinct", "Distinct self-play games", "share"
    )


def _memory(placed: Sequence[_Placed]) -> Panel:
    """Return the peak memory so far, after the last stage of each iteration."""
    ends = {record.iteration: x for x, record in placed}
    last = {ends[record.iteration]: record.wall_memory for _, record in placed}
    title = "Peak memory so far"
    series = [Series(name=title.lower(), points=list(last.items()))]
    return Panel(key="memory", title=title, unit="MiB", series=series)


def _single_curve(
    placed: Sequence[_Placed],
    kind: type[Record],
    value: Callable[..., float | None],
    key: str,
    title: str,
    unit: str,
) -> Panel:
    """Return a panel with a single curve."""
    series = [Series(name=title.lower(), points=_line(placed, kind, value))]
    return Panel(key=key, title=title, unit=unit, series=series)
