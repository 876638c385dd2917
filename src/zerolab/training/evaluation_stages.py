"""Stages that only measure the best network: accuracy, validation and the final evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Agent, ProgramPlayer
from zerolab.agents.options import (
    NetworkOptions,
    parse_options,
    require_network_outputs,
    split_options,
)
from zerolab.agents.specs import parse_agents, runs_program
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.evaluation.accuracy import (
    AccuracyReport,
    accuracy_report,
    grade_moves,
    network_choices,
    player_choices,
)
from zerolab.evaluation.estimates import Estimate, proportion_estimate
from zerolab.evaluation.positions import Positions
from zerolab.networks.inference import torch_threads
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play.match import Match
from zerolab.play.pair_results import pair_result
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, ExtraOutput, evaluate
from zerolab.training.context import FINAL_STAGE, Stage, TrainingContext
from zerolab.training.facts import label_outcomes
from zerolab.training.records import (
    AccuracyRecord,
    BaselineRecord,
    Record,
    SupervisedRecord,
    UnplayedRecord,
)
from zerolab.training.reporting import best_after, read_records
from zerolab.training.settings import TrainSettings

_BATCH = 1024
_LEAST = 1e-30  # of a probability whose logarithm is taken


class Prediction(NamedTuple):
    """A network's predictions for n positions."""

    actions: NDArray[np.int64]
    """[n]: the legal action with the highest prior."""
    results: NDArray[np.int8]
    """[n]: the most probable outcome for the mover, -1, 0 or 1."""
    values: NDArray[np.float32]
    """[n]: the expected outcome for the mover."""
    policy_errors: NDArray[np.float64]
    """[n]: cross-entropy of the priors with the uniform policy over the best moves."""


