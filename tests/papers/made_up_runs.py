"""Invented study results with known effects."""

from __future__ import annotations

from functools import cache

import numpy as np

from zerolab.ratings.ratings import Rating, RatingFit, Ratings
from zerolab.report.table import Z95, Interval
from zerolab.studies.claims import judge_claims
from zerolab.studies.finished_work import PlayedTournament, TrainedRun
from zerolab.studies.results import Results
from zerolab.training.records import AccuracyRecord, GateRecord, LearnRecord, SelfPlayRecord


@cache
def design_of(study, scale, seed_count=None):
    """Return the design of a study class with all or the first planned seeds.

    It is cached, because large designs take about a second.
    """
    return study().design(scale, study().planned_seeds(scale)[:seed_count])


@cache
def _work_records(iterations, epochs, selfplay, learn, loss, fall, simulations, samples):
    """Return the self-play and learning records of each iteration, which equal runs share."""
    records = []
    for iteration in range(1, iterations + 1):
        counts = dict.fromkeys(
            ("games", "distinct_games", "positions", "evaluated", "deduplicated", "cached",
             "terminal"), 10,
        ) | {"simulations": simulations}  # fmt: skip
        walls = dict.fromkeys(
            ("wall_select_seconds", "wall_evaluate_seconds", "wall_backup_seconds"), 0.0
        )
        played = SelfPlayRecord(
            iteration=iteration, wall_seconds=selfplay / iterations, **counts, **walls
        )
        excesses = [
            fall * ((iterations - iteration) / iterations + (epochs - epoch) / (10 * epochs))
            for epoch in range(1, epochs + 1)
        ]
        losses = [
            {
                "policy": 0.7 * loss + excess,
                "value": 0.3 * loss + excess / 3,
                "sum": loss + excess,
                "product": 0.21 * loss,
            }
            for excess in excesses
        ]
        learned = LearnRecord(
            iteration=iteration, wall_seconds=learn / iterations, examples_seen=samples,
            window=100, loss=losses[-1], epoch_losses=losses if epochs > 1 else None,
        )  # fmt: skip
        records.append((played, learned))
    return records


def accuracy_record(iteration, strong):
    """Return the policy's strong accuracy after an iteration, and half of it for search."""
    names = [name for name in AccuracyRecord.model_fields if name.endswith(("low", "high"))]
    shares = dict.fromkeys([*names, "network_weak", "search_weak"], 0.5)
    return AccuracyRecord(
        iteration=iteration, wall_seconds=100.0, network=iteration, positions=10,
        network_strong=strong, search_strong=strong / 2, **shares,
    )  # fmt: skip


def made_up_run(
    planned,
    seconds,
    loss=1.0,
    fall=1.0,
    elo=0.0,
    dip=0.0,
    simulations=10,
    samples=100,
    accuracy=0.5,
    measurements=None,
):
    """Return a run with equal iterations.

    `seconds` maps stages to total seconds. `simulations` and `samples` are per iteration. The loss
    falls by about `fall` with epochs and iterations, down to `loss`. Training Elo rises by `elo` in
    each iteration, but the second candidate's is lower by `dip`. `accuracy` refers to solved
    positions; `measurements` replace it.
    """
    iterations, epochs = planned.settings.iterations, planned.settings.learn.epochs
    records = _work_records(
        iterations, epochs, seconds["selfplay"], seconds["learn"], loss, fall, simulations, samples
    )
    gate_seconds = seconds["gate"] / iterations
    with_gates = []
    for iteration, work in enumerate(records, start=1):
        gate = GateRecord(
            iteration=iteration, wall_seconds=gate_seconds, accepted=True, elo=elo * iteration,
            candidate_elo=elo * iteration - dip * (iteration == 2),
        )  # fmt: skip
        with_gates += [*work, gate]
        if planned.settings.accuracy.every:
            with_gates.append(accuracy_record(iteration, accuracy * iteration / iterations))
    measured = {"policy": accuracy, "search": accuracy + 0.1, "regret": 1.0 - accuracy}
    return TrainedRun(planned, with_gates, measurements=measurements or measured)


def made_up_tournament(planned, elos, error):
    """Return the tournaments of all seeds, with the given Elo by run label and -300 for Random.

    There are no draws, so the BayesElo scale is that of the model. All ratings have the standard
    error `error`; apart from their mean, which is fixed, their errors are independent.
    """
    played = PlayedTournament(planned, {})
    ratings = {}
    for tournament in planned:
        elo_by_name = {name: elos[name] for name in tournament.run_by_player} | {"random": -300.0}
        names = sorted(elo_by_name, key=elo_by_name.get, reverse=True)
        n = len(names)
        covariance = np.zeros((n + 2, n + 2))
        covariance[:n, :n] = error**2 * (n * np.eye(n) - 1) / (n - 1)
        elos_of_names = np.array([elo_by_name[name] for name in names])
        ratings[tournament.key] = Ratings(
            [
                Rating(
                    name, Interval(elo, elo - Z95 * error, elo + Z95 * error), 10, 10, 0.5, 0.0,
                    0.0, elo,
                )
                for name, elo in elo_by_name.items()
            ],
            RatingFit(tuple(names), elos_of_names, 0.0, 0.0, covariance),
        )  # fmt: skip
    played.__dict__["ratings"] = ratings
    return played


def made_up_results(scale, design, measure, elo, error=0.0):
    """Return results; `measure` returns arguments of `made_up_run`, and `elo` the Elo of a run."""
    runs = [made_up_run(planned, **measure(planned)) for planned in design.runs]
    groups = {}
    for each in design.tournaments:
        groups.setdefault(each.group_name, []).append(each)
    played = {
        group: made_up_tournament(
            planned,
            {name: elo(run) for each in planned for name, run in each.run_by_player.items()},
            error,
        )
        for group, planned in groups.items()
    }
    return Results(scale, design, runs, played)


def noise(planned, size=20.0, what="elo"):
    """Return a normal deviate that depends on the run and on `what`."""
    return (
        size
        * np.random.default_rng(
            [*planned.part.encode(), *planned.label.encode(), *what.encode()]
        ).normal()
    )


def alike(planned):
    """Return equal times for all runs, and training Elo with low noise."""
    seconds = {"selfplay": 1.0, "learn": 1.0, "gate": 1.0}
    return {"seconds": seconds, "elo": 10 + noise(planned, 1.0, "training")}


def words(estimates):
    """Return the verdict words by claim key."""
    return {verdict.claim.key: verdict.word for verdict in judge_claims(estimates)}
