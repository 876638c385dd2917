"""Tournament Elo and training Elo of runs, their correlation, and Elo tables for reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
"""Game titles for reports, by the name in a game spec."""

_PUBLISHED = 4  # index of the column of published means in `elo_table`


def standard_error(rating: Rating) -> float:
    """Return the standard error of a rating, from its 95 % interval."""
    return (rating.interval.high - rating.interval.low) / (2 * Z95)


def elo_sample(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> Sample:
    """Return the tournament Elo of `runs` with standard errors."""
    return rated_sample([tournament.rating(run) for run in runs])


def rated_sample(ratings: Sequence[Rating]) -> Sample:
    """Return the Elo of `ratings` with standard errors."""
    errors = [standard_error(rating) for rating in ratings]
    return sample_of_runs([rating.elo for rating in ratings], errors)


def random_sample(tournament: PlayedTournament) -> Sample:
    """Return the Elo of the random player."""
    return rated_sample([tournament.by_name["random"]])


def unfinished(results: Results, keys: Sequence[str]) -> Missing | None:
    """Return a note on the unfinished tournaments among `keys`, or None if all are finished.

    Other unfinished work in the same parts is ignored.
    """
    planned = {each.key: each for each in results.design.tournaments}
    unplanned = [key for key in keys if key not in planned]
    if unplanned:
        return Missing(f"not studied at this scale: {', '.join(unplanned)}")
    unfinished_keys = [key for key in keys if key not in results.tournaments]
    if not unfinished_keys:
        return None
    trained = {run.planned.key for run in results}
    entrants = {run.key for key in unfinished_keys for run in planned[key].entrants.values()}
    untrained = len(entrants - trained)
    runs = [f"{untrained} of {len(entrants)} runs are not finished"] if untrained else []
    tournaments = f"tournaments not finished: {', '.join(unfinished_keys)}"
    return Missing("; ".join([*runs, tournaments]))


def removed_runs(results: Results, part: str | None = None) -> Missing:
    """Return a note on runs that were removed after their tournament."""
    return Missing(f"runs were removed after their tournament: {results.missing_message(part)}")


def elo_difference(
    results: Results, part: str, factor: str, one: Level, other: Level, *, tournament: str = ""
) -> StudentEstimate | Missing:
    """Return the mean Elo difference between two levels of a factor, `one` minus `other`.

    The ratings are those of the part's tournament named `tournament`. The confidence interval is
    Welch's t interval, with runs as the samples.
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
    """Return the standard error of a run's training Elo after each gate.

    Training Elo is the sum of the Elo differences that accepted candidates scored in their gates.
    Gates are played independently, so their squared errors add up. Rejected candidates and gates
    without games change neither the Elo nor the error. The errors do not include the bias of gates
    towards lucky candidates.
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
    """Return a table of mean Elo with confidence intervals and components of the spread.

    The column of published means is omitted if there are none, and so are samples without runs.
    """
    rows: list[list[Cell]] = []
    for heading, samples in groups.items():
        for label, sample in samples.items():
            if not sample.values:
                continue
            components = spread(sample.values, sample.errors)
            rows.append(
                [
                    heading, label, len(sample.values), mean_of(sample.values).interval,
                    sample.published,
                    components.observed if components else None,
                    components.between if components else None,
                    components.measurement if components else sample.errors[0],
                ]
            )  # fmt: skip
    columns: list[str | Column] = [
        group, series, "runs", Column("Elo", "+.0f"), Column("published", "+.0f"),
        Column("SD between runs", ".0f"), Column("of it between true strengths", ".0f"),
        Column("error of measuring a run", ".0f"),
    ]  # fmt: skip
    if all(row[_PUBLISHED] is None for row in rows):
        del columns[_PUBLISHED]
        for row in rows:
            del row[_PUBLISHED]
    return Table(name, title, columns, rows)


class BothElos(NamedTuple):
    """A run's training Elo and tournament Elo, with their standard errors."""

    training: float
    training_error: float
    tournament: float
    tournament_error: float


def both_elos(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> list[BothElos]:
    """Return the training Elo and tournament Elo of each run."""
    ratings = [tournament.rating(run) for run in runs]
    return [
        BothElos(
            run.training_elo[-1], training_elo_errors(run)[-1], rating.elo, standard_error(rating)
        )
        for run, rating in zip(runs, ratings, strict=True)
    ]


def elo_correlation(groups: Sequence[Sequence[BothElos]]) -> BootstrapEstimate | Missing:
    """Return the mean rank correlation over groups of runs, corrected for measurement error.

    Measurement error attenuates a correlation. [Spearman1904] corrects for it by dividing by the
    largest correlation that is still observable.
    """

    def corrected(*samples: Sequence[BothElos]) -> float:
        largest = float(np.mean([largest_correlation(elos) for elos in samples]))
        observed = float(np.mean([rank_correlation(elos) for elos in samples]))
        return observed / largest if largest else math.nan

    try:
        return bootstrap(*groups, statistic=corrected)
    except ValueError:
        return Missing("measurement error hides any correlation")


def rank_correlation(elos: Sequence[BothElos]) -> float:
    """Return Spearman's rank correlation, or 0 if either Elo is constant."""
    from scipy.stats import rankdata

    x, y = rankdata([each.training for each in elos]), rankdata([each.tournament for each in elos])
    if not (np.ptp(x) and np.ptp(y)):
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def largest_correlation(elos: Sequence[BothElos]) -> float:
    """Return the largest correlation observable under measurement error.

    This is the square root of the product of the two reliabilities. The reliability of a
    measurement is the share of its variance that is not error.
    """
    training = _reliability([(each.training, each.training_error) for each in elos])
    tournament = _reliability([(each.tournament, each.tournament_error) for each in elos])
    return math.sqrt(training * tournament)


def _reliability(measured: Sequence[tuple[float, float]]) -> float:
    values, errors = zip(*measured, strict=True)
    components = spread(values, errors)
    return 1.0 - components.explained if components else 0.0
