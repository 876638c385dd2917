"""Tournament Elo and training Elo of runs, their correlation, tables, and mixed models of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.ratings.ratings import Rating
from zerolab.report.figures import RunSample
from zerolab.report.table import Z95, Cell, Column, Table
from zerolab.studies.block_model import GamesModel, fit_games
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import Level
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.joint_estimates import bootstrap_in_batch, estimate_smallest
from zerolab.studies.results import Results
from zerolab.studies.statistics import (
    BootstrapEstimate,
    ClaimEstimate,
    StudentEstimate,
    mean_of,
    plot_sample,
    spread_components,
)
from zerolab.training.records import GateRecord

GAME_TITLES: Mapping[str, str] = {
    "othello": "Othello", "connect_four": "Connect Four", "gobang": "Gobang"
}  # fmt: skip
"""Game titles for reports, by the name in a game spec."""


def standard_error(rating: Rating) -> float:
    """Return the standard error of a rating, from its 95 % interval."""
    return (rating.interval.high - rating.interval.low) / (2 * Z95)


def elo_sample(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> RunSample:
    """Return the tournament Elo of all `runs` that play in the tournament, with standard errors."""
    return sample_of_ratings(
        [tournament.final_rating(run) for run in runs if tournament.plays(run)]
    )


def sample_of_ratings(ratings: Sequence[Rating]) -> RunSample:
    """Return the Elo of `ratings`, with standard errors."""
    errors = [standard_error(rating) for rating in ratings]
    return plot_sample([rating.elo for rating in ratings], errors)


def random_player_sample(tournament: PlayedTournament) -> RunSample:
    """Return the Elo of the random player in each tournament, with its standard error."""
    return sample_of_ratings(tournament.agent_ratings())


def pair_by_seed(
    ratings: Mapping[Level, Rating], others: Mapping[Level, Rating]
) -> list[tuple[Rating, Rating]]:
    """Return pairs of ratings with the same seed, one from each argument.

    Runs with the same seed play in one tournament, so their ratings are not independent. The
    differences within pairs are independent of each other.
    """
    return [(rating, others[seed]) for seed, rating in ratings.items() if seed in others]


def mean_elo_gain(pairs: Sequence[tuple[Rating, Rating]]) -> StudentEstimate:
    """Return the mean over `pairs` of the Elo of the first rating minus that of the second."""
    return mean_of([one.elo - other.elo for one, other in pairs])


def unfinished_tournaments_note(results: Results, keys: Sequence[str]) -> MissingEstimate | None:
    """Return a note on unfinished or unplanned tournaments in the groups `keys`, or None.

    Other unfinished work in the same parts is ignored.
    """
    planned = {each.group for each in results.design.tournaments}
    unplanned = [key for key in keys if key not in planned]
    if unplanned:
        return MissingEstimate(f"not studied at this scale: {', '.join(unplanned)}")
    unfinished_keys = [key for key in keys if key not in results.tournaments]
    if not unfinished_keys:
        return None
    trained = {run.planned.key for run in results}
    run_keys = {
        run.key
        for each in results.design.tournaments if each.group in unfinished_keys
        for run in each.run_by_player.values()
    }  # fmt: skip
    untrained = len(run_keys - trained)
    runs = [f"{untrained} of {len(run_keys)} runs are not finished"] if untrained else []
    tournaments = f"tournaments not finished: {', '.join(unfinished_keys)}"
    return MissingEstimate("; ".join([*runs, tournaments]))


def removed_runs_note(results: Results, part: str | None = None) -> MissingEstimate:
    """Return a note on runs that were removed after their tournament."""
    return MissingEstimate(
        f"runs were removed after their tournament: {results.unfinished_message(part)}"
    )


def fit_elo(
    results: Results, parts: Sequence[str], factor: str, levels: Sequence[Level], *, name: str = ""
) -> GamesModel | MissingEstimate:
    """Fit the Elo of the final networks of several parts, with seeds as random blocks.

    `levels` are the levels of `factor` to compare; all of them contribute to the estimate of the
    variance. Ratings are relative to Random in the parts' tournaments named `name`. Random is a
    fixed reference: ratings relative to the mean of a seed's tournament would be negatively
    correlated, which the model does not allow for.
    """
    groups = {part: "-".join(filter(None, (part, name))) for part in parts}
    if missing := unfinished_tournaments_note(results, list(groups.values())):
        return missing
    values = {
        part: {
            level: {
                run.seed: results.tournaments[group].elo_above_agent(run)
                for run in results.runs_where(part, **{factor: level})
                if results.tournaments[group].plays(run)
            }
            for level in levels
        }
        for part, group in groups.items()
    }
    empty = [part for part, by_level in values.items() if not all(by_level.values())]
    return removed_runs_note(results, empty[0]) if empty else fit_games(values)


def training_elo_errors(run: TrainedRun) -> list[float]:
    """Return the standard error of a run's training Elo after each gate.

    Training Elo is the sum of the Elo differences measured by the gates of accepted candidates.
    Gates are independent, so their squared errors add up. Rejected candidates and gates without
    games change neither the Elo nor the error. The errors exclude the bias of gates towards lucky
    candidates.
    """
    return [best_error for _, best_error in _elo_errors(run)]


def candidate_elo_errors(run: TrainedRun) -> list[float]:
    """Return the standard error of the training Elo of every candidate with an Elo.

    It includes the error of the best network's Elo, since a candidate is rated relative to it.
    """
    gates = run.records_of(GateRecord)
    return [
        candidate_error
        for gate, (candidate_error, _) in zip(gates, _elo_errors(run), strict=True)
        if gate.candidate_elo is not None
    ]


def _elo_errors(run: TrainedRun) -> Iterator[tuple[float, float]]:
    """Yield the errors of the candidate's Elo and of the best network's after each gate."""
    variance = 0.0
    for gate in run.records_of(GateRecord):
        low, high = gate.candidate_elo_low, gate.candidate_elo_high
        measured = 0.0 if low is None or high is None else (high - low) / (2 * Z95)
        candidate_variance = variance + measured**2
        if gate.accepted:
            variance = candidate_variance
        yield math.sqrt(candidate_variance), math.sqrt(variance)


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
            rows.append(
                [
                    heading, label, len(sample.values), sample.mean,
                    components.observed if components else None,
                    components.between_runs if components else None,
                    components.measurement_error if components else sample.standard_errors[0],
                ]
            )  # fmt: skip
    columns: list[str | Column] = [
        group, series, "runs", Column("Elo", "+.0f"),
        Column("SD between runs", ".0f"), Column("SD of true strengths", ".0f"),
        Column("standard error of a run", ".0f"),
    ]  # fmt: skip
    return Table(name, title, columns, rows)


class RunElos(NamedTuple):
    """A run's training Elo and tournament Elo, with their standard errors."""

    training_elo: float
    training_elo_error: float
    tournament_elo: float
    tournament_elo_error: float


