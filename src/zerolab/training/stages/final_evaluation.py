"""The final evaluation, once training is over: games against baseline opponents, and the test."""

from __future__ import annotations

from collections.abc import Sequence

from zerolab.core.errors import one_line
from zerolab.oracles.interface import NotSolvedError
from zerolab.play.match import Match
from zerolab.play.results import pair_result
from zerolab.training.baselines import Baseline, run_baselines
from zerolab.training.context import FINAL_STAGE, TrainingContext
from zerolab.training.records import BaselineRecord, Record, UnplayedRecord
from zerolab.training.stages.interface import Stage
from zerolab.training.stages.supervised import measure_part


class FinalEvaluation(Stage):
    """Plays every baseline from paired random openings, so that games differ fairly.

    Where solved positions were learnt from, those for the test are measured first.
    """

    name = FINAL_STAGE

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        solved = context.solved_split
        tested = [measure_part(context, "test", solved.test)] if solved else []
        opponents = run_baselines(context) if context.settings.final_evaluation.games else []
        return [*tested, *(_against(context, opponent) for opponent in opponents)]


def _against(context: TrainingContext, baseline: Baseline) -> Record:
    name, best = baseline.agent.name, context.progress.best
    seconds = context.begin(f"against {name}", context.settings.final_evaluation.games, "games")
    try:
        match = _play(context, baseline)
    except NotSolvedError as error:  # however often it is tried
        return UnplayedRecord(
            iteration=context.iteration,
            wall_seconds=seconds(),
            network=best,
            opponent=name,
            reason=one_line(error),
        )
    pair = pair_result(match.a, match.b, match.games)
    low, high = pair.interval
    return BaselineRecord(
        iteration=context.iteration,
        wall_seconds=seconds(),
        network=best,
        opponent=name,
        asked=baseline.asked,
        **match.score._asdict(),
        distinct_games=pair.distinct.games,
        score_rate=match.score.score_rate,
        low=low,
        high=high,
    )


def _play(context: TrainingContext, baseline: Baseline) -> Match:
    settings, opponent = context.settings.final_evaluation, baseline.agent
    player = context.network_agent(context.progress.best)
    stage = f"{FinalEvaluation.name} {opponent.name}"
    return context.play_match(player, opponent, settings.games, stage, openings=settings.openings)
