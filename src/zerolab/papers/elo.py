"""Tournament Elo of runs: samples, tables, mixed models, and correlations with other measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.ratings.ratings import Rating
from zerolab.report.figures import RunSample
from zerolab.report.table import Cell, Column, Table
from zerolab.studies.block_model import (
    PerGameModels,
    fit_per_game_models,
    relative_spread_within_blocks,
)
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.joint_estimates import (
    bootstrap_mean_statistic,
    estimate_smallest,
    spread_ratio,
)
from zerolab.studies.results import Results
from zerolab.studies.statistics import (
    BootstrapEstimate,
    ClaimEstimate,
    SpreadComponents,
    StudentEstimate,
    estimate_mean,
    run_sample,
    spread_components,
    squared_deviations,
    weighted_sum,
)

GAME_TITLES: Mapping[str, str] = {
    "othello": "Othello", "connect_four": "Connect Four", "gobang": "Gobang"
}  # fmt: skip
"""Game titles for reports, by the name in a game spec."""


def elo_sample(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> RunSample:
    """Return the tournament Elo of all `runs` that play in the tournament, with standard errors."""
    return ratings_sample(
        [tournament.final_rating(run) for run in runs if tournament.includes_run(run)]
    )


def elo_sample_above_random(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> RunSample:
    """Return the Elo of `runs` relative to Random, with standard errors.

    The errors are those of `PlayedTournament.error_above_agent`, to be compared with the spread
    between runs.
    """
    return run_sample(
        [tournament.elo_above_agent(run) for run in runs],
        [tournament.error_above_agent(run) for run in runs],
    )


def ratings_sample(ratings: Sequence[Rating]) -> RunSample:
    """Return the Elo of `ratings`, with standard errors."""
    return run_sample(
        [rating.elo for rating in ratings], [rating.standard_error for rating in ratings]
    )


def elo_spread_ratio(
    results: Results, part: str, factor: str, level: FactorLevel, others: Sequence[FactorLevel]
) -> ClaimEstimate | MissingEstimate:
    """Return the spread of Elo between runs with one level, relative to runs with `others`.

    `others` contains at least two levels. If each seed has its own tournament, the ratings of a
    tournament add up to a constant and so depend on each other; only differences within seeds can
    be used (`relative_spread_within_blocks`).
    """
    if missing := missing_for_unfinished_tournaments(results, [part]):
        return missing
    tournament = results.tournaments[part]
    by_level: list[dict[FactorLevel, float]] = [
        {
            run.seed: tournament.final_rating(run).elo
            for run in results.runs_where(part, **{factor: each}) if tournament.includes_run(run)
        }
        for each in (level, *others)
    ]  # fmt: skip
    seeds = sorted(set(by_level[0]).intersection(*by_level), key=str)
    if not seeds:
        return missing_for_removed_runs(results, part)
    first, *rest = [[elos[seed] for seed in seeds] for elos in by_level]
    ratio: ClaimEstimate | None
    if len(seeds) > 1 and len(tournament.planned_tournaments) > 1:
        ratio = relative_spread_within_blocks(np.transpose([first, *rest]))
    else:
        ratio = spread_ratio([first], rest)
    return ratio or MissingEstimate("no spread to compare between runs of a level")


def random_player_sample(tournament: PlayedTournament) -> RunSample:
    """Return the Elo of the random player in each tournament, with its standard error."""
    return ratings_sample(tournament.ratings_of_agent("random"))


def pair_by_seed(
    ratings: Mapping[FactorLevel, Rating], others: Mapping[FactorLevel, Rating]
) -> list[tuple[Rating, Rating]]:
    """Return pairs of ratings with the same seed, one from each argument.

    Runs with the same seed play in one tournament, so their ratings are not independent. The
    differences within pairs are independent of each other.
    """
    return [(rating, others[seed]) for seed, rating in ratings.items() if seed in others]


def mean_elo_gain(pairs: Sequence[tuple[Rating, Rating]]) -> StudentEstimate:
    """Return the mean Elo difference between the first and the second rating of each pair."""
    return estimate_mean([one.elo - other.elo for one, other in pairs])


def missing_for_unfinished_tournaments(
    results: Results, keys: Sequence[str]
) -> MissingEstimate | None:
    """Return a missing estimate if a tournament of the groups `keys` is unfinished or unplanned.

    Returns None if all are finished. Other unfinished work in the same parts is ignored.
    """
    planned = {each.group_name for each in results.design.tournaments}
    unplanned = [key for key in keys if key not in planned]
    if unplanned:
        return MissingEstimate(f"not studied at this scale: {', '.join(unplanned)}")
    unfinished_keys = [key for key in keys if key not in results.tournaments]
    if not unfinished_keys:
        return None
    trained = {run.planned.key for run in results}
    run_keys = {
        run.key
        for each in results.design.tournaments if each.group_name in unfinished_keys
        for run in each.run_by_player.values()
    }  # fmt: skip
    untrained = len(run_keys - trained)
    verb = "is" if untrained == 1 else "are"
    runs = [f"{untrained} of {len(run_keys)} runs {verb} not finished"] if untrained else []
    tournaments = f"tournaments not finished: {', '.join(unfinished_keys)}"
    return MissingEstimate("; ".join([*runs, tournaments]))


def missing_for_removed_runs(results: Results, part: str | None = None) -> MissingEstimate:
    """Return a missing estimate whose reason is that runs were removed after their tournament."""
    return MissingEstimate(
        f"runs were removed after their tournament: {results.unfinished_message(part)}"
    )


def fit_elo_model(
    results: Results,
    parts: Sequence[str],
    factor: str,
    levels: Sequence[FactorLevel],
    *,
    name: str = "",
) -> PerGameModels | MissingEstimate:
    """Fit a model per part to the Elo of the final networks, with seeds as random blocks.

    `levels` are the levels of `factor` to compare; all of them contribute to the estimate of the
    variance. Ratings are relative to Random in the parts' tournaments named `name`. Random is a
    fixed reference: ratings relative to the mean of a seed's tournament would be negatively
    correlated, which the model does not allow for.
    """
    groups = {part: "-".join(filter(None, (part, name))) for part in parts}
    if missing := missing_for_unfinished_tournaments(results, list(groups.values())):
        return missing
    values = {
        part: {
            level: {
                run.seed: results.tournaments[group].elo_above_agent(run)
                for run in results.runs_where(part, **{factor: level})
                if results.tournaments[group].includes_run(run)
            }
            for level in levels
        }
        for part, group in groups.items()
    }
    empty = [part for part, by_level in values.items() if not all(by_level.values())]
    return missing_for_removed_runs(results, empty[0]) if empty else fit_per_game_models(values)


def weakest_elo_above_random(
    results: Results, parts: Sequence[str], factor: str, levels: Sequence[FactorLevel]
) -> ClaimEstimate | MissingEstimate:
    """Return the Elo, relative to Random, of the weakest combination of part and level.

    The estimate accounts for the selection of the weakest combination after the fact. In a
    tournament of all seeds, the estimate includes the error of Random's own rating; with a
    tournament per seed, this error is part of the spread.
    """
    if missing := missing_for_unfinished_tournaments(results, parts):
        return missing
    above = []
    for part in parts:
        tournament = results.tournaments[part]
        randoms = tournament.ratings_of_agent("random")
        shared_error = randoms[0].standard_error if len(randoms) == 1 else 0.0
        for level in levels:
            runs = results.runs_where(part, **{factor: level})
            if not runs:
                return missing_for_removed_runs(results, part)
            lead = estimate_mean([tournament.elo_above_agent(run) for run in runs])
            error = StudentEstimate(0.0, shared_error, math.inf)
            above.append(weighted_sum([(1.0, lead), (1.0, error)]))
    return estimate_smallest(above)


def pooled_spread(samples: Sequence[RunSample]) -> SpreadComponents | None:
    """Return the pooled spread between runs of a setting, or None if all settings have one run.

    Like `spread_components`, this uses the method of moments, applied to deviations from the mean
    of each setting.
    """
    repeated = [sample for sample in samples if len(sample.values) > 1]
    squares, degrees_of_freedom = squared_deviations([sample.values for sample in repeated])
    if not degrees_of_freedom:
        return None
    errors = [error**2 for sample in repeated for error in sample.standard_errors]
    observed, measured = squares / degrees_of_freedom, float(np.mean(errors))
    return SpreadComponents(
        math.sqrt(observed), math.sqrt(max(0.0, observed - measured)), math.sqrt(measured)
    )


def elo_table(
    name: str, title: str, groups: Mapping[str, Mapping[str, RunSample]], group: str, series: str
) -> Table:
    """Return a table of mean Elo with confidence intervals and components of the spread.

    `groups` maps the heading of each group to its samples by label. Samples without runs are
    omitted.
    """
    rows: list[list[Cell]] = []
    for heading, samples in groups.items():
        for label, sample in samples.items():
            if not sample.values:
                continue
            components = spread_components(sample.values, sample.standard_errors)
            errors = sample.standard_errors
            rows.append(
                [
                    heading, label, len(sample.values), sample.mean,
                    components.observed_sd if components else None,
                    components.between_runs_sd if components else None,
                    components.measurement_standard_error if components else errors[0],
                ]
            )  # fmt: skip
    columns: list[str | Column] = [
        group, series, "runs", Column("Elo", "+.0f"),
        Column("SD between runs", ".0f"), Column("SD of true strengths", ".0f"),
        Column("standard error of a run", ".0f"),
    ]  # fmt: skip
    return Table(name, title, columns, rows)


class WeightedMean(NamedTuple):
    """Term of a sum: weighted mean of a measure over a part's runs with one level of a factor."""

    weight: float
    part: str
    level: FactorLevel
    measure: Callable[[TrainedRun], float]