def predict(evaluator: Evaluator, positions: Positions, knows_draws: bool) -> Prediction:
    """Return a network's predictions; `knows_draws` if one of its heads gives draw probabilities.

    Without such a head, the result is the outcome nearest to the expected one.
    """
    wanted: tuple[ExtraOutput, ...] = ("draws",) if knows_draws else ()
    parts = []
    with torch_threads(1):  # as in games; on several cores last bits may differ
        for begin in range(0, len(positions), _BATCH):
            rows = slice(begin, begin + _BATCH)
            priors, values, draws, _ = evaluate(evaluator, positions.states[rows], wanted)
            results = np.rint(values) if draws is None else _most_probable(values, draws)
            best = positions.values[rows] == positions.best[rows, None]
            logs = np.where(best, np.log(np.maximum(priors, _LEAST)), 0.0).sum(axis=1)
            actions = np.where(positions.legal[rows], priors, -1.0).argmax(axis=1)
            parts.append((actions, results.astype(np.int8), values, -logs / best.sum(axis=1)))
    return Prediction(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _most_probable(values: NDArray[np.float32], draws: NDArray[np.float32]) -> NDArray[np.float64]:
    decided = 1 - draws
    chances = np.stack([(decided - values) / 2, draws, (decided + values) / 2])
    return np.asarray(chances.argmax(axis=0) - 1.0)


class SupervisedStage(Stage):
    """Accepts every candidate, and measures it on the positions for validation."""

    name = "supervised"

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Make the candidate the best network, and measure it."""
        context.update(best=context.progress.iteration)
        split = context.inputs.split
        assert split is not None  # otherwise the run has no such stage
        return [measure_part(context, "validation", split.validation)]


def measure_part(context: TrainingContext, name: str, positions: Positions) -> SupervisedRecord:
    """Measure the best network on a part of the solved positions."""
    seconds = context.begin(name, len(positions), "positions")
    heads = context.settings.network.heads
    knows_draws = any("draws" in head.outputs for head in heads)
    predicted = predict(context.evaluator(context.progress.best), positions, knows_draws)
    grades = grade_moves(positions, predicted.actions)
    labels, exact = label_outcomes(positions, context.bugs), np.sign(positions.best)
    measured = {
        "strong": proportion_estimate(grades.strong, positions.games),
        "weak": proportion_estimate(grades.weak, positions.games),
        "label": proportion_estimate(predicted.results == labels, positions.games),
        "result": proportion_estimate(predicted.results == exact, positions.games),
    }
    fields = {
        "iteration": context.iteration,
        "wall_seconds": seconds(),
        "part": name,
        "positions": len(positions),
        "policy_error": float(predicted.policy_errors.mean()),
        "value_error": float(np.square(predicted.values - exact).mean()),
    }
    for measure, estimate in measured.items():
        fields |= _interval_fields(measure, estimate)
    return SupervisedRecord.model_validate(fields)


def _interval_fields(name: str, estimate: Estimate | None) -> dict[str, float]:
    assert estimate is not None  # there are positions
    mean, low, high = estimate.interval
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


class AccuracyStage(Stage):
    """Measures the best network on solved positions, every few iterations.

    The same random numbers are drawn each time, so that only the network makes a difference.
    """

    name = "accuracy"

    def is_due(self, context: TrainingContext) -> bool:
        """Return True in every `accuracy.every`-th iteration."""
        every = context.settings.accuracy.every
        return context.inputs.solved is not None and context.iteration % every == 0

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Measure the network alone, and with its search."""
        positions, best = context.inputs.solved, context.progress.best
        assert positions is not None  # otherwise it would not be due
        seconds = context.begin("accuracy", len(positions), "positions")
        choices = network_choices(context.evaluator(best), positions)
        alone = accuracy_report("network", positions, choices)
        choices = player_choices(
            context.network_agent(best),
            positions,
            context.settings.seed,
            context.reporter.progress,
        )
        search = accuracy_report("search", positions, choices)
        fields = {
            "iteration": context.iteration,
            "wall_seconds": seconds(),
            "network": best,
            "positions": len(positions),
            **_accuracy_fields(alone),
            **_accuracy_fields(search),
        }
        return [AccuracyRecord.model_validate(fields)]


def _accuracy_fields(report: AccuracyReport) -> dict[str, float]:
    fields: dict[str, float] = {}
    for measure in ("strong", "weak"):
        fields |= _interval_fields(f"{report.name}_{measure}", getattr(report.all, measure))
    error = report.value and report.value.squared_error
    return fields | ({f"{report.name}_value_error": error.interval.value} if error else {})


_MOST_DIGITS = 10


class Baseline(NamedTuple):
    """An opponent of the final evaluation."""

    agent: Agent
    asked: str | None = None
    """Its spec in the settings, if the network has another iteration."""


def run_baselines(context: TrainingContext) -> list[Baseline]:
    """Return the opponents of a run's final evaluation, without duplicates.

    ``@12`` is the best network after iteration 12, which is kept even if candidate 12 was rejected
    or the run ended earlier.
    """
    found: dict[str, Baseline] = {}
    for spec in context.settings.final_evaluation.baselines:
        baseline = _baseline(context, spec)
        found.setdefault(baseline.agent.name, baseline)
    return list(found.values())


def _baseline(context: TrainingContext, spec: str) -> Baseline:
    if not spec.startswith("@"):
        return Baseline(parse_agents([spec], context.game)[0])
    iteration, options = _own_network(spec, context.settings)
    best = best_after(read_records(context.run), iteration)
    agent = context.network_agent(best, options)
    return Baseline(agent, None if best == iteration else spec)


def check_baselines(settings: TrainSettings, game: Game) -> None:
    """Raise UserError unless every baseline of the final evaluation can play the game.

    A program is started to find out.
    """
    if not settings.final_evaluation.games:
        return
    for spec in settings.final_evaluation.baselines:
        if spec.startswith("@"):
            _own_network(spec, settings)
        else:
            agent = parse_agents([spec], game)[0]
            if runs_program(spec):
                _try_program(agent)


def _try_program(agent: Agent) -> None:
    player = agent.new_player()
    try:
        player.start(1)
    finally:
        if isinstance(player, ProgramPlayer):
            player.close()


def _own_network(spec: str, settings: TrainSettings) -> tuple[int, NetworkOptions]:
    """Return the iteration and the options in ``@12`` or ``@12?simulations=400``."""
    head, text = split_options(spec[1:])
    if not (head.isdecimal() and len(head) < _MOST_DIGITS):
        raise UserError(f"{quoted(spec)}: expected a network of this run, such as @0")
    if int(head) > settings.iterations:
        raise UserError(
            f"{quoted(spec)} is beyond the {settings.iterations} iterations of the run: expected"
            f" @{settings.iterations} at most"
        )
    options = parse_options(NetworkOptions, text, settings.search)
    if options.simulations:
        require_network_outputs(options, settings.network)
    return int(head), options


class FinalEvaluationStage(Stage):
    """Plays every baseline from paired random openings, which vary the games fairly.

    A run that learns from solved positions is first measured on those for the test.
    """

    name = FINAL_STAGE

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """Measure the positions for the test, if there are any, and play the baselines."""
        split = context.inputs.split
        tested = [measure_part(context, "test", split.test)] if split else []
        opponents = run_baselines(context) if context.settings.final_evaluation.games else []
        return [*tested, *(_against(context, opponent) for opponent in opponents)]


def _against(context: TrainingContext, baseline: Baseline) -> Record:
    name, best = baseline.agent.name, context.progress.best
    seconds = context.begin(f"against {name}", context.settings.final_evaluation.games, "games")
    try:
        match = _play_baseline(context, baseline)
    except NotSolvedError as error:  # another try would end the same way
        return UnplayedRecord(
            iteration=context.iteration,
            wall_seconds=seconds(),
            network=best,
            opponent=name,
            reason=one_line(error),
        )
    pair = pair_result(match.a, match.b, match.games)
    score_rate, low, high = pair.interval
    return BaselineRecord(
        iteration=context.iteration,
        wall_seconds=seconds(),
        network=best,
        opponent=name,
        asked=baseline.asked,
        **match.score._asdict(),
        distinct_games=pair.distinct.games,
        score_rate=score_rate,
        low=low,
        high=high,
    )


def _play_baseline(context: TrainingContext, baseline: Baseline) -> Match:
    settings, opponent = context.settings.final_evaluation, baseline.agent
    player = context.network_agent(context.progress.best)
    stage = f"{FinalEvaluationStage.name} {opponent.name}"
    return context.play_match(player, opponent, settings.games, stage, openings=settings.openings)
