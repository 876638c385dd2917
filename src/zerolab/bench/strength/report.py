"""What a strength benchmark has found, as a table and a figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zerolab.bench.strength.measuring import Measured, Share
from zerolab.bench.strength.published import PUBLISHED
from zerolab.bench.strength.settings import StrengthSettings
from zerolab.bench.strength.variants import VARIANTS
from zerolab.core.figures import COLOURS, colour, legend_below, new_figure
from zerolab.ratings.score import wilson
from zerolab.studies.report.cells import Cell, GivenInterval
from zerolab.studies.report.document import Column, DataTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PUBLISHED_GAME = "connect_four:6x7"
_LEAST_HOURS = 0.5  # of a benchmark that published curves, of 3 hours and more, do not squeeze
_MARKERS = "os^Dv*"
_KINDS = ("strong", "weak", "network_strong")
_HEADINGS = ("strong", "weak", "network alone, strong")


class Point(NamedTuple):
    """The mean over the runs of a variant that were measured after about the same time."""

    hours: float
    runs: int
    shares: dict[str, Share]
    """By the fields of `Measured`; intervals are those of the positions, not of the runs."""
    by_run: tuple[float, ...]
    """Strong accuracy of the search of each run: how much runs differ."""


def curves(measured: Sequence[Measured], settings: StrengthSettings) -> dict[str, list[Point]]:
    """Return the points of each variant in the order of time."""
    found: dict[str, list[Point]] = {}
    for variant in settings.variants:
        rounds: dict[float, list[Measured]] = {}
        for each in measured:
            if each.variant == variant:
                rounds.setdefault(each.due, []).append(each)
        found[variant] = [_point(rounds[due], settings.positions) for due in sorted(rounds)]
    return found


def _point(runs: Sequence[Measured], positions: int) -> Point:
    def mean(kind: str) -> Share:
        share = statistics.mean(getattr(run, kind).mean for run in runs)
        low, high = wilson(share, positions)
        return Share(mean=share, low=low, high=high)

    hours = statistics.mean(run.hours for run in runs)
    strong = tuple(run.strong.mean for run in sorted(runs, key=lambda run: run.seed))
    return Point(hours, len(runs), {kind: mean(kind) for kind in _KINDS}, strong)


def table(found: dict[str, list[Point]], settings: StrengthSettings) -> DataTable:
    """Return the last point of every variant."""
    rows: list[list[Cell]] = []
    for variant, points in found.items():
        if points:
            last = points[-1]
            shares = [_cell(last.shares[kind]) for kind in _KINDS]
            runs = ", ".join(f"{100 * share:.1f}" for share in last.by_run)
            rows.append([variant, VARIANTS[variant].about, last.hours, *shares, runs])
    return DataTable(
        "strength",
        f"{settings.game}, {settings.simulations} simulations, {settings.positions} positions;"
        " 95 % intervals of the positions",
        [
            "variant", "what it is", Column("hours", ".2f"),
            *(Column(heading, ".1%") for heading in _HEADINGS), "strong, by run",
        ],
        rows,
    )  # fmt: skip


def _cell(share: Share) -> GivenInterval:
    return GivenInterval(share.mean, share.low, share.high)


def as_dict(found: dict[str, list[Point]]) -> dict[str, Any]:
    """Return the points for JSON."""
    return {
        variant: [
            {
                "hours": round(point.hours, 4),
                "runs": point.runs,
                "strong_by_run": list(point.by_run),
                **{kind: share.model_dump() for kind, share in point.shares.items()},
            }
            for point in points
        ]
        for variant, points in found.items()
    }


def draw(found: dict[str, list[Point]], settings: StrengthSettings) -> Figure:
    """Draw strong and weak accuracy of the search over hours, with intervals."""
    figure = new_figure(10, 4.6)
    strong, weak = figure.subplots(1, 2)
    for number, (variant, points) in enumerate(found.items()):
        for axes, kind in ((strong, "strong"), (weak, "weak")):
            _draw_points(axes, points, kind, variant, number)
    if settings.game == _PUBLISHED_GAME and settings.hours >= _LEAST_HOURS:
        _draw_published(strong)
    for axes, title in ((strong, "strong accuracy"), (weak, "weak accuracy")):
        axes.set(title=title, xlabel="hours", xscale="log")
        axes.xaxis.set_major_formatter(_hours)
        axes.xaxis.set_minor_formatter(_hours)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.4g} %")
        axes.grid(alpha=0.3, which="both")
    legend_below(figure, strong.get_legend_handles_labels()[0])
    figure.suptitle(
        f"{settings.game}: moves with {settings.simulations} simulations on"
        f" {settings.positions} solved positions, 95 % intervals of these",
        parse_math=False,
    )
    return figure


def _hours(hours: float, _: int | None) -> str:
    """Label 0.1, 0.2, 0.5, 1 and so on."""
    return f"{hours:g}" if f"{hours:e}"[0] in "125" else ""


def _draw_points(axes: Axes, points: Sequence[Point], kind: str, label: str, number: int) -> None:
    shares = [point.shares[kind] for point in points]
    axes.errorbar(
        [point.hours for point in points],
        [share.mean for share in shares],
        yerr=[
            [max(0.0, share.mean - share.low) for share in shares],
            [max(0.0, share.high - share.mean) for share in shares],
        ],
        marker=_MARKERS[number // len(COLOURS) % len(_MARKERS)], markersize=4, linewidth=1.2,
        elinewidth=0.7, capsize=2, color=colour(number), label=label,
    )  # fmt: skip


def _draw_published(axes: Axes) -> None:
    for (label, points), mark in zip(PUBLISHED.items(), _MARKERS, strict=True):
        hours, shares = zip(*points, strict=True)
        axes.plot(hours, shares, f"{mark}:", color="0.55", markersize=4, linewidth=0.8, label=label)