def run_elos(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> list[RunElos]:
    """Return each run's training Elo and its tournament Elo relative to Random."""
    return [
        RunElos(
            run.training_elos[-1],
            training_elo_errors(run)[-1],
            tournament.elo_above_agent(run),
            standard_error(tournament.final_rating(run)),
        )
        for run in runs
    ]


def observed_elo_correlation(
    groups: Sequence[Sequence[RunElos]],
) -> BootstrapEstimate | MissingEstimate:
    """Return the mean rank correlation over groups of runs.

    Measurement error attenuates a correlation; see `attenuation` for the largest value that can be
    observed.
    """
    if not all(len(group) > 2 for group in groups):
        return MissingEstimate("fewer than three runs per group: no correlation to compute")
    return bootstrap_in_batch(*map(_pairs, groups), statistic=_rank_correlations)


def rank_correlation(elos: Sequence[RunElos]) -> float:
    """Return Spearman's rank correlation, or 0 if either Elo is constant."""
    return float(_rank_correlations(_pairs(elos)[None])[0])


def _pairs(elos: Sequence[RunElos]) -> NDArray[np.float64]:
    """Return training Elo and tournament Elo, float64[runs, 2]."""
    return np.array([[each.training_elo, each.tournament_elo] for each in elos], np.float64)


def _rank_correlations(pairs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank correlation of each sample, float64[samples].

    `pairs` are float64[samples, runs, 2]. The correlation is 0 if either number is constant. Ties
    share their mean rank.
    """
    from scipy.stats import rankdata

    ranks = rankdata(pairs, axis=1) - (pairs.shape[1] + 1) / 2
    products = np.einsum("sri,srj->sij", ranks, ranks)
    scales = np.sqrt(products[:, 0, 0] * products[:, 1, 1])
    correlations = np.zeros(len(pairs))
    np.divide(products[:, 0, 1], scales, out=correlations, where=scales > 0.0)
    return correlations


def attenuation(elos: Sequence[RunElos]) -> float:
    """Return the factor by which measurement error reduces a correlation.

    This is the square root of the product of the two reliabilities. The reliability of a
    measurement is the share of its variance that is not error.
    """
    training = _reliability([(each.training_elo, each.training_elo_error) for each in elos])
    tournament = _reliability([(each.tournament_elo, each.tournament_elo_error) for each in elos])
    return math.sqrt(training * tournament)


def _reliability(measured: Sequence[tuple[float, float]]) -> float:
    values, errors = zip(*measured, strict=True)
    components = spread_components(values, errors)
    return 1.0 - components.error_share if components else 0.0


def fit_runs(
    results: Results,
    parts: Sequence[str],
    factor: str,
    levels: Sequence[Level],
    measure: Callable[[TrainedRun], float],
) -> GamesModel | MissingEstimate:
    """Fit a measure of the runs of several parts, with seeds as random blocks.

    `levels` are the levels of `factor` to compare; all of them contribute to the estimate of the
    variance.
    """
    values: dict[str, dict[Any, dict[Any, float]]] = {
        part: {
            level: {run.seed: measure(run) for run in results.runs_where(part, **{factor: level})}
            for level in levels
        }
        for part in parts
    }
    for part, by_level in values.items():
        if part not in results.design.parts or not all(by_level.values()):
            return MissingEstimate(results.unfinished_message(part) or f"no runs of {part}")
    return fit_games(values)


def contrast(
    model: GamesModel | MissingEstimate,
    weights: Mapping[Any, float],
    parts: Sequence[str] = (),
) -> StudentEstimate | MissingEstimate:
    """Return the mean of a contrast over `parts`, by default all, or why it is missing."""
    return model if isinstance(model, MissingEstimate) else model.contrast(weights, parts)


def smallest_lead(
    model: GamesModel | MissingEstimate,
    level: Level,
    rivals: Sequence[Level],
    parts: Sequence[str] = (),
) -> ClaimEstimate | MissingEstimate:
    """Return the mean lead of a level over its closest rival in `parts`, by default all.

    The closest rival is only known after the fact, so the estimate is the smallest of all leads.
    """
    if isinstance(model, MissingEstimate):
        return model
    leads = (model.contrast({level: 1.0, rival: -1.0}, parts) for rival in rivals)
    return estimate_smallest([*leads])
