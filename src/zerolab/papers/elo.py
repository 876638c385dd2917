"""Elo of runs: in tournaments, in training, and the agreement of both; tables of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from zerolab.ratings.bayes import Rating
from zerolab.report.figures import Sample
from zerolab.report.interval import Z95, Cell
from zerolab.report.table import Column, Table
from zerolab.studies.claims import Missing
from zerolab.studies.design import Level
from zerolab.studies.results import PlayedTournament, Results, TrainedRun
from zerolab.studies.statistics import (
    BootstrapEstimate,
    StudentEstimate,
    bootstrap,
    difference_of_means,
    mean_of,
    sample_of_runs,
    spread,
)
from zerolab.training.records import GateRecord

GAME_TITLES: Mapping[str, str] = {
    "othello": "Othello", "connect_four": "Connect Four", "gobang": "Gobang"
}  # fmt: skip
"""By the names of the games in specs."""


_PUBLISHED = 4  # the column of `elo_table` with published means
_Any = TypeVar("_Any")


def standard_error(rating: Rating) -> float:
    """Return the standard error of a rating, from its 95 % interval."""
    return (rating.interval.high - rating.interval.low) / (2 * Z95)


def elo_sample(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> Sample:
    """Return the Elo of some runs with the errors of measuring them."""
    return rated_sample([tournament.rating(run) for run in runs])


def rated_sample(ratings: Sequence[Rating]) -> Sample:
    """Return the Elo of some players with the errors of measuring them."""
    errors = [standard_error(rating) for rating in ratings]
    return sample_of_runs([rating.elo for rating in ratings], errors)


def random_sample(tournament: PlayedTournament) -> Sample:
    """Return the Elo of the random player."""
    return rated_sample([tournament.by_name["random"]])


def unfinished(results: Results, keys: Sequence[str]) -> Missing | None:
    """Return what is missing of some tournaments; None if all are finished.

    Other unfinished work of their parts does not count.
    """
    planned = {each.key: each for each in results.design.tournaments}
    unplanned = [key for key in keys if key not in planned]
    if unplanned:
        return Missing(f"not studied at this scale: {', '.join(unplanned)}")
    left = [key for key in keys if key not in results.tournaments]
    if not left:
        return None
    trained = {run.planned.key for run in results}
    entrants = {run.key for key in left for run in planned[key].entrants.values()}
    untrained = len(entrants - trained)
    runs = [f"{untrained} of {len(entrants)} runs are not finished"] if untrained else []
    return Missing("; ".join([*runs, f"tournaments not finished: {', '.join(left)}"]))


def removed_runs(results: Results, part: str | None = None) -> Missing:
    """Return the note for runs that were removed after their tournament."""
    return Missing(f"runs were removed after their tournament: {results.missing(part)}")


def elo_difference(
    results: Results, part: str, factor: str, one: Level, other: Level, *, tournament: str = ""
) -> StudentEstimate | Missing:
    """Return the Elo of runs at one level of a factor above that of runs at another level.

    Elo comes from the part's tournament named `tournament`. The interval is over runs, by Welch's
    t.
    """
    key = "-".join(filter(None, (part, tournament)))
    if missing := unfinished(results, [key]):
        return missing
    first, second = (
        elo_sample(results.tournaments[key], results.where(part, **{factor: level})).values
        for level in (one, other)
    )
    if not first or not second:
        return removed_runs(results, part)
    return difference_of_means(first, second)


def training_elo_errors(run: TrainedRun) -> list[float]:
    """Return the standard errors of a run's training Elo after every gate.

    Training Elo is the sum of the differences that accepted candidates showed in their gates. The
    games of gates are independent, so their squared errors add up; rejected candidates change
    neither, and gates without games add nothing. These errors leave out the bias of gates towards
    lucky candidates.
    """
    errors, variance = [], 0.0
    for gate in run.of(GateRecord):
        low, high = gate.candidate_elo_low, gate.candidate_elo_high
        if gate.accepted and low is not None and high is not None:
            variance += ((high - low) / (2 * Z95)) ** 2
        errors.append(math.sqrt(variance))
    return errors


def elo_table(
    name: str, title: str, groups: Mapping[str, Mapping[str, Sample]], group: str, series: str
) -> Table:
    """Return means with intervals over runs and the components of their spread.

    Published means stand beside, where there are any. Samples without runs are left out.
    """
    rows: list[list[Cell]] = []
    for heading, samples in groups.items():
        for label, sample in samples.items():
            if not sample.values:
                continue
            found = spread(sample.values, sample.errors)
            rows.append(
                [
                    heading, label, len(sample.values), mean_of(sample.values).interval,
                    sample.published,
                    found.observed if found else None,
                    found.between if found else None,
                    found.measurement if found else sample.errors[0],
                ]
            )  # fmt: skip
    columns: list[str | Column] = [
        group, series, "runs", Column("Elo", "+.0f"), Column("published", "+.0f"),
        Column("SD between runs", ".0f"), Column("of it between true strengths", ".0f"),
        Column("error of measuring a run", ".0f"),
    ]  # fmt: skip
    if all(row[_PUBLISHED] is None for row in rows):
        columns, rows = _without(columns), [_without(row) for row in rows]
    return Table(name, title, columns, rows)


def _without(cells: list[_Any]) -> list[_Any]:
    return cells[:_PUBLISHED] + cells[_PUBLISHED + 1 :]


class BothElos(NamedTuple):
    """A run's training Elo and tournament Elo, with their standard errors."""

    training: float
    training_error: float
    tournament: float
    tournament_error: float


def both_elos(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> list[BothElos]:
    """Return the training Elo and the tournament Elo of some runs."""
    ratings = [tournament.rating(run) for run in runs]
    return [
        BothElos(
            run.training_elo[-1], training_elo_errors(run)[-1], rating.elo, standard_error(rating)
        )
        for run, rating in zip(runs, ratings, strict=True)
    ]


def elo_correlation(groups: Sequence[Sequence[BothElos]]) -> BootstrapEstimate | Missing:
    """Return the mean rank correlation over groups of runs, corrected for errors of measuring.

    Such errors lower a correlation. [Spearman1904] divides it by what they would leave of a perfect
    one.
    """

    def exact(*drawn: Sequence[BothElos]) -> float:
        possible = float(np.mean([largest_correlation(each) for each in drawn]))
        found = float(np.mean([rank_correlation(each) for each in drawn]))
        return found / possible if possible else math.nan

    try:
        return bootstrap(*groups, statistic=exact)
    except ValueError:
        return Missing("errors of measuring hide any correlation")


def rank_correlation(elos: Sequence[BothElos]) -> float:
    """Return Spearman's rank correlation; 0 where either Elo does not vary."""
    from scipy.stats import rankdata

    x, y = rankdata([each.training for each in elos]), rankdata([each.tournament for each in elos])
    if not (np.ptp(x) and np.ptp(y)):
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def largest_correlation(elos: Sequence[BothElos]) -> float:
    """Return what errors of measuring leave of a perfect correlation.

    It is the root of the product of both reliabilities; a reliability is the share of variance that
    is not error.
    """
    training = _reliability([(each.training, each.training_error) for each in elos])
    tournament = _reliability([(each.tournament, each.tournament_error) for each in elos])
    return math.sqrt(training * tournament)


def _reliability(measured: Sequence[tuple[float, float]]) -> float:
    values, errors = zip(*measured, strict=True)
    found = spread(values, errors)
    return 1.0 - found.explained if found else 0.0
