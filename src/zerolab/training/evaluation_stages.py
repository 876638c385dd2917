"""Stages that measure networks: accuracy, validation and the final evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import (
    Agent,
    NetworkOptions,
    check_program_starts,
    parse_search_options,
    require_network_outputs,
    split_options,
)
from zerolab.agents.specs import is_program_spec, parse_agents
from zerolab.core.errors import UserError, one_line, quoted
from zerolab.evaluation.accuracy import (
    AccuracyReport,
    accuracy_report,
    grade_moves,
    network_choices,
    player_choices,
)
from zerolab.evaluation.position_statistics import MeanEstimate, proportion_estimate
from zerolab.evaluation.positions import SolvedPositions
from zerolab.networks.inference import limit_torch_threads
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play.match import Match
from zerolab.play.pair_results import pair_result
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, ExtraOutput, evaluate
from zerolab.store.folder import FINAL_STAGE_NAME
from zerolab.training.context import Stage, TrainingContext
from zerolab.training.records import (
    AccuracyRecord,
    BaselineRecord,
    HeldOutRecord,
    Record,
    UnplayedBaselineRecord,
)
from zerolab.training.reporting import best_network_after, read_records
from zerolab.training.train_settings import TrainSettings
from zerolab.training.window_facts import outcome_labels

_BATCH = 1024
_MIN_PRIOR = 1e-30  # keeps logarithms finite


class Predictions(NamedTuple):
    """A network's predictions for n positions."""

    actions: NDArray[np.int64]
    """[n]: legal action with the highest prior."""
    outcomes: NDArray[np.int8]
    """[n]: most probable outcome for the side to move: -1, 0 or 1."""
    values: NDArray[np.float32]
    """[n]: expected outcome for the side to move, in [-1, 1]."""
    policy_errors: NDArray[np.float64]
    """[n]: cross-entropy between the priors and the uniform policy over the best moves."""


