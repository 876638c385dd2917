"""The self-play stage, and games that are played ahead of it.

With `selfplay.lag`, an iteration's games need only the network from two iterations earlier, so
other processes can play them while this one is working on the previous iteration. This changes when
games are played, but not the games themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from zerolab.league.league import play_league_iteration
from zerolab.play.executors import Executor, PlayProgress, PlayProgressCallback
from zerolab.play.observers import resignation_counts
from zerolab.play.search_service import NetworkEvaluatorFactory
from zerolab.play.selfplay import SelfPlayResult, play_episodes
from zerolab.play.selfplay_modes import play_continuous, play_with_service
from zerolab.play.selfplay_settings import ContinuousMode, SelfPlaySettings, ServiceMode
from zerolab.search.evaluator import Evaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Examples
from zerolab.store.folder import RunProgress
from zerolab.store.games import SELF_PLAY_STAGE
from zerolab.training.context import Stage, TrainingContext
from zerolab.training.records import Record, SelfPlayRecord, WarmStartMatchRecord
from zerolab.training.reporting import best_network_after, read_records
from zerolab.training.warm_start import warm_start_search_settings, warm_start_weight

_POLL_SECONDS = 0.2


class SelfPlayStage(Stage):
    """Self-play with the best network, which produces the examples of an iteration."""

    name = SELF_PLAY_STAGE

    def execute(self, context: TrainingContext) -> Sequence[Record]:
        """Play games, save them with their examples, and add the examples to the replay window."""
        elapsed = context.report_start("self-play", *_planned_work(context.settings.selfplay))
        iteration = context.progress.iteration
        ahead, context.games_ahead = context.games_ahead, None
        if ahead is not None and ahead.iteration == iteration:
            played, seconds = ahead.wait(_progress_callback(context, ahead.start))
        else:
            report = _progress_callback(context, perf_counter())
            played = _loaded_games(context, iteration, context.executor)(report)
            seconds = elapsed()  # excludes computing the features of the examples
        _save_games(context, played.result)
        fields = _record_fields(context, played, seconds)
        return [SelfPlayRecord.model_validate(fields)]


class _PlayedGames(NamedTuple):
    """The games of an iteration."""

    result: SelfPlayResult
    warm_start_weight: float
    full_simulations: int
    """Simulations of a full search."""
    generation: int | None = None
    """In a league, the generation of the last game."""


class GamesAhead:
    """Games of the next iteration, which are played in the background."""

    def __init__(
        self, iteration: int, play: Callable[[PlayProgressCallback], _PlayedGames]
    ) -> None:
        self.iteration = iteration
        self.start = perf_counter()
        self._progress = PlayProgress(0, 0)
        self._is_cancelled = False
        self._pool = ThreadPoolExecutor(1, "ahead")
        self._games = self._pool.submit(self._timed, play)
        self._pool.shutdown(wait=False)

    def _timed(
        self, play: Callable[[PlayProgressCallback], _PlayedGames]
    ) -> tuple[_PlayedGames, float]:
        games = play(self._note)
        return games, perf_counter() - self.start

    def _note(self, progress: PlayProgress) -> None:
        if self._is_cancelled:
            raise CancelledError
        self._progress = progress

    def wait(self, report: PlayProgressCallback) -> tuple[_PlayedGames, float]:
        """Wait for the games, and return them with the seconds that they took."""
        while not wait([self._games], _POLL_SECONDS).done:
            report(self._progress)
        return self._games.result()

    def cancel(self) -> None:
        """Stop playing soon, since the games are not needed."""
        self._is_cancelled = True


def begin_games_ahead(context: TrainingContext) -> None:
    """Begin the next iteration's games if settings and executor allow it and they have not begun.

    Call this before every stage except self-play. Modes with a search service use this machine, so
    their games would only delay the learner.
    """
    following, background = context.progress.iteration + 1, context.executor.background_executor
    play = context.settings.selfplay
    is_allowed = play.lag and not isinstance(play.mode, ServiceMode)
    is_allowed = is_allowed and context.inputs.solved_split is None
    has_games = context.games_ahead is not None or following > context.settings.iterations
    if not is_allowed or has_games or background is None:
        return
    context.games_ahead = GamesAhead(following, _loaded_games(context, following, background))


def cancel_games_ahead(context: TrainingContext) -> None:
    """Stop games that were begun for an iteration that will not take place."""
    if context.games_ahead is not None:
        context.games_ahead.cancel()
        context.games_ahead = None


def _progress_at(context: TrainingContext, iteration: int) -> RunProgress:
    """Return the progress that determines which network plays the games of an iteration.

    This progress differs from the current one if `selfplay.lag` is set: the games then depend only
    on iterations before the previous one.
    """
    if not context.settings.selfplay.lag:
        return context.progress
    known, records = iteration - 2, read_records(context.run)
    over = any(
        record.over and record.iteration <= known
        for record in records
        if isinstance(record, WarmStartMatchRecord)
    )
    best = best_network_after(records, known)
    changes = {"iteration": iteration, "best": best, "warm_start_over": over}
    return context.progress.model_copy(update=changes)


def _completed_share(context: TrainingContext, iteration: int) -> float:
    """Return the share of the run, in [0, 1], that is done before the games of an iteration.

    With `selfplay.lag`, the share according to the stop rule is estimated before the previous
    iteration.
    """
    settings = context.settings
    by_iterations = (iteration - 1) / settings.iterations
    if settings.selfplay.lag:
        by_rule = context.completed_shares(iteration - 1).after
    else:
        by_rule = context.completed_shares(iteration).before
    return min(1.0, max(by_iterations, by_rule))


def _self_play_search(
    context: TrainingContext, iteration: int, warm_start_weight: float
) -> SearchSettings:
    """Return the search that plays the games of an iteration."""
    settings, search = context.settings, context.settings.search
    if settings.selfplay.progressive is not None:
        search = settings.selfplay.search_settings_at(_completed_share(context, iteration), search)
    return warm_start_search_settings(search, settings.warm_start, warm_start_weight)


def _loaded_games(
    context: TrainingContext, iteration: int, executor: Executor
) -> Callable[[PlayProgressCallback], _PlayedGames]:
    """Load everything that the games of an iteration need; return the function that plays them.

    The function can be called in another thread.
    """
    settings, progress = context.settings, _progress_at(context, iteration)
    evaluator = context.load_evaluator(progress.best)
    weight = warm_start_weight(settings.warm_start, progress)
    if context.league is not None:
        league, state = context.league, context.league.state_before(iteration)

        def play_league(report: PlayProgressCallback) -> _PlayedGames:
            result, generation = play_league_iteration(
                league, state, settings.selfplay.episodes, evaluator, iteration, report,
                executor=executor, chunks=settings.selfplay.chunk_count,
            )  # fmt: skip
            return _PlayedGames(result, weight, settings.search.simulations, generation)

        return play_league
    search = _self_play_search(context, iteration, weight)
    play = _loaded_self_play(context, progress, evaluator, search, executor)
    return lambda report: _PlayedGames(play(report), weight, search.simulations)


def _loaded_self_play(
    context: TrainingContext,
    progress: RunProgress,
    evaluator: Evaluator,
    search: SearchSettings,
    executor: Executor,
) -> Callable[[PlayProgressCallback], SelfPlayResult]:
    """Return a function that plays a network against itself, continuing any unfinished games."""
    settings, iteration, run = context.settings, progress.iteration, context.run
    arguments = context.game, settings.selfplay, search, evaluator, settings.seed
    name = context.network_agent(progress.best).name
    if isinstance(settings.selfplay.mode, ServiceMode):
        factory = partial(_network_evaluator_factory, context, progress.best)
        return lambda report: play_with_service(
            *arguments, iteration, report, name=name, evaluator_factory=factory
        )
    openings = settings.selfplay.start.new_openings(
        run.load_examples, settings.search.discount, settings.seed, iteration
    )
    play = {"openings": openings, "name": name, "executor": executor}
    if isinstance(settings.selfplay.mode, ContinuousMode):
        unfinished = run.load_unfinished_games(iteration - 1) if iteration > 1 else None
        return lambda report: play_continuous(*arguments, unfinished, report, **play)
    return lambda report: play_episodes(*arguments, iteration, report, **play)


def _planned_work(settings: SelfPlaySettings) -> tuple[int, str]:
    """Return the number of plies or games to play, and the unit."""
    if isinstance(settings.mode, ContinuousMode):
        return settings.mode.plies * settings.parallel_games, "plies"
    return settings.episodes, "games"


def _network_evaluator_factory(context: TrainingContext, best: int) -> NetworkEvaluatorFactory:
    """Return a network in a form from which other processes can build an evaluator."""
    settings, weights = context.settings, context.run.load_weights(best)
    return NetworkEvaluatorFactory(
        settings.game, settings.network_settings_at(best).model_dump(), weights
    )


def _record_fields(
    context: TrainingContext, played: _PlayedGames, seconds: float
) -> dict[str, Any]:
    """Return the fields of the record.

    Uninformative fields, such as the simulations per move with a fixed budget, are None.
    """
    settings, result = context.settings, played.result
    games, unfinished = result.games, result.unfinished_games
    plies = len(result.examples.plies)
    play = settings.selfplay
    has_service = isinstance(play.mode, ServiceMode)
    is_alone = settings.league is None and not has_service
    may_copy_plies = play.start.name != "initial"
    budget_varies = (
        play.budget.name != "fixed"
        or play.random_opening_plies > 0
        or may_copy_plies
        or not is_alone
    )
    counts_plies = has_service or may_copy_plies or unfinished is not None
    return {
        "iteration": context.iteration,
        "wall_seconds": seconds,
        "games": len(games),
        "distinct_games": len({game.actions for game in games}),
        "positions": plies,
        "plies_per_game": plies / len(games) if games else None,
        "plies": result.searched_move_count if counts_plies else None,
        "unfinished": None if unfinished is None else len(unfinished.games),
        "full": int(result.examples.full.sum()) if budget_varies else None,
        "simulations_per_move": (
            result.search_counts["simulations"] / result.searched_move_count
            if budget_varies and result.searched_move_count
            else None
        ),
        "full_simulations": played.full_simulations if play.progressive else None,
        "resignations": (
            resignation_counts(result.examples, games, play.resignation.threshold)
            if play.resignation
            else None
        ),
        "warm_start_weight": played.warm_start_weight if settings.warm_start.is_active else None,
        "generation": played.generation,
        **result.search_counts,
        **{f"wall_{part}_seconds": duration for part, duration in result.seconds_by_part.items()},
    }


def _progress_callback(context: TrainingContext, start: float) -> PlayProgressCallback:
    """Return a callback that reports games or plies, positions per second and the latest game.

    `start` is the time at which the games began.
    """
    counts_plies = isinstance(context.settings.selfplay.mode, ContinuousMode)

    def report(progress: PlayProgress) -> None:
        rate = progress.ply_count / max(perf_counter() - start, 1e-9)
        done = progress.ply_count if counts_plies else progress.game_count
        if progress.latest_game is not None:
            context.reporter.show_game(progress.latest_game)
        notes = f"{rate:,.0f} positions/s", progress.note
        context.reporter.progress(done, "; ".join(filter(None, notes)))

    return report


def _save_games(context: TrainingContext, result: SelfPlayResult) -> None:
    context.save_examples(_with_needed_facts(context, result.examples))
    if (unfinished := result.unfinished_games) is not None:
        examples = _with_needed_facts(context, unfinished.examples)
        context.run.save_unfinished_games(
            context.progress.iteration, unfinished._replace(examples=examples)
        )
    context.save_games(SelfPlayStage.name, result.games)
    context.update_progress(positions=context.window.added_count)


def _with_needed_facts(context: TrainingContext, examples: Examples) -> Examples:
    """Return the examples without surprises, unless learning uses them."""
    if context.settings.learn.surprise_weight:
        return examples
    return replace(examples, surprises=np.full_like(examples.surprises, np.nan))
