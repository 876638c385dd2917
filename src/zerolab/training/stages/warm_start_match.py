"""The warm-start match: whether plain search has overtaken the search of the warm start."""

from __future__ import annotations

from collections.abc import Sequence

from zerolab.agents.options import NetworkOptions
from zerolab.training.context import TrainingContext
from zerolab.training.records import Record, WarmStartMatchRecord
from zerolab.training.stages.interface import Stage
from zerolab.training.warm_start.settings import warm_start_search, warm_start_weight


class WarmStartMatch(Stage):
    """Plays plain search against warm-start search, both with the best network [Wang2021a]."""

    name = "warm_start_match"

    def is_due(self, context: TrainingContext) -> bool:
        """See `Stage.is_due`: while the warm start lasts, if its schedule asks for matches."""
        warm_start = context.settings.warm_start
        weight = warm_start_weight(warm_start, context.progress)
        return warm_start.is_on and weight > 0 and warm_start.schedule.match is not None

    def run(self, context: TrainingContext) -> Sequence[Record]:
        """See `Stage.run`."""
        settings, progress = context.settings, context.progress
        schedule = settings.warm_start.schedule
        assert schedule.match is not None  # otherwise it would not be due
        games, openings = schedule.match
        seconds = context.begin("warm-start match", games, "games")
        weight = warm_start_weight(settings.warm_start, progress)
        search = warm_start_search(settings.search, settings.warm_start, weight)
        plain = context.network_agent(progress.best)
        warm = context.network_agent(
            progress.best, NetworkOptions.model_validate(search.model_dump())
        )
        # Numbers after those of the gate have random streams of their own.
        match = context.play_match(
            plain, warm, games, self.name, openings=openings, begin=settings.gate.games
        )
        los = match.difference().los
        over = schedule.is_over(los)
        context.update(warm_start_over=over)
        return [
            WarmStartMatchRecord(
                iteration=context.iteration,
                wall_seconds=seconds(),
                **match.score._asdict(),
                distinct_games=match.distinct,
                los=los,
                over=over,
            )
        ]