def sum_of_weighted_means(
    results: Results, factor: str, terms: Sequence[WeightedMean]
) -> StudentEstimate | MissingEstimate:
    """Return the sum of the weighted means, or why one of them is missing.

    Runs with the same seed share random numbers, so the terms of a part are first summed by seed.
    """
    sums = []
    for part in dict.fromkeys(term.part for term in terms):
        by_seed = [
            {
                run.seed: term.weight * term.measure(run)
                for run in results.runs_where(part, **{factor: term.level})
            }
            for term in terms if term.part == part
        ]  # fmt: skip
        seeds = set.intersection(*map(set, by_seed))
        if not seeds:
            return MissingEstimate(results.unfinished_message(part) or f"no runs of {part}")
        sums.append((1.0, estimate_mean([sum(each[seed] for each in by_seed) for seed in seeds])))
    return weighted_sum(sums)


def mean_contrast(
    model: PerGameModels | MissingEstimate,
    weights: Mapping[Any, float],
    parts: Sequence[str] = (),
) -> StudentEstimate | MissingEstimate:
    """Return the mean of a contrast over `parts`, by default all, or why it is missing."""
    return model if isinstance(model, MissingEstimate) else model.contrast(weights, parts)


def lead_over_closest_rival(
    model: PerGameModels | MissingEstimate,
    level: FactorLevel,
    rivals: Sequence[FactorLevel],
    parts: Sequence[str] = (),
) -> ClaimEstimate | MissingEstimate:
    """Return the mean lead of a level over its closest rival in `parts`, by default all.

    The closest rival is only known after the fact, so the estimate is the smallest of all leads.
    """
    if isinstance(model, MissingEstimate):
        return model
    return estimate_smallest(mean_leads(model, [level], rivals, parts))


def mean_leads(
    model: PerGameModels,
    levels: Sequence[FactorLevel],
    rivals: Sequence[FactorLevel],
    parts: Sequence[str] = (),
) -> list[StudentEstimate]:
    """Return the mean lead of each level over each rival in `parts`, by default all."""
    return [
        model.contrast({level: 1.0, rival: -1.0}, parts) for level in levels for rival in rivals
    ]


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

    `pairs` are float64[samples, ..., 2]. A correlation is 0 if either quantity is constant.
    """
    from scipy.stats import rankdata

    pairs = pairs.reshape(len(pairs), math.prod(pairs.shape[1:-1]), 2)
    ranks = rankdata(pairs, axis=1) - (pairs.shape[1] + 1) / 2
    products = np.einsum("sri,srj->sij", ranks, ranks)
    scales = np.sqrt(products[:, 0, 0] * products[:, 1, 1])
    correlations = np.zeros(len(pairs))
    np.divide(products[:, 0, 1], scales, out=correlations, where=scales > 0.0)
    return correlations
