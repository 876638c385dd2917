"""The Elo of a tournament by what its runs had in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from zerolab.ratings.bayes import Rating
from zerolab.ratings.score import Z95
from zerolab.studies.claims import Missing
from zerolab.studies.design import Level
from zerolab.studies.panels.samples import Sample
from zerolab.studies.report.cells import Cell
from zerolab.studies.report.document import Column, DataTable
from zerolab.studies.results import PlayedTournament, Results, TrainedRun
from zerolab.studies.statistics import StudentEstimate, difference_of_means, mean_of, spread

_PUBLISHED = 4  # the column of `elo_table` with published means
_Any = TypeVar("_Any")


def standard_error(rating: Rating) -> float:
    """Return the standard error of a rating, from its 95 % interval."""
    return (rating.high - rating.low) / (2 * Z95)


def elo_sample(
    tournament: PlayedTournament, runs: Sequence[TrainedRun], published: float | None = None
) -> Sample:
    """Return the Elo of some runs with the errors of measuring them."""
    return rated_sample([tournament.rating(run) for run in runs], published)


def rated_sample(ratings: Sequence[Rating], published: float | None = None) -> Sample:
    """Return the Elo of some players with the errors of measuring them."""
    errors = [standard_error(rating) for rating in ratings]
    return Sample([rating.elo for rating in ratings], errors, published)


def random_sample(tournament: PlayedTournament, published: float | None = None) -> Sample:
    """Return the Elo of the random player."""
    return rated_sample([tournament.by_name["random"]], published)


def elo_difference(
    results: Results, part: str, factor: str, one: Level, other: Level
) -> StudentEstimate | Missing:
    """Return how much more Elo runs of one level of a factor have than those of another one.

    The interval is over runs, by Welch's t.
    """
    if part not in results.tournaments:
        return Missing(results.missing(part))
    tournament = results.tournaments[part]
    samples = [
        elo_sample(tournament, results.where(part, **{factor: level})).values
        for level in (one, other)
    ]
    return difference_of_means(*samples)


def elo_table(
    name: str, title: str, groups: Mapping[str, Mapping[str, Sample]], group: str, series: str
) -> DataTable:
    """Return means with intervals over runs, and what makes runs differ, beside published means."""
    rows: list[list[Cell]] = []
    for heading, samples in groups.items():
        for label, sample in samples.items():
            found = spread(sample.values, sample.errors)
            rows.append(
                [
                    heading, label, len(sample.values), mean_of(sample.values), sample.published,
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
    return DataTable(name, title, columns, rows)


def _without(cells: list[_Any]) -> list[_Any]:
    return cells[:_PUBLISHED] + cells[_PUBLISHED + 1 :]
