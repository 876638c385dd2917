"""The gate: candidate and best network play, and a criterion decides which is the best now."""

from __future__ import annotations

from collections.abc import Sequence

from zerolab.training.context import TrainingContext
from zerolab.training.records import GateRecord, Record
from zerolab.training.stages.interface import Stage


class GateStage(Stage):
    """Accepts or rejects the candidate of this iteration; see `training.gates`."""

    name = "gate"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`; there may be too few examples for a batch norm yet."""
        return len(context.window) > 1

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        seconds = context.begin("gate", context.settings.gate.games, "games")
        shown = _play(context) if context.settings.gate.games else {"accepted": True}
        accepted, progress = shown["accepted"], context.progress
        elo = shown.get("candidate_elo", progress.elo) if accepted else progress.elo
        context.update(best=progress.iteration if accepted else progress.best, elo=elo)
        fields = {"iteration": context.iteration, "wall_seconds": seconds(), "elo": elo, **shown}
        return [GateRecord.model_validate(fields)]


def _play(context: TrainingContext) -> dict[str, float]:
    """Return the verdict and what it rests on, as fields of the record."""
    gate, progress = context.settings.gate, context.progress
    candidate, best = (context.network_agent(n) for n in (progress.iteration, progress.best))
    match = context.play_match(candidate, best, gate.games, GateStage.name, openings=gate.openings)
    gained = match.difference()
    return {
        **match.score._asdict(),
        "accepted": gate.accepts(match.score, gained.los),
        "distinct_games": match.distinct,
        "candidate_elo": progress.elo + gained.elo,
        "candidate_elo_low": progress.elo + gained.low,
        "candidate_elo_high": progress.elo + gained.high,
        "los": gained.los,
    }
