"""Tables, JSON and figures of accuracy and of games against perfect play."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zerolab.evaluation.accuracy import AccuracyReport
from zerolab.evaluation.estimates import MeanEstimate
from zerolab.evaluation.opponents import PerfectPlayReport
from zerolab.play.pair_results import PairResult
from zerolab.report.figures import colour, legend_below, new_figure, save_figure
from zerolab.report.interval import Cell
from zerolab.report.table import Column, Table
from zerolab.report.text import print_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def json_value(value: Any) -> Any:
    """Return an object for JSON, with nested NamedTuples converted to dictionaries."""
    if isinstance(value, MeanEstimate):
        return value.as_dict()
    if hasattr(value, "_asdict"):
        return {name: json_value(field) for name, field in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): json_value(field) for key, field in value.items()}
    return [json_value(each) for each in value] if isinstance(value, list | tuple) else value


def perfect_play_dict(report: PerfectPlayReport) -> dict[str, Any]:
    """Return a report on games against perfect play as a dictionary for JSON."""
    others = {
        name: json_value(field) for name, field in report._asdict().items() if name != "pair_result"
    }
    return {"score": report.pair_result.as_dict(), **others}


def print_accuracy(console: Console, reports: Sequence[AccuracyReport]) -> None:
    """Print accuracies with intervals: overall, in non-trivial positions, and by ply."""
    rows: list[list[Cell]] = [
        [f"{report.name}, {title}", *map(_cell, (accuracy.strong, accuracy.weak, accuracy.regret))]
        for part, title in (("all", "all positions"), ("non_trivial", "non-trivial positions"))
        for report in reports
        for accuracy in [getattr(report, part)]
    ]
    columns: list[str | Column] = ["player", Column("strong", ".1%"), Column("weak", ".1%")]
    columns.append(Column("regret per move", ".3f"))
    print_table(console, Table("accuracy", "", columns, rows))
    for report in reports:
        if report.value is not None:
            error, sign = report.value
            console.print(
                f"{report.name}: squared error of the value {_number(error)}; correct winner in"
                f" {percent_text(sign)} of the won and lost positions"
            )
    print_table(console, _table_by_ply(reports))


def _table_by_ply(reports: Sequence[AccuracyReport]) -> Table:
    """Return a table with one row per range of plies.

    Exact accuracies are omitted if there are measured ones. JSON and the figure include them, and
    every ply separately.
    """
    measured = [each for each in reports if each.has_intervals] or list(reports)
    columns = [
        Column(f"{each.name}, {kind}", ".0%") for each in measured for kind in ("strong", "weak")
    ]
    rows: list[list[Cell]] = []
    for index, (first, last, accuracy) in enumerate(measured[0].by_ply_range):
        count = accuracy.strong.sample_count if accuracy.strong else 0
        in_range = [report.by_ply_range[index].accuracy for report in measured]
        cells = [_cell(each) for accuracy in in_range for each in (accuracy.strong, accuracy.weak)]
        rows.append([str(first) if first == last else f"{first}-{last}", count, *cells])
    return Table("by-ply", "", ["plies", "positions", *columns], rows)


def _cell(estimate: MeanEstimate | None) -> Cell:
    """Return an estimate as a cell, without an interval if it is exact."""
    if estimate is None:
        return "unknown"
    value, low, high = estimate.interval
    return estimate.interval if low < high else value


def print_perfect_play(console: Console, report: PerfectPlayReport) -> None:
    """Print the results of games against perfect play."""
    console.print(f"against perfect play: {describe_score(report.pair_result)}")
    for blundered, games_played in (
        (report.blundered, "in all games"),
        (report.blundered_first, "as first player"),
        (report.blundered_second, "as second player"),
    ):
        games = blundered.sample_count if blundered else 0
        console.print(
            f"blundered {games_played}: {percent_text(blundered)} of {games} games that were not"
            " lost from the start"
        )
    if report.blunders_by_ply:
        counts = ", ".join(f"{ply}: {count}" for ply, count in report.blunders_by_ply.items())
        console.print(f"blunders by ply: {counts}")
    console.print(f"regret per move: {_number(report.regret)}")


def describe_score(pair: PairResult) -> str:
    """Return the score of `pair.first` over all games, with an interval from distinct games."""
    score, (score_rate, low, high) = pair.score, pair.interval
    return (
        f"{score_rate:.1%} (95 % interval {low:.1%} to {high:.1%}), {score.wins} won,"
        f" {score.draws} drawn, {score.losses} lost, {pair.distinct_score.games} distinct games"
    )


def percent_text(estimate: MeanEstimate | None) -> str:
    """Return a proportion as a percentage, with its interval unless the proportion is exact."""
    if estimate is None:
        return "unknown"
    mean, low, high = estimate.interval
    return f"{mean:.1%}" + (f" ({low:.1%} to {high:.1%})" if low < high else "")


def _number(estimate: MeanEstimate | None) -> str:
    if estimate is None:
        return "unknown"
    mean, _, high = estimate.interval
    margin = high - mean
    return f"{mean:.3f}" + (f" ± {margin:.3f}" if margin > 0 else "")


MIN_POSITIONS = 10
"""Minimum number of positions at a drawn ply; with fewer, the interval would be too wide."""

_OFFSET = 0.25  # in plies, between the error bars of players


def draw_accuracy(title: str, reports: Sequence[AccuracyReport]) -> Figure:
    """Draw strong and weak accuracy by ply with 95 % intervals, one line per player."""
    figure = new_figure(9, 4)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind in zip(panels, ("strong", "weak"), strict=True):
        for number, report in enumerate(reports):
            _draw(axes, report, kind, number)
        axes.set(title=f"{kind} accuracy", ylim=(0, 1.02))
        axes.set_xlabel(f"ply (with at least {MIN_POSITIONS} positions)")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("moves")
    panels[0].yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:.0f} %")
    legend_below(figure, panels[1].get_legend_handles_labels()[0])
    figure.suptitle(title, parse_math=False)
    return figure


def save_accuracy_figure(path: Path, title: str, reports: Sequence[AccuracyReport]) -> None:
    """Save the figure of `draw_accuracy` in the format of the extension, such as .png or .svg."""
    save_figure(draw_accuracy(title, reports), path)


def _draw(axes: Axes, report: AccuracyReport, kind: str, number: int) -> None:
    """Draw one player with error bars, or as a dashed line if the accuracy is exact."""
    intervals = {
        ply: estimate.interval
        for ply, accuracy in report.by_ply.items()
        if (estimate := getattr(accuracy, kind)) is not None
        and estimate.sample_count >= MIN_POSITIONS
    }
    means = [interval.value for interval in intervals.values()]
    if not report.has_intervals:
        axes.plot(list(intervals), means, linestyle="--", color="0.5", label=report.name)
        return
    errors = [[interval.margins[side] for interval in intervals.values()] for side in (0, 1)]
    axes.errorbar(
        [ply + _OFFSET * number for ply in intervals], means, yerr=errors, marker=".",
        linewidth=1, elinewidth=0.7, capsize=1.5, color=colour(number), label=report.name,
    )  # fmt: skip