def predict_positions(
    evaluator: Evaluator, positions: SolvedPositions, predicts_draws: bool
) -> Predictions:
    """Return a network's predictions for solved positions.

    `predicts_draws` is True if a head of the network predicts draws. Without such a head, the
    outcome nearest to the value is predicted.
    """
    extra_outputs: tuple[ExtraOutput, ...] = ("draws",) if predicts_draws else ()
    parts = []
    with limit_torch_threads(1):  # as in games: on several cores, the last bits can differ
        for begin in range(0, len(positions), _BATCH):
            rows = slice(begin, begin + _BATCH)
            priors, values, draws, _ = evaluate(evaluator, positions.states[rows], extra_outputs)
            outcomes = np.rint(values) if draws is None else _most_probable(values, draws)
            best = positions.action_values[rows] == positions.position_values[rows, None]
            logs = np.where(best, np.log(np.maximum(priors, _MIN_PRIOR)), 0.0).sum(axis=1)
            actions = np.where(positions.legal[rows], priors, -1.0).argmax(axis=1)
            parts.append((actions, outcomes.astype(np.int8), values, -logs / best.sum(axis=1)))
    return Predictions(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _most_probable(values: NDArray[np.float32], draws: NDArray[np.float32]) -> NDArray[np.float64]:
    decisive = 1 - draws
    probabilities = np.stack([(decisive - values) / 2, draws, (decisive + values) / 2])
    return np.asarray(probabilities.argmax(axis=0) - 1.0)


class ValidationStage(Stage):
    """Stage that accepts every candidate and measures it on the validation positions."""

    name = "supervised"

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Make the candidate the best network, and measure it."""
        context.update_progress(best=context.progress.iteration)
        split = context.inputs.solved_split
        assert split is not None  # only supervised runs have this stage
        return [measure_solved_positions(context, "validation", split.validation)]


def measure_solved_positions(
    context: TrainingContext, name: str, positions: SolvedPositions
) -> HeldOutRecord:
    """Measure the best network on a part of the solved positions: "validation" or "test"."""
    elapsed = context.report_start(name, len(positions), "positions")
    heads = context.settings.network.heads
    predicts_draws = any("draws" in head.evaluator_outputs for head in heads)
    predictions = predict_positions(
        context.load_evaluator(context.progress.best), positions, predicts_draws
    )
    grades = grade_moves(positions, predictions.actions)
    labels = outcome_labels(positions, context.enabled_bugs)
    exact = np.sign(positions.position_values)
    estimates = {
        "strong": proportion_estimate(grades.is_best, positions.game_numbers),
        "weak": proportion_estimate(grades.preserves_result, positions.game_numbers),
        "label": proportion_estimate(predictions.outcomes == labels, positions.game_numbers),
        "result": proportion_estimate(predictions.outcomes == exact, positions.game_numbers),
    }
    fields = {
        "iteration": context.iteration,
        "wall_seconds": elapsed(),
        "part": name,
        "positions": len(positions),
        "policy_error": float(predictions.policy_errors.mean()),
        "value_error": float(np.square(predictions.values - exact).mean()),
    }
    for measure, estimate in estimates.items():
        fields |= _interval_fields(measure, estimate)
    return HeldOutRecord.model_validate(fields)


def _interval_fields(name: str, estimate: MeanEstimate | None) -> dict[str, float]:
    assert estimate is not None  # there is at least one position
    mean, low, high = estimate.interval
    return {name: mean, f"{name}_low": low, f"{name}_high": high}


class AccuracyStage(Stage):
    """Measurement of the best network on solved positions, every few iterations and in the last.

    Every measurement uses the same random numbers, so that only the networks differ.
    """

    name = "accuracy"

    def is_due(self, context: TrainingContext) -> bool:
        """Return True in every `accuracy.every`-th iteration, and in the last one."""
        every, iteration = context.settings.accuracy.every, context.iteration
        if context.inputs.accuracy_positions is None:
            return False
        return iteration % every == 0 or context.is_over_after(iteration)

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Measure the best network alone and with its search."""
        positions, best = context.inputs.accuracy_positions, context.progress.best
        assert positions is not None  # is_due() checks this
        elapsed = context.report_start("accuracy", len(positions), "positions")
        choices = network_choices(context.load_evaluator(best), positions)
        alone = accuracy_report("network", positions, choices)
        choices = player_choices(
            context.network_agent(best),
            positions,
            context.settings.seed,
            context.reporter.progress,
            executor=context.executor,
            chunks=context.settings.selfplay.chunk_count,
        )
        search = accuracy_report("search", positions, choices)
        fields = {
            "iteration": context.iteration,
            "wall_seconds": elapsed(),
            "network": best,
            "positions": len(positions),
            **_accuracy_fields(alone),
            **_accuracy_fields(search),
        }
        return [AccuracyRecord.model_validate(fields)]


def _accuracy_fields(report: AccuracyReport) -> dict[str, float]:
    fields = {
        **_interval_fields(f"{report.name}_strong", report.all_positions.strong),
        **_interval_fields(f"{report.name}_weak", report.all_positions.weak),
    }
    error = report.value_accuracy and report.value_accuracy.mean_squared_error
    return fields | ({f"{report.name}_value_error": error.interval.value} if error else {})


_MAX_DIGITS = 9


class Baseline(NamedTuple):
    """An opponent of the final evaluation."""

    agent: Agent
    requested_spec: str | None = None
    """The spec in the settings, if it names an iteration other than the agent's."""


def resolve_baselines(context: TrainingContext) -> list[Baseline]:
    """Return the opponents of a run's final evaluation, without duplicates.

    ``@12`` is the best network after iteration 12, even if candidate 12 was rejected or the run
    ended earlier.
    """
    baselines: dict[str, Baseline] = {}
    for spec in context.settings.final_evaluation.baselines:
        baseline = _resolve_baseline(context, spec)
        baselines.setdefault(baseline.agent.name, baseline)
    return list(baselines.values())


def _resolve_baseline(context: TrainingContext, spec: str) -> Baseline:
    if not spec.startswith("@"):
        return Baseline(parse_agents([spec], context.game)[0])
    iteration, options = _parse_own_network(spec, context.settings)
    best = best_network_after(read_records(context.run), iteration)
    agent = context.network_agent(best, options)
    return Baseline(agent, None if best == iteration else spec)


def check_baselines(settings: TrainSettings, game: Game) -> None:
    """Raise UserError unless every baseline of the final evaluation can play the game.

    Programs are started for this check.
    """
    if not settings.final_evaluation.games:
        return
    for spec in settings.final_evaluation.baselines:
        if spec.startswith("@"):
            _parse_own_network(spec, settings)
        else:
            agent = parse_agents([spec], game)[0]
            if is_program_spec(spec):
                check_program_starts(agent)


def _parse_own_network(spec: str, settings: TrainSettings) -> tuple[int, NetworkOptions]:
    """Return the iteration and options of a spec such as ``@12`` or ``@12?simulations=400``."""
    head, text = split_options(spec[1:])
    if not (head.isdecimal() and len(head) <= _MAX_DIGITS):
        raise UserError(f"{quoted(spec)}: expected a network of this run, such as @0")
    if int(head) > settings.iterations:
        raise UserError(
            f"{quoted(spec)} is beyond the {settings.iterations} iterations of the run: expected"
            f" at most @{settings.iterations}"
        )
    options = parse_search_options(NetworkOptions, text, settings.search)
    if options.simulations:
        require_network_outputs(options, settings.network)
    return int(head), options


class FinalEvaluationStage(Stage):
    """Games against every baseline; each random opening is played twice, with colours swapped.

    In a supervised run, the network is first measured on the test positions.
    """

    name = FINAL_STAGE_NAME

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Measure the best network on the test positions, if any, and play the baselines."""
        split = context.inputs.solved_split
        test_records = [measure_solved_positions(context, "test", split.test)] if split else []
        baselines = resolve_baselines(context) if context.settings.final_evaluation.games else []
        return [*test_records, *(_evaluate(context, baseline) for baseline in baselines)]


def _evaluate(context: TrainingContext, baseline: Baseline) -> Record:
    name, best = baseline.agent.name, context.progress.best
    elapsed = context.report_start(
        f"against {name}", context.settings.final_evaluation.games, "games"
    )
    try:
        match = _play_baseline(context, baseline)
    except NotSolvedError as error:  # repeating the games would fail in the same way
        return UnplayedBaselineRecord(
            iteration=context.iteration,
            wall_seconds=elapsed(),
            network=best,
            opponent=name,
            reason=one_line(error),
        )
    pair = pair_result(match.a, match.b, match.games)
    score_rate, low, high = pair.interval
    return BaselineRecord(
        iteration=context.iteration,
        wall_seconds=elapsed(),
        network=best,
        opponent=name,
        asked=baseline.requested_spec,
        **match.score._asdict(),
        distinct_games=match.distinct_count,
        score_rate=score_rate,
        low=low,
        high=high,
    )


def _play_baseline(context: TrainingContext, baseline: Baseline) -> Match:
    settings, opponent = context.settings.final_evaluation, baseline.agent
    player = context.network_agent(context.progress.best)
    stage = f"{FinalEvaluationStage.name} {opponent.name}"
    return context.play_match(player, opponent, settings.games, stage, openings=settings.openings)
