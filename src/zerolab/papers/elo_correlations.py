"""Rank correlations of tournament Elo with other measures of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.papers.elo import missing_for_removed_runs, missing_for_unfinished_tournaments
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import TrainedRun
from zerolab.studies.joint_estimates import bootstrap_mean_statistic
from zerolab.studies.results import Results
from zerolab.studies.statistics import BootstrapEstimate


def correlation_with_elo(
    results: Results,
    parts: Sequence[str],
    factor: str,
    groups: Sequence[Sequence[FactorLevel]],
    measure: Callable[[TrainedRun], float],
) -> BootstrapEstimate | MissingEstimate:
    """Return the mean rank correlation between a measure and tournament Elo over parts and groups.

    Each correlation is over the runs of a part with the levels of a group, so it includes
    differences between these levels. The measure and Elo are relative to their means over the runs
    with the same seed and any of the levels, since these runs share the error of Random's rating.
    Bootstrap samples consist of whole seeds, each with one run per level, and are the same for all
    groups of a part. Measurement errors attenuate the correlation.
    """
    if missing := missing_for_unfinished_tournaments(results, parts):
        return missing
    tables = []
    compared = [level for levels in groups for level in levels]
    for part in parts:
        runs = [run for run in results.runs_where(part) if run.factors[factor] in compared]
        measured = deviations_within_seeds(runs, measure)
        elos = deviations_within_seeds(runs, results.tournaments[part].elo_above_agent)
        by_seed: dict[FactorLevel, dict[FactorLevel, tuple[float, float]]] = {}
        for run, *pair in zip(runs, measured, elos, strict=True):
            by_seed.setdefault(run.seed, {})[run.factors[factor]] = pair[0], pair[1]
        complete = [each for each in by_seed.values() if len(each) == len(compared)]
        if not complete:
            return missing_for_removed_runs(results, part)
        tables.append(np.array([[each[level] for level in compared] for each in complete]))
    if min(len(table) * len(levels) for table in tables for levels in groups) < 3:
        return MissingEstimate("fewer than three runs per group: no correlation to compute")
    ends = np.cumsum([len(levels) for levels in groups])[:-1]

    def mean_correlation(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
        by_group = [rank_correlations(group) for group in np.split(pairs, ends, axis=2)]
        return np.asarray(np.mean(by_group, axis=0))

    return bootstrap_mean_statistic(*tables, statistic=mean_correlation)


def deviations_within_seeds(
    runs: Sequence[TrainedRun], measure: Callable[[TrainedRun], float]
) -> list[float]:
    """Return a measure of each run minus its mean over the `runs` with the same seed."""
    values = [measure(run) for run in runs]
    by_seed: dict[Any, list[float]] = {}
    for run, value in zip(runs, values, strict=True):
        by_seed.setdefault(run.seed, []).append(value)
    return [value - fmean(by_seed[run.seed]) for run, value in zip(runs, values, strict=True)]


def rank_correlations(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Spearman's rank correlation in each sample, float64[samples].

    `pairs` are float64[samples, runs, 2]; axes between the first and the last are merged. The
    correlation is 0 if either quantity is constant. Ties share their mean rank.
    """
    from scipy.stats import rankdata

    pairs = pairs.reshape(len(pairs), math.prod(pairs.shape[1:-1]), 2)
    ranks = rankdata(pairs, axis=1) - (pairs.shape[1] + 1) / 2
    products = np.einsum("sri,srj->sij", ranks, ranks)
    scales = np.sqrt(products[:, 0, 0] * products[:, 1, 1])
    correlations = np.zeros(len(pairs))
    np.divide(products[:, 0, 1], scales, out=correlations, where=scales > 0.0)
    return correlations


def expected_rank_correlation(correlation: float, run_count: int) -> float:
    """Return the mean of Spearman's rank correlation over samples of at least two runs.

    The two quantities are normal, with a given correlation [Moran1948].
    """
    pairs = math.asin(correlation) + (run_count - 2) * math.asin(correlation / 2.0)
    return 6.0 / math.pi / (run_count + 1) * pairs
