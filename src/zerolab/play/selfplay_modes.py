"""Self-play in continuous mode, and in the modes of a search service.

In continuous mode, lane l of L plays the games l, l + L, l + 2 L and so on, one after the other,
and the same number of plies in every iteration. So the number of a game is unique in its run and
keys its random streams in all its iterations, and no lane waits for a long game of another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from zerolab.core.config import Variant
from zerolab.play.big_tree import BigTreePlayer
from zerolab.play.lockstep import Lockstep, LockstepGame, play_retries
from zerolab.play.pairings import Pairing
from zerolab.play.search_service import EvaluatorSpec, SearchService, ServiceSearches
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
from zerolab.search.evaluator import Evaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Unfinished
from zerolab.store.games import GameRecord

if TYPE_CHECKING:
    from zerolab.play.ray_service import RayService


_ALL_ITERATIONS = 0
"""Key of random streams in place of the iteration; other modes have iterations from 1."""


def play_continuous(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    former: Unfinished | None,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
) -> SelfPlayResult:
    """Play an iteration in continuous mode; `former` has the unfinished games of the one before.

    Returns the games that have ended, with all their examples, and the unfinished ones. A game
    depends on the seed, its number, and the networks and searches of its iterations; see
    `play_episodes` for the rest.
    """
    assert isinstance(settings.mode, ContinuousMode)
    lanes = settings.parallel_games
    begun = former.games if former else [_unplayed(lane, name) for lane in range(lanes)]
    threads = min(settings.threads, lanes)
    waiting = [_continued(each, name, settings.mode.plies, lanes) for each in begun]
    played = play_batches(
        game, settings, search, evaluator, seed, _ALL_ITERATIONS,
        [waiting[thread::threads] for thread in range(threads)], -(-lanes // threads), name, report,
    )  # fmt: skip
    known = {each.number: each for each in begun}
    games = [_with_movers(each, known.get(each.number)) for each in played.games]
    moves = in_game_order([former.moves, played.examples]) if former else played.examples
    finished = [each for each in games if each.result != ONGOING]
    over = np.isin(moves.games, [each.number for each in finished])
    examples = with_outcomes(moves.rows(over), finished)
    unfinished = Unfinished(_in_progress(games, lanes, name), moves.rows(~over))
    return played._replace(examples=examples, games=finished, unfinished=unfinished)


def _unplayed(number: int, name: str) -> GameRecord:
    return GameRecord(number, name, name, (), 0)


def _continued(game: GameRecord, name: str, plies: int, lanes: int) -> Pairing:
    """Return the continuation of a game, whose former moves are its opening."""
    return Pairing(game.number, name, name, game.number, game.actions, plies, lanes)


def _with_movers(game: GameRecord, begun: GameRecord | None) -> GameRecord:
    """Return a game with the agents that made its moves: those of `begun`, then its own."""
    if begun is None or not begun.actions:
        return game
    if begun.last_mover == game.first:
        return game._replace(movers=begun.movers)
    former = begun.movers or ((0, begun.first),)
    return game._replace(movers=(*former, (len(begun.actions), game.first)))


def _in_progress(games: Sequence[GameRecord], lanes: int, name: str) -> tuple[GameRecord, ...]:
    """Return the game in progress in every lane, ordered by number, after some have been played."""
    latest = {game.number % lanes: game for game in sorted(games)}
    return tuple(
        sorted(
            game._replace(result=0)
            if game.result == ONGOING
            else _unplayed(game.number + lanes, name)
            for game in latest.values()
        )
    )


def play_by_service(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    name: str = "self-play",
    spec: Callable[[], EvaluatorSpec] | None = None,
) -> SelfPlayResult:
    """Play the games of an iteration in a mode with a search service; see `play_episodes`.

    The games depend on the seed, the iteration, the network and the settings, neither on threads
    nor on the number of positions searched at once, if the network's outputs do not depend on the
    batch. Where the mode has actors, they make the evaluator from `spec`.
    """
    mode = settings.mode
    assert isinstance(mode, ServiceMode)
    searches = ServiceSearches(
        search, seed, iteration, settings.budget, settings.parallel_games, settings.threads,
        mode.cache,
    )  # fmt: skip
    with _new_service(game, evaluator, searches, mode.actors, spec) as service:
        lockstep = Lockstep(game, settings, service, seed, iteration, name, report)
        if isinstance(mode, RetryMode):
            played = play_retries(lockstep, mode, settings.episodes)
        elif isinstance(mode, BigTreeMode):
            player = BigTreePlayer(game, mode, service, name, report)
            played = player.play(settings.episodes)
        else:
            played = lockstep.play([LockstepGame(number) for number in range(settings.episodes)])
        decides_all = isinstance(
            mode, BigTreeMode
        )  # the others also take moves over or play at random
        moves = len(played.examples.plies) if decides_all else service.counts["asked"]
        return SelfPlayResult(
            with_outcomes(played.examples, played.games),
            played.games,
            service.counts,
            service.seconds,
            moves,
        )


def require_actors(mode: Variant) -> None:
    """Raise UserError where a mode needs actors and their extra is not installed."""
    if isinstance(mode, ServiceMode) and mode.actors:
        import_module("zerolab.core.ray_cluster")


def _new_service(
    game: Game,
    evaluator: Evaluator,
    searches: ServiceSearches,
    actors: int,
    spec: Callable[[], EvaluatorSpec] | None,
) -> SearchService | RayService:
    if not actors:
        return SearchService(game, evaluator, searches)
    from zerolab.play.ray_service import RayService  # noqa: PLC0415  needs an extra

    assert spec is not None
    return RayService(game_name(game), spec(), searches, actors)
