"""Measurements, table and figure of the strength benchmark."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

from zerolab.agents.kinds.run import read_playable_run, run_agent
from zerolab.agents.options import NetworkOptions, parse_options
from zerolab.bench.strength_settings import PUBLISHED, VARIANTS, StrengthSettings
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import read_text, write_text
from zerolab.evaluation.accuracy import agent_accuracy
from zerolab.evaluation.estimates import Estimate
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import Progress
from zerolab.report.figures import COLOURS, colour, legend_below, new_figure
from zerolab.report.interval import Cell, Interval, wilson
from zerolab.report.table import Column, Table
from zerolab.search.search_settings import SearchSettings
from zerolab.store.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LARGEST = 1 << 26
_SEED = 0  # same random numbers for all networks, so that only the networks differ


def _share_dict(share: Interval) -> dict[str, float]:
    """Return a share of moves as files have it."""
    return {"mean": share.value, "low": share.low, "high": share.high}


def _parse_share(table: Any) -> Any:
    """Return the fields of a share from a file."""
    if not isinstance(table, Mapping):
        return table
    return {("value" if key == "mean" else key): number for key, number in table.items()}


Share = Annotated[Interval, BeforeValidator(_parse_share), PlainSerializer(_share_dict)]
"""A share of moves with its 95 % interval."""


class Measured(Settings):
    """Accuracy of one network, with search and without."""

    variant: str
    seed: int
    network: int
    due: float
    """Hours for which this is the first network measured."""
    hours: float
    """Hours of self-play, learning and gates until the network was finished."""
    strong: Share
    """Share of search moves that are optimal."""
    weak: Share
    """Share of search moves that preserve the result."""
    network_strong: Share
    network_weak: Share


class Measurements:
    """Benchmark measurements, stored in a JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = list(self._read()) if path.exists() else []

    def _read(self) -> Iterator[Measured]:
        for line in read_text(self._path, _LARGEST).splitlines():
            try:
                table = json.loads(line)
            except ValueError:
                raise UserError(f"{self._path} is damaged: expected JSON lines") from None
            yield validate(Measured, table, source=str(self._path))

    def has(self, variant: str, seed: int, network: int) -> bool:
        """Return whether a network has been measured."""
        return any((m.variant, m.seed, m.network) == (variant, seed, network) for m in self.all)

    def add(self, measured: Measured) -> None:
        """Add a measurement and replace the file atomically."""
        self.all.append(measured)
        lines = [json.dumps(each.model_dump()) for each in self.all]
        write_text(self._path, "\n".join([*lines, ""]))


def search_at_test(trained: SearchSettings, settings: StrengthSettings) -> NetworkOptions:
    """Return the test's search options; raise UserError if they are invalid."""
    text = "&".join((f"simulations={settings.simulations}", *settings.test_search))
    return parse_options(NetworkOptions, text, trained)


def measure(
    run: RunFolder,
    checkpoint: Checkpoint,
    positions: Positions,
    settings: StrengthSettings,
    progress: Progress,
) -> dict[str, Interval]:
    """Return the share fields of `Measured` for one network of a run."""
    agent = run_agent(
        run, checkpoint.network, search_at_test(read_playable_run(run).search, settings)
    )
    alone, searched, _ = agent_accuracy(agent, positions, _SEED, progress)
    return {
        "strong": _share(searched.all.strong),
        "weak": _share(searched.all.weak),
        "network_strong": _share(alone.all.strong),
        "network_weak": _share(alone.all.weak),
    }


def _share(estimate: Estimate | None) -> Interval:
    assert estimate is not None  # there are positions
    return estimate.interval


_PUBLISHED_GAME = "connect_four:6x7"
_LEAST_HOURS = 0.5  # published curves start at 3 hours and would compress shorter ones
_MARKERS = "os^Dv*"
_KINDS = ("strong", "weak", "network_strong")
_HEADINGS = ("strong", "weak", "network alone, strong")


class Point(NamedTuple):
    """Mean over a variant's runs measured at about the same time."""

    hours: float
    runs: int
    shares: dict[str, Interval]
    """Shares by field of `Measured`. Intervals cover variation between positions, not runs."""
    by_run: tuple[float, ...]
    """Strong accuracy with search for each run, which shows the variation between runs."""


def curves(measured: Sequence[Measured], settings: StrengthSettings) -> dict[str, list[Point]]:
    """Return the points of each variant in chronological order."""
    points: dict[str, list[Point]] = {}
    for variant in settings.variants:
        by_time: dict[float, list[Measured]] = {}
        for each in measured:
            if each.variant == variant:
                by_time.setdefault(each.due, []).append(each)
        points[variant] = [_point(by_time[due], settings.positions) for due in sorted(by_time)]
    return points


def _point(runs: Sequence[Measured], positions: int) -> Point:
    def mean(kind: str) -> Interval:
        return wilson(statistics.mean(getattr(run, kind).value for run in runs), positions)

    hours = statistics.mean(run.hours for run in runs)
    strong = tuple(run.strong.value for run in sorted(runs, key=lambda run: run.seed))
    return Point(hours, len(runs), {kind: mean(kind) for kind in _KINDS}, strong)


def table(curves: dict[str, list[Point]], settings: StrengthSettings) -> Table:
    """Return the last point of every variant."""
    rows: list[list[Cell]] = []
    for variant, points in curves.items():
        if points:
            last = points[-1]
            shares = [last.shares[kind] for kind in _KINDS]
            runs = ", ".join(f"{100 * share:.1f}" for share in last.by_run)
            rows.append([variant, VARIANTS[variant].about, last.hours, *shares, runs])
    return Table(
        "strength",
        f"{settings.game}, {settings.simulations} simulations, {settings.positions} positions;"
        " 95 % intervals of the positions",
        [
            "variant", "description", Column("hours", ".2f"),
            *(Column(heading, ".1%") for heading in _HEADINGS), "strong, by run",
        ],
        rows,
    )  # fmt: skip


def as_dict(curves: dict[str, list[Point]]) -> dict[str, Any]:
    """Return the points in JSON-compatible form."""
    return {
        variant: [
            {
                "hours": round(point.hours, 4),
                "runs": point.runs,
                "strong_by_run": list(point.by_run),
                **{kind: _share_dict(share) for kind, share in point.shares.items()},
            }
            for point in points
        ]
        for variant, points in curves.items()
    }


def draw(curves: dict[str, list[Point]], settings: StrengthSettings) -> Figure:
    """Draw strong and weak accuracy with search against hours, with confidence intervals."""
    figure = new_figure(10, 4.6)
    strong, weak = figure.subplots(1, 2)
    for number, (variant, points) in enumerate(curves.items()):
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
        [share.value for share in shares],
        yerr=[[share.margins[side] for share in shares] for side in (0, 1)],
        marker=_MARKERS[number // len(COLOURS) % len(_MARKERS)], markersize=4, linewidth=1.2,
        elinewidth=0.7, capsize=2, color=colour(number), label=label,
    )  # fmt: skip


def _draw_published(axes: Axes) -> None:
    for (label, points), mark in zip(PUBLISHED.items(), _MARKERS, strict=True):
        hours, shares = zip(*points, strict=True)
        axes.plot(hours, shares, f"{mark}:", color="0.55", markersize=4, linewidth=0.8, label=label)


class Checkpoint(NamedTuple):
    """Network of a run and the time spent training it."""

    network: int
    hours: float
    due: float = 0.0
    """Time at which the network is measured, in hours; 0 if none has been assigned."""
