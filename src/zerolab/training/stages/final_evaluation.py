"""The final evaluation, once training is over: games against baseline opponents, and the test."""

from __future__ import annotations

from collections.abc import Sequence

from zerolab.agents.interface import Agent
from zerolab.play.results import pair_result
from zerolab.training.context import FINAL_STAGE, TrainingContext
from zerolab.training.records import BaselineRecord, Record
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
        opponents = context.baselines() if context.settings.final_evaluation.games else []
        return [*tested, *(_against(context, opponent) for opponent in opponents)]


def _against(context: TrainingContext, opponent: Agent) -> BaselineRecord:
    settings, best = context.settings.final_evaluation, context.progress.best
    seconds = context.begin(f"against {opponent.name}", settings.games, "games")
    player = context.network_agent(best)
    stage = f"{FinalEvaluation.name} {opponent.name}"
    match = context.play_match(player, opponent, settings.games, stage, openings=settings.openings)
    pair = pair_result(match.a, match.b, match.games)
    low, high = pair.interval
    return BaselineRecord(
        iteration=context.iteration,
        wall_seconds=seconds(),
        network=best,
        opponent=opponent.name,
        **match.score._asdict(),
        distinct_games=pair.distinct.games,
        score_rate=match.score.score_rate,
        low=low,
        high=high,
    )
