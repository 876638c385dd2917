"""Error rates of a player on test sets, beside published ones.

A *weak error* is a move that changes the result under perfect play: the mistake of [AlphaZeroJl]
and [AlphaGPU]. A *strong error* is a move that is not a best move. The rates are 1 minus the weak
and strong accuracy of `accuracy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from zerolab.evaluation.accuracy import AccuracyReport
from zerolab.evaluation.position_statistics import MeanEstimate
from zerolab.evaluation.public_sets import PublicSet
from zerolab.report.table import Cell, Column, Interval, Table


class PublishedErrors(NamedTuple):
    """Published weak error rates of an agent, by test set."""

    key: str
    """Key of the reference."""
    simulations: int
    """Simulations per move."""
    training: str
    """Length of the training and hardware."""
    rates: Mapping[str, float]


PONS_SETS: Mapping[str, str] = {
    "34dc73828dadc1d5186a97c39cda04e6": "Begin-Easy",
    "b6fc88e45d6d2ee2daabfd3ab24298aa": "Begin-Medium",
    "04e5917b567b6b3a2e91eb2f54d64102": "Begin-Hard",
    "490ad4890542bbb3a598a1439ca05c0d": "Middle-Easy",
    "300c06bf8272a386ead33b847f3ead62": "Middle-Medium",
    "9bdb4afe9533786f52abc4e94d24a041": "End-Easy",
}
"""Names of the test sets of [Pons] by `PublicSet.digest`.

The files are Test_L1_R1, Test_L1_R2, Test_L1_R3, Test_L2_R1, Test_L2_R2 and Test_L3_R1.
"""

PUBLISHED: tuple[PublishedErrors, ...] = (
    PublishedErrors(
        "AlphaZeroJl",
        600,
        "15 iterations of about an hour each, RTX 2070; read off its figure",
        {
            "Begin-Easy": 0.0,
            "Middle-Easy": 0.0,
            "End-Easy": 0.0,
            "Begin-Medium": 0.02,
            "Middle-Medium": 0.025,
            "Begin-Hard": 0.07,
        },
    ),
    PublishedErrors("AlphaGPU", 600, "two to three hours on one GPU", {"Begin-Hard": 0.07}),
)


def set_name(public: PublicSet) -> str:
    """Return the name of a known test set, otherwise the name of its file."""
    return PONS_SETS.get(public.digest, public.path.name)


class SetResult(NamedTuple):
    """Accuracy of an agent's players on one test set."""

    file: str
    name: str
    """Name of a known set, otherwise that of the file."""
    positions: int
    reports: list[AccuracyReport]

    def as_dict(self) -> dict[str, Any]:
        """Return the rates and the published ones for JSON."""
        published = {
            each.key: each.rates[self.name] for each in PUBLISHED if self.name in each.rates
        }
        return {
            "file": self.file,
            "set": self.name,
            "positions": self.positions,
            "players": [_rates(report) for report in self.reports],
            "published_weak_errors": published,
        }


def _rates(report: AccuracyReport) -> dict[str, Any]:
    weak, strong = (_complement(each) for each in (report.all.weak, report.all.strong))
    regret = report.all.regret
    rates = {"weak_errors": weak, "strong_errors": strong, "regret": regret}
    values = {name: each and each.as_dict() for name, each in rates.items()}
    return {"name": report.name, **values}


def _complement(estimate: MeanEstimate | None) -> MeanEstimate | None:
    """Return the share of errors for a share of correct moves."""
    if estimate is None:
        return None
    value, low, high = (max(0.0, 1.0 - share) for share in estimate.interval)  # no -0.0 %
    return MeanEstimate(Interval(value, high, low), estimate.sample_count)


def error_tables(results: Sequence[SetResult], simulations: int | None) -> list[Table]:
    """Return one table per player, with one row per set.

    The tables of players that search have the published rates of the sets. `simulations` is the
    number of simulations per move of the agent's search, if it has one.
    """
    return [
        _error_table(results, report.name, simulations)
        for report in results[0].reports
        if report.has_intervals
    ]


def _error_table(results: Sequence[SetResult], player: str, simulations: int | None) -> Table:
    is_alone = player == "network"
    title = "network alone" if is_alone else player
    if simulations and not is_alone:
        title += f", {simulations} simulations per move"
    known = {result.name for result in results}
    published = [each for each in PUBLISHED if not is_alone and known & set(each.rates)]
    columns: list[str | Column] = [
        "set",
        "positions",
        Column("result changed", ".1%"),
        Column("not a best move", ".1%"),
        Column("regret per move", ".3f"),
        *(Column(f"[{each.key}], {each.simulations} simulations", ".1%") for each in published),
    ]
    rows = [
        [
            result.name,
            result.positions,
            *_player_cells(result, player),
            *(each.rates.get(result.name) for each in published),
        ]
        for result in results
    ]
    notes = [f"[{each.key}], result changed: {each.training}" for each in published]
    return Table("errors", title, columns, rows, "; ".join(notes))


def _player_cells(result: SetResult, player: str) -> list[Cell]:
    report = next(each for each in result.reports if each.name == player)
    estimates = _complement(report.all.weak), _complement(report.all.strong), report.all.regret
    return [None if each is None else each.interval for each in estimates]
