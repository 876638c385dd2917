"""Self-play in continuous mode and in modes with a search service.

In continuous mode, lane l of L plays games l, l + L, l + 2 L and so on, with the same number of
plies in every iteration. Game numbers are therefore unique in a run, a game keeps its random
streams across iterations, and no lane has to wait for a long game in another lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from zerolab.core.config import VariantSettings
from zerolab.play.big_tree import BigTreeSelfPlay
from zerolab.play.engine import useful_threads
from zerolab.play.lockstep import LockstepGame, LockstepSelfPlay, play_retries
from zerolab.play.pairings import Pairing
from zerolab.play.search_service import EvaluatorFactory, ServiceSettings, ThreadedSearchService
from zerolab.play.selfplay import (
    SelfPlayProgress,
    SelfPlayResult,
    in_game_order,
    play_batches,
    with_outcomes,
)
from zerolab.play.selfplay_settings import (
    BigTreeMode,
    ContinuousMode,
    RetryMode,
    SelfPlaySettings,
    ServiceMode,
)
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import ONGOING, Game
from zerolab.search.evaluator import Evaluator, has_network
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import UnfinishedGames
from zerolab.store.games import GameRecord

if TYPE_CHECKING:
    from zerolab.play.ray_service import RaySearchService


_ALL_ITERATIONS = 0
"""Stream key used in place of the iteration; in other modes, iterations start at 1."""


def play_continuous(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    previous: UnfinishedGames | None,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
) -> SelfPlayResult:
    """Play an iteration in continuous mode.

    `previous` contains the unfinished games of the previous iteration. Returns the finished games
    with all their examples, and the unfinished games. A game depends on the seed, the game number,
    and the networks and search settings of the iterations in which it is played. See
    `play_episodes` for the other arguments.
    """
    assert isinstance(settings.mode, ContinuousMode)
    lanes, plies = settings.parallel_games, settings.mode.plies
    in_progress = previous.games if previous else [_unplayed(lane, name) for lane in range(lanes)]
    threads = useful_threads(settings.threads, lanes, has_network(evaluator))
    pairings = [
        Pairing(each.number, name, name, each.number, each.actions, plies, lanes)
        for each in in_progress
    ]
    played = play_batches(
        game, settings, search, evaluator, seed, _ALL_ITERATIONS,
        [pairings[thread::threads] for thread in range(threads)], -(-lanes // threads), name,
        report,
    )  # fmt: skip
    in_progress_by_number = {each.number: each for each in in_progress}
    games = [
        _with_agent_spans(each, in_progress_by_number.get(each.number)) for each in played.games
    ]
    moves = in_game_order([previous.moves, played.examples]) if previous else played.examples
    finished = [each for each in games if each.result != ONGOING]
    is_finished = np.isin(moves.games, [each.number for each in finished])
    examples = with_outcomes(moves.rows(is_finished), finished)
    unfinished = UnfinishedGames(_in_progress(games, lanes, name), moves.rows(~is_finished))
    return played._replace(examples=examples, games=finished, unfinished_games=unfinished)


def _unplayed(number: int, name: str) -> GameRecord:
    return GameRecord(number, name, name, (), 0)


def _with_agent_spans(game: GameRecord, previous: GameRecord | None) -> GameRecord:
    """Return a game with the agents of all its moves, including the moves of `previous`."""
    if previous is None or not previous.actions:
        return game
    if previous.last_mover == game.first:
        return game._replace(agent_spans=previous.agent_spans)
    spans = previous.agent_spans or ((0, previous.first),)
    return game._replace(agent_spans=(*spans, (len(previous.actions), game.first)))


def _in_progress(games: Sequence[GameRecord], lanes: int, name: str) -> tuple[GameRecord, ...]:
    """Return the game in progress in every lane after the given games, ordered by number."""
    latest = {game.number % lanes: game for game in sorted(games)}
    return tuple(
        sorted(
            game._replace(result=0, given_plies=0)  # counted once the game is finished
            if game.result == ONGOING
            else _unplayed(game.number + lanes, name)
            for game in latest.values()
        )
    )


def play_with_service(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
    evaluator_factory: Callable[[], EvaluatorFactory] | None = None,
) -> SelfPlayResult:
    """Play the games of an iteration in a mode with a search service; see `play_episodes`.

    Games depend only on the seed, the iteration, the network and the settings, not on threads or
    the number of positions searched in parallel, provided that network outputs do not depend on the
    batch. In a mode with actors, `evaluator_factory` returns the function with which each actor
    creates its evaluator.
    """
    mode = settings.mode
    assert isinstance(mode, ServiceMode)
    service_settings = ServiceSettings(
        search, seed, iteration, settings.budget, settings.parallel_games, settings.threads,
        mode.cache,
    )  # fmt: skip
    with _new_service(game, evaluator, service_settings, mode.actors, evaluator_factory) as service:
        lockstep = LockstepSelfPlay(game, settings, service, seed, iteration, name, report)
        if isinstance(mode, RetryMode):
            played = play_retries(lockstep, mode, settings.episodes)
        elif isinstance(mode, BigTreeMode):
            big_tree = BigTreeSelfPlay(game, mode, service, name, report)
            played = big_tree.play(settings.episodes)
        else:
            played = lockstep.play([LockstepGame(number) for number in range(settings.episodes)])
        # In other modes, some moves are copied or random.
        all_searched = isinstance(mode, BigTreeMode)
        searched_move_count = (
            len(played.examples.plies) if all_searched else service.search_counts["asked"]
        )
        return SelfPlayResult(
            with_outcomes(played.examples, played.games),
            played.games,
            service.search_counts,
            service.seconds_by_part,
            searched_move_count,
        )


def require_ray_if_needed(mode: VariantSettings) -> None:
    """Raise UserError if a mode needs Ray actors and Ray is not installed."""
    if isinstance(mode, ServiceMode) and mode.actors:
        import_module("zerolab.core.ray_cluster")


def _new_service(
    game: Game,
    evaluator: Evaluator,
    service_settings: ServiceSettings,
    actors: int,
    evaluator_factory: Callable[[], EvaluatorFactory] | None,
) -> ThreadedSearchService | RaySearchService:
    if not actors:
        return ThreadedSearchService(game, evaluator, service_settings)
    from zerolab.play.ray_service import RaySearchService  # noqa: PLC0415  needs an extra

    assert evaluator_factory is not None
    return RaySearchService(game_name(game), evaluator_factory(), service_settings, actors)
