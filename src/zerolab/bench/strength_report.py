"""Measurements of the strength benchmark, and their table and figure."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

from zerolab.agents.agent import NetworkOptions, parse_search_options
from zerolab.agents.run_agents import agent_of_run, read_play_settings
from zerolab.bench.benchmarks import PUBLISHED_ACCURACY, StrengthSettings, strength_variant
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import read_text, write_text
from zerolab.evaluation.accuracy import agent_accuracy_reports
from zerolab.evaluation.position_statistics import MeanEstimate
from zerolab.evaluation.positions import SolvedPositions
from zerolab.play.engine import ProgressCallback
from zerolab.report.figures import COLOURS, add_legend_below, new_figure, series_colour
from zerolab.report.table import Cell, Column, Interval, Table, wilson_interval
from zerolab.search.search_settings import SearchSettings
from zerolab.store.run_folder import RunFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MAX_BYTES = 1 << 26
_SEED = 0  # the same random numbers for all networks, so that only the networks differ


def _share_dict(share: Interval) -> dict[str, float]:
    """Return a share of moves as a dictionary for files."""
    return {"mean": share.value, "low": share.low, "high": share.high}


def _parse_share(table: Any) -> Any:
    """Return the fields of a share of moves from a dictionary read from a file."""
    if not isinstance(table, Mapping):
        return table
    return {("value" if key == "mean" else key): number for key, number in table.items()}


ShareWithInterval = Annotated[Interval, BeforeValidator(_parse_share), PlainSerializer(_share_dict)]
"""Share of moves with its 95 % interval."""


class CheckpointAccuracy(Settings):
    """Accuracy of a network, with search and without."""

    variant: str
    seed: int
    network: int
    """Iteration of the network."""
    due: float
    """Due time in hours; the network is the first one finished at or after this time."""
    hours: float
    """Hours of self-play, learning and gates until the network was finished."""
    strong: ShareWithInterval
    """Share of the search's moves that are best moves."""
    weak: ShareWithInterval
    """Share of the search's moves that preserve the result."""
    network_strong: ShareWithInterval
    """Share of the network's moves without search that are best moves."""
    network_weak: ShareWithInterval
    """Share of the network's moves without search that preserve the result."""


class AccuracyLog:
    """Measured accuracies of networks, stored in a JSON Lines file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries = list(self._read()) if path.exists() else []

    def _read(self) -> Iterator[CheckpointAccuracy]:
        for line in read_text(self._path, _MAX_BYTES).splitlines():
            try:
                table = json.loads(line)
            except (ValueError, RecursionError):
                raise UserError(f"{self._path} is damaged: expected JSON lines") from None
            yield validate(CheckpointAccuracy, table, source=str(self._path))

    def run_entries(self, variant: str, seed: int) -> list[CheckpointAccuracy]:
        """Return the entries of one run."""
        return [each for each in self.entries if (each.variant, each.seed) == (variant, seed)]

    def add(self, accuracy: CheckpointAccuracy) -> None:
        """Add an entry and replace the file atomically."""
        self.entries.append(accuracy)
        lines = [json.dumps(each.model_dump()) for each in self.entries]
        write_text(self._path, "\n".join([*lines, ""]))


def evaluation_search_options(
    trained: SearchSettings, settings: StrengthSettings
) -> NetworkOptions:
    """Return the search options for measurements; raise UserError if they are invalid.

    `trained` are the search settings used in training.
    """
    text = "&".join((f"simulations={settings.simulations}", *settings.test_search))
    return parse_search_options(NetworkOptions, text, trained)


def measure_checkpoint_accuracy(
    run: RunFolder,
    checkpoint: TimedCheckpoint,
    positions: SolvedPositions,
    settings: StrengthSettings,
    progress: ProgressCallback,
) -> dict[str, Interval]:
    """Return the shares of `CheckpointAccuracy` by field for one network of a run."""
    agent = agent_of_run(
        run, checkpoint.network, evaluation_search_options(read_play_settings(run).search, settings)
    )
    alone, searched, _ = agent_accuracy_reports(agent, positions, _SEED, progress)
    return {
        "strong": _share(searched.all_positions.strong),
        "weak": _share(searched.all_positions.weak),
        "network_strong": _share(alone.all_positions.strong),
        "network_weak": _share(alone.all_positions.weak),
    }


def _share(estimate: MeanEstimate | None) -> Interval:
    assert estimate is not None  # there is at least one position
    return estimate.interval


_PUBLISHED_GAME = "connect_four:6x7"
_MIN_HOURS = 0.5  # published curves start at 3 hours and would squeeze shorter ones
_MARKERS = "os^Dv*"
_SHARE_NAMES = ("strong", "weak", "network_strong")
_SHARE_TITLES = ("strong", "weak", "network alone, strong")


class StrengthPoint(NamedTuple):
    """Mean accuracy over the runs of a variant at one due time."""

    hours: float
    """Mean hours of training."""
    run_count: int
    accuracies: dict[str, Interval]
    """Shares by field of `CheckpointAccuracy`. The intervals cover variation between positions, not
    between runs."""
    strong_accuracy_by_run: tuple[float, ...]
    """Each run's strong accuracy with search, which shows the variation between runs."""


