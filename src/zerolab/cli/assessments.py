"""Showing assessments and games against perfect play, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from zerolab.evaluation.accuracy import Accuracy, Assessment
from zerolab.evaluation.perfection import Report
from zerolab.evaluation.scoring import Estimate
from zerolab.ratings.score import Score


def as_plain(value: Any) -> Any:
    """Return NamedTuples as dictionaries by field, at every depth, ready for JSON."""
    if hasattr(value, "_asdict"):
        return {name: as_plain(field) for name, field in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): as_plain(field) for key, field in value.items()}
    return [as_plain(each) for each in value] if isinstance(value, list | tuple) else value


def print_assessments(console: Console, assessments: Sequence[Assessment]) -> None:
    """Print accuracies with intervals, overall and on non-trivial positions, then by ply."""
    table = Table("", "strong", "weak", "lost a move", box=None, title_justify="left")
    for part, title in (("all", "all positions"), ("non_trivial", "non-trivial positions")):
        for assessment in assessments:
            accuracy: Accuracy = getattr(assessment, part)
            label = f"{assessment.name}, {title}"
            table.add_row(label, *map(percent, accuracy[:2]), _number(accuracy.lost))
    console.print(table)
    for assessment in assessments:
        if assessment.value is not None:
            error, sign = assessment.value
            console.print(
                f"{assessment.name}: squared error of the value {_number(error)};"
                f" right about who wins in {percent(sign)} of the decided positions"
            )
    _print_by_ply(console, assessments)


def _print_by_ply(console: Console, assessments: Sequence[Assessment]) -> None:
    """Print a line a ply, without what is known exactly: --json and the figure have that, too."""
    measured = [each for each in assessments if _is_measured(each)] or assessments
    heads = [f"{each.name}, {kind} %" for each in measured for kind in ("strong", "weak")]
    table = Table("ply", "positions", *heads, box=None)
    for ply in measured[0].by_ply:
        accuracies = [each.by_ply[ply] for each in measured]
        count = accuracies[0].strong.positions if accuracies[0].strong else 0
        cells = [_short(each) for accuracy in accuracies for each in accuracy[:2]]
        table.add_row(str(ply), str(count), *cells)
    console.print(table)


def _is_measured(assessment: Assessment) -> bool:
    strong = assessment.all.strong
    return strong is not None and strong.low < strong.high


def _short(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    mean, low, high, _ = estimate
    return f"{100 * mean:.0f}" + (f" ({100 * low:.0f}-{100 * high:.0f})" if low < high else "")


def print_report(console: Console, report: Report) -> None:
    """Print how games against perfect play went."""
    console.print(
        f"against perfect play: {describe_score(report.score)},"
        f" {report.distinct_games} distinct games"
    )
    for share, which in (
        (report.gave_away, "all"),
        (report.gave_away_first, "as first player"),
        (report.gave_away_second, "as second player"),
    ):
        games = share.positions if share else 0
        console.print(
            f"value given away, {which}: {percent(share)} of {games} games not lost from the start"
        )
    if report.by_ply:
        often = ", ".join(f"{ply}: {count}" for ply, count in report.by_ply.items())
        console.print(f"value given away at ply: {often}")
    console.print(f"value lost a move: {_number(report.lost)}")


def describe_score(score: Score) -> str:
    """Return a score in words, with the share of points and its interval."""
    low, high = score.interval()
    return (
        f"{score.score_rate:.1%} (95 % interval {low:.1%} to {high:.1%}), {score.wins} won,"
        f" {score.draws} drawn, {score.losses} lost"
    )


def percent(estimate: Estimate | None) -> str:
    """Return a share in percent, with its interval where there is one."""
    if estimate is None:
        return "unknown"
    mean, low, high, _ = estimate
    return f"{mean:.1%}" + (f" ({low:.1%} to {high:.1%})" if low < high else "")


def _number(estimate: Estimate | None) -> str:
    if estimate is None:
        return "unknown"
    margin = estimate.high - estimate.mean
    return f"{estimate.mean:.3f}" + (f" ± {margin:.3f}" if margin > 0 else "")
