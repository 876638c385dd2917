"""Report on loss functions: loss curves, training Elo and tournament Elo."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from zerolab.papers.elo import (
    GAME_TITLES,
    deviations_within_seeds,
    elo_sample,
    elo_sample_above_random,
    elo_table,
    missing_for_unfinished_tournaments,
    pooled_spread,
    rank_correlations,
)
from zerolab.papers.loss_functions.curve_claims import TRAINING_ELO_BIAS_CLAIM, part_title
from zerolab.papers.loss_functions.findings import loss_statistics
from zerolab.papers.loss_functions.study import GAMES, LAMBDA, LOSS_SYMBOLS, SIZES, candidate_elos
from zerolab.papers.solved_accuracy import accuracy_section
from zerolab.report.document import Block, Document, Heading, Paragraph, Picture
from zerolab.report.figures import RunSample
from zerolab.report.interval_plots import draw_grouped_runs
from zerolab.report.table import Z95
from zerolab.report.xy_plots import Curve, draw_curves
from zerolab.studies.claims import MissingEstimate
from zerolab.studies.design import FactorLevel
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.results import Results, provenance, verdict_section
from zerolab.studies.statistics import (
    POOLED_VARIANCE_NOTE,
    run_sample,
    with_pooled_intervals,
)
from zerolab.studies.study import scale_caveats
from zerolab.training.records import GateRecord


def loss_report(results: Results) -> Document:
    """Return the report on all finished runs and tournaments."""
    subject = (
        "which loss is best for networks of other sizes or after longer training, because a loss"
        " that learns slowly looks weak in short runs"
    )
    elos_by_loss = _elos_by_loss(results)
    blocks: list[Block] = [
        *verdict_section(results, results.judge(loss_statistics)),
        *_attainable_correlation_note(elos_by_loss),
        *_tournaments(results),
        *_training_elo(results, elos_by_loss),
        *accuracy_section(results, _part_titles(results), "loss", LOSS_SYMBOLS, "search"),
        *_losses(results),
        *_grid(results),
    ]
    return Document(
        "Four loss functions on three games of two sizes",
        scale_caveats(results.scale, len(results.planned_levels("seed")), subject),
        blocks,
        provenance(results),
    )


def _part_titles(results: Results) -> dict[str, str]:
    return {part: part_title(part) for part in results.design.part_names}


def _tournaments(results: Results) -> Iterator[Block]:
    yield Heading("Tournament Elo")
    groups: dict[str, dict[str, RunSample]] = {
        part_title(part): {
            symbol: elo_sample_above_random(
                results.tournaments[part], results.runs_where(part, loss=target)
            )
            for target, symbol in LOSS_SYMBOLS.items()
        }
        for part in results.design.part_names
        if part in results.tournaments
    }
    if not groups:
        yield Paragraph("No tournament is finished.")
        return
    groups = with_pooled_intervals(groups)
    yield Picture(
        "tournament-elo",
        draw_grouped_runs(groups, "Elo of final networks by minimised loss",
                  "tournament Elo above Random's", baseline=0.0),
        "Round-robin tournaments between Random and the final networks for each game and board"
        " size. Compare Fig. 11 of [Wang2020a], where Elo is relative to the mean of all players"
        " and there are more runs. Here Elo is relative to Random. The error of Random's own rating"
        " shifts all runs of a tournament equally; the intervals and the error bars of runs include"
        " it only if each seed has its own tournament. The papers print no numbers."
        f" {POOLED_VARIANCE_NOTE}",
    )  # fmt: skip
    yield elo_table("elo", "Tournament Elo above Random's by loss", groups, "game", "loss")


def _training_elo(
    results: Results, elos_by_loss: list[list[RunElos]] | MissingEstimate
) -> Iterator[Block]:
    trained = {
        part_title(part): {
            symbol: runs
            for target, symbol in LOSS_SYMBOLS.items()
            if (runs := results.runs_where(part, loss=target))
        }
        for part in results.design.part_names
    }
    panels = {
        title: {
            symbol: _padded_curve(
                [candidate_elos(run) for run in runs],
                [candidate_elo_standard_errors(run) for run in runs],
            )
            for symbol, runs in by_loss.items()
        }
        for title, by_loss in trained.items()
        if by_loss
    }
    if not panels:
        return
    yield Heading("Training Elo")
    yield Picture(
        "training-elo",
        draw_curves(panels, "Training Elo by minimised loss", "iteration",
                    "training Elo", columns=2),
        "Elo of the candidate of each iteration, estimated from gate games. It falls if a candidate"
        " is worse than the best network. The untrained network has Elo 0. Compare Fig. 10 of"
        " [Wang2020a]. Each candidate plays only the best network before it, so the errors of"
        " successive gates add up (thin bars). The bars include neither the bias of gates towards"
        " lucky candidates nor the bias from networks that learn to exploit their predecessors.",
    )  # fmt: skip
    groups = {
        title: {
            symbol: run_sample(
                [run.training_elos[-1] for run in runs],
                [training_elo_standard_errors(run)[-1] for run in runs],
            )
            for symbol, runs in by_loss.items()
        }
        for title, by_loss in trained.items()
        if by_loss
    }
    yield Picture(
        "training-elo-final",
        draw_grouped_runs(
            with_pooled_intervals(groups), "Training Elo after the last iteration", "training Elo"
        ),
        "Elo of the best network, for comparison with the tournament Elo above, on which the"
        f" paper's conclusions rest. {POOLED_VARIANCE_NOTE}",
    )
    yield from _correlation(elos_by_loss)


def _correlation(groups: list[list[RunElos]] | MissingEstimate) -> Iterator[Block]:
    """Yield the correlation between both kinds of Elo, observed and for perfect training Elo."""
    if isinstance(groups, MissingEstimate):
        return
    observed = fmean(rank_correlation(group) for group in groups)
    yield Paragraph(
        "The mean rank correlation between training Elo and tournament Elo over the runs of a loss"
        f" is {observed:.2f}. Because both are measured with errors, it would be only about"
        f" {attainable_correlation(groups):.2f} even if training Elo reflected the true strengths."
    )


def _attainable_correlation_note(
    groups: list[list[RunElos]] | MissingEstimate,
) -> Iterator[Block]:
    """Yield a note on the claim about training Elo if its limit cannot be reached."""
    if isinstance(groups, MissingEstimate):
        return
    attainable, claim = attainable_correlation(groups), TRAINING_ELO_BIAS_CLAIM
    if attainable < claim.threshold:
        yield Paragraph(
            "Even if training Elo reflected the true strengths of runs with the same loss, the"
            f" correlation in the finding on their ranking would be only about {attainable:.2f},"
            " because both kinds of Elo are measured with errors. A value below"
            f" {claim.threshold:g} therefore does not show that training Elo is biased."
        )


class RunElos(NamedTuple):
    """A run's training Elo and tournament Elo, with their standard errors."""

    training_elo: float
    training_elo_standard_error: float
    tournament_elo: float
    tournament_elo_standard_error: float


