"""Whether training Elo tells what tournament Elo tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.studies.analyses.elo import standard_error, training_elo_errors
from zerolab.studies.claims import Missing
from zerolab.studies.results import PlayedTournament, TrainedRun
from zerolab.studies.statistics import BootstrapEstimate, bootstrap, spread


class BothElos(NamedTuple):
    """A run's training Elo and tournament Elo, with their standard errors."""

    training: float
    training_error: float
    tournament: float
    tournament_error: float


def both_elos(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> list[BothElos]:
    """Return both kinds of Elo of some runs of a tournament."""
    ratings = [tournament.rating(run) for run in runs]
    return [
        BothElos(
            run.training_elo[-1], training_elo_errors(run)[-1], rating.elo, standard_error(rating)
        )
        for run, rating in zip(runs, ratings, strict=True)
    ]


def correlation(groups: Sequence[Sequence[BothElos]]) -> BootstrapEstimate | Missing:
    """Return the rank correlation, mean over groups of runs, that exact measurements would show.

    Errors of measuring lower a correlation. [Spearman1904] divides it by what they would leave of
    a perfect one.
    """

    def exact(*drawn: Sequence[BothElos]) -> float:
        possible = float(np.mean([largest_correlation(each) for each in drawn]))
        found = float(np.mean([rank_correlation(each) for each in drawn]))
        return found / possible if possible else math.nan

    try:
        return bootstrap(*groups, statistic=exact)
    except ValueError:
        return Missing("errors of measuring leave no correlation to be seen")


def rank_correlation(elos: Sequence[BothElos]) -> float:
    """Return Spearman's rank correlation; 0 where one of both does not vary."""
    from scipy.stats import rankdata  # noqa: PLC0415  slow to import

    x, y = rankdata([each.training for each in elos]), rankdata([each.tournament for each in elos])
    if not (np.ptp(x) and np.ptp(y)):
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def largest_correlation(elos: Sequence[BothElos]) -> float:
    """Return what errors of measuring leave of a perfect correlation.

    That is the root of both reliabilities: the shares of the variances that are no such errors.
    """
    training = _reliability([(each.training, each.training_error) for each in elos])
    tournament = _reliability([(each.tournament, each.tournament_error) for each in elos])
    return math.sqrt(training * tournament)


def _reliability(measured: Sequence[tuple[float, float]]) -> float:
    values, errors = zip(*measured, strict=True)
    found = spread(values, errors)
    return 1.0 - found.explained if found else 0.0