def strength_curves(
    accuracies: Sequence[CheckpointAccuracy], settings: StrengthSettings
) -> dict[str, list[StrengthPoint]]:
    """Return the points of each variant in chronological order."""
    points: dict[str, list[StrengthPoint]] = {}
    for variant in settings.variants:
        by_time: dict[float, list[CheckpointAccuracy]] = {}
        for each in accuracies:
            if each.variant == variant:
                by_time.setdefault(each.due, []).append(each)
        points[variant] = [_point(by_time[due], settings.positions) for due in sorted(by_time)]
    return points


def _point(runs: Sequence[CheckpointAccuracy], positions: int) -> StrengthPoint:
    def mean(share_name: str) -> Interval:
        return wilson_interval(
            statistics.mean(getattr(run, share_name).value for run in runs), positions
        )

    hours = statistics.mean(run.hours for run in runs)
    strong = tuple(run.strong.value for run in sorted(runs, key=lambda run: run.seed))
    return StrengthPoint(
        hours, len(runs), {share_name: mean(share_name) for share_name in _SHARE_NAMES}, strong
    )


def strength_table(curves: dict[str, list[StrengthPoint]], settings: StrengthSettings) -> Table:
    """Return a table with the last point of every variant."""
    rows: list[list[Cell]] = []
    for variant, points in curves.items():
        if points:
            last = points[-1]
            shares = [last.accuracies[share_name] for share_name in _SHARE_NAMES]
            runs = ", ".join(f"{100 * share:.1f}" for share in last.strong_accuracy_by_run)
            rows.append([variant, strength_variant(variant).description, last.hours, *shares, runs])
    return Table(
        "strength",
        f"{settings.game}, {settings.simulations} simulations, {settings.positions} positions;"
        " 95 % intervals over positions",
        [
            "variant", "description", Column("hours", ".2f"),
            *(Column(title, ".1%") for title in _SHARE_TITLES), "strong, by run",
        ],
        rows,
    )  # fmt: skip


def curves_as_dict(curves: dict[str, list[StrengthPoint]]) -> dict[str, Any]:
    """Return the points of each variant for JSON."""
    return {
        variant: [
            {
                "hours": round(point.hours, 4),
                "runs": point.run_count,
                "strong_by_run": list(point.strong_accuracy_by_run),
                **{
                    share_name: _share_dict(share) for share_name, share in point.accuracies.items()
                },
            }
            for point in points
        ]
        for variant, points in curves.items()
    }


def draw_strength_curves(
    curves: dict[str, list[StrengthPoint]], settings: StrengthSettings
) -> Figure:
    """Draw strong and weak accuracy with search against hours, with 95 % intervals."""
    figure = new_figure(10, 4.6)
    strong, weak = figure.subplots(1, 2)
    for number, (variant, points) in enumerate(curves.items()):
        for axes, share_name in ((strong, "strong"), (weak, "weak")):
            _draw_points(axes, points, share_name, variant, number)
    if settings.game == _PUBLISHED_GAME and settings.hours >= _MIN_HOURS:
        _draw_published(strong)
    for axes, title in ((strong, "strong accuracy"), (weak, "weak accuracy")):
        axes.set(title=title, xlabel="hours", xscale="log")
        axes.xaxis.set_major_formatter(_hours)
        axes.xaxis.set_minor_formatter(_hours)
        axes.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.4g} %")
        axes.grid(alpha=0.3, which="both")
    add_legend_below(figure, strong.get_legend_handles_labels()[0])
    figure.suptitle(
        f"{settings.game}: moves with {settings.simulations} simulations on"
        f" {settings.positions} solved positions, with 95 % intervals over positions",
        parse_math=False,
    )
    return figure


def _hours(hours: float, _: int | None) -> str:
    """Return a label for 0.1, 0.2, 0.5, 1 and so on, and an empty string for other numbers."""
    return f"{hours:g}" if f"{hours:e}"[0] in "125" else ""


def _draw_points(
    axes: Axes, points: Sequence[StrengthPoint], share_name: str, label: str, number: int
) -> None:
    shares = [point.accuracies[share_name] for point in points]
    axes.errorbar(
        [point.hours for point in points],
        [share.value for share in shares],
        yerr=[[share.margins[side] for share in shares] for side in (0, 1)],
        marker=_MARKERS[number // len(COLOURS) % len(_MARKERS)], markersize=4, linewidth=1.2,
        elinewidth=0.7, capsize=2, color=series_colour(number), label=label,
    )  # fmt: skip


def _draw_published(axes: Axes) -> None:
    for (label, points), mark in zip(PUBLISHED_ACCURACY.items(), _MARKERS, strict=True):
        hours, shares = zip(*points, strict=True)
        axes.plot(hours, shares, f"{mark}:", color="0.55", markersize=4, linewidth=0.8, label=label)


class TimedCheckpoint(NamedTuple):
    """Network of a run, and the time spent training it."""

    network: int
    """Iteration of the network."""
    hours: float
    """Hours of self-play, learning and gates until the network was finished."""
    due: float = 0.0
    """Due time in hours, see `CheckpointAccuracy`; 0 if none has been assigned."""