def run_elos(tournament: PlayedTournament, runs: Sequence[TrainedRun]) -> list[RunElos]:
    """Return training Elo and tournament Elo relative to their means over runs with the same seed.

    Training Elo is measured independently in each run, so its difference from the mean of n runs
    has the error of a run times sqrt(1 - 1/n), if all errors are equal. The errors of tournament
    Elo follow from the covariance of the ratings.
    """
    by_seed: dict[FactorLevel, list[TrainedRun]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    return [
        RunElos(
            training_elo,
            training_elo_standard_errors(run)[-1] * math.sqrt(1.0 - 1.0 / len(by_seed[run.seed])),
            elo,
            tournament.error_of_deviation(run, by_seed[run.seed]),
        )
        for run, training_elo, elo in zip(
            runs,
            deviations_within_seeds(runs, lambda run: run.training_elos[-1]),
            deviations_within_seeds(runs, tournament.elo_above_agent),
            strict=True,
        )
    ]


def rank_correlation(elos: Sequence[RunElos]) -> float:
    """Return Spearman's rank correlation, or 0 if either Elo is constant."""
    pairs = np.array([[each.training_elo, each.tournament_elo] for each in elos], np.float64)
    return float(rank_correlations(pairs[None])[0])


def attainable_correlation(groups: Sequence[Sequence[RunElos]]) -> float:
    """Return the mean rank correlation to expect over groups if the true correlation is 1.

    Measurement errors reduce a correlation of 1 to the square root of the product of the two
    reliabilities [Spearman1904]. The reliability of a measurement is the share of its variance that
    is not due to error. Variances are pooled over groups first: the reliability in a group of a few
    runs varies so much by chance that the mean of many would be too low.
    """
    training = _reliability(
        [[(each.training_elo, each.training_elo_standard_error) for each in group]
         for group in groups]
    )  # fmt: skip
    tournament = _reliability(
        [[(each.tournament_elo, each.tournament_elo_standard_error) for each in group]
         for group in groups]
    )  # fmt: skip
    measured = math.sqrt(training * tournament)
    return fmean(expected_rank_correlation(measured, len(group)) for group in groups)


def _reliability(groups: Sequence[Sequence[tuple[float, float]]]) -> float:
    """Return the reliability of values with standard errors."""
    columns = (zip(*group, strict=True) for group in groups)
    spread = pooled_spread([RunSample(values, errors) for values, errors in columns])
    return 1.0 - spread.error_share if spread else 0.0


def _elos_by_loss(results: Results) -> list[list[RunElos]] | MissingEstimate:
    """Return training Elo and tournament Elo of at least three runs of each board and loss."""
    parts = list(dict.fromkeys(run.part for run in results.design.runs))
    if missing := missing_for_unfinished_tournaments(results, parts):
        return missing
    groups = []
    for part in parts:
        runs = [run for target in LOSS_SYMBOLS for run in results.runs_where(part, loss=target)]
        elos = run_elos(results.tournaments[part], runs)
        for target in LOSS_SYMBOLS:
            group = [
                each for run, each in zip(runs, elos, strict=True) if run.factors["loss"] == target
            ]
            if len(group) < 3:
                return MissingEstimate("fewer than three runs per group: no correlation to compute")
            groups.append(group)
    return groups


def _padded_curve(runs: Sequence[Sequence[float]], errors: Sequence[Sequence[float]] = ()) -> Curve:
    longest = max(map(len, runs))
    padded, padded_errors = (
        [[*curve, *[float("nan")] * (longest - len(curve))] for curve in curves]
        for curves in (runs, errors)
    )
    return Curve(range(1, longest + 1), padded, padded_errors)


def _losses(results: Results) -> Iterator[Block]:
    yield Heading("All losses while one is minimised")
    for game in GAMES:
        panels = {
            f"{symbol} minimised, {size}": {
                name: _padded_curve(
                    [[losses[loss] for losses in run.last_epoch_losses] for run in runs]
                )
                for loss, name in LOSS_SYMBOLS.items()
            }
            for size in SIZES
            for target, symbol in LOSS_SYMBOLS.items()
            if (runs := results.runs_where(f"{game}-{size}", loss=target))
        }
        if panels:
            yield Picture(
                f"losses-{game.replace('_', '-')}",
                draw_curves(
                    panels, f"Losses of {GAME_TITLES[game]}", "iteration", "loss", columns=4
                ),
                "Mean losses over the last epoch of each iteration. The band is one standard"
                " deviation between runs. The means include every training example, so they have no"
                " sampling error. Compare Figs 7 to 9 of [Wang2020a].",
            )


def _grid(results: Results) -> Iterator[Block]:
    groups: dict[str, dict[str, RunSample]] = {}
    for part in results.design.part_names:
        tournament = results.tournaments.get(f"{part}-{LAMBDA}")
        if tournament is None:
            continue
        weights = [str(level).partition("=")[2] for level in results.planned_levels("loss", part)]
        levels = {"0": "value", "1": "policy"} | {
            weight: f"{LAMBDA}={weight}" for weight in weights if weight
        }
        for weight, level in sorted(levels.items(), key=lambda item: float(item[0])):
            sample = elo_sample(tournament, results.runs_where(part, loss=level))
            groups.setdefault(f"{LAMBDA} = {weight}", {})[part_title(part)] = sample
    if groups:
        yield Heading("Weighting of policy and value")
        yield Picture(
            "lambda",
            draw_grouped_runs(groups, "Elo by weight of the policy loss", "tournament Elo"),
            "l = lambda l_p + (1 - lambda) l_v [Wang2019]. lambda = 0 is the value loss alone, and"
            " lambda = 1 the policy loss alone. One tournament per game and seed.",
        )
        yield elo_table("lambda-elo", "Tournament Elo by weight", groups, "weight", "game")


def training_elo_standard_errors(run: TrainedRun) -> list[float]:
    """Return the standard error of a run's training Elo after each gate.

    Training Elo is the sum of the Elo differences measured by the gates of accepted candidates.
    Gates are independent, so their squared errors add up. Rejected candidates and gates without
    games change neither the Elo nor the error. The errors exclude the bias of gates towards lucky
    candidates.
    """
    return [best_error for _, best_error in _elo_errors(run)]


def candidate_elo_standard_errors(run: TrainedRun) -> list[float]:
    """Return the standard error of the training Elo of every candidate that has one.

    Each error includes that of the best network's Elo, since a candidate is rated relative to it.
    """
    gates = run.records_of(GateRecord)
    return [
        candidate_error
        for gate, (candidate_error, _) in zip(gates, _elo_errors(run), strict=True)
        if gate.candidate_elo is not None
    ]


def _elo_errors(run: TrainedRun) -> Iterator[tuple[float, float]]:
    """Yield the errors of the candidate's Elo and of the best network's Elo after each gate."""
    variance = 0.0
    for gate in run.records_of(GateRecord):
        low, high = gate.candidate_elo_low, gate.candidate_elo_high
        measured = 0.0 if low is None or high is None else (high - low) / (2 * Z95)
        candidate_variance = variance + measured**2
        if gate.accepted:
            variance = candidate_variance
        yield math.sqrt(candidate_variance), math.sqrt(variance)


def expected_rank_correlation(correlation: float, run_count: int) -> float:
    """Return the mean of Spearman's rank correlation over samples of at least two runs.

    The two quantities are normal, with a given correlation [Moran1948].
    """
    pairs = math.asin(correlation) + (run_count - 2) * math.asin(correlation / 2.0)
    return 6.0 / math.pi / (run_count + 1) * pairs
