"""Self-play games, in which one agent plays both sides and every move becomes an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Agent, Slots
from zerolab.agents.network_players import SearchPlayer
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.processes import available_cores
from zerolab.play.engine import EngineSetup, play_pairings
from zerolab.play.observers import Moves, Recorder
from zerolab.play.pairings import Pairing
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import rules
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Examples, Unfinished
from zerolab.store.games import GameRecord

_PURPOSES = (
    streams.SELF_PLAY_MOVE,
    streams.PLAYOUT,
    streams.ROOT_NOISE,
    streams.SELF_PLAY_BUDGET,
)
_GAME_PURPOSES = (streams.SELF_PLAY_START,)


class SelfPlayResult(NamedTuple):
    """Self-play games, their examples, and search counts."""

    examples: Examples
    """One example for every move of every game."""
    games: list[GameRecord]
    """Games ordered by number."""
    counts: dict[str, int]
    """Search counts, as in `Search.counts`."""
    seconds: dict[str, float]
    """Thread time in seconds, by part of the search."""
    moves: int
    """Number of moves decided by searches. In episodic and continuous mode this includes random
    plies, which use one simulation each. Moves of a game that continues over several iterations
    count in the iteration that played them. Moves copied from another game count only in the
    original game."""
    unfinished: Unfinished | None = None
    """Games to continue in the next iteration, in continuous mode."""


class SelfPlayProgress(NamedTuple):
    """Numbers of finished games and played plies so far."""

    games: int
    plies: int


def play_episodes(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    report: Callable[[SelfPlayProgress], None] = lambda _: None,
    *,
    numbers: range | None = None,
    name: str = "self-play",
) -> SelfPlayResult:
    """Play the games of an iteration in episodic mode, or only those with the given `numbers`.

    Games depend only on (seed, iteration, number), so an iteration can be played in parts, which
    `merge_results` joins. Games are distributed to `settings.threads` threads by number. `name` is
    the agent name in the records. `report` is called a few times per second. An exception, such as
    KeyboardInterrupt in `report`, stops all threads.
    """
    numbers = range(settings.episodes) if numbers is None else numbers
    threads = min(settings.threads, len(numbers))
    batches = [
        [Pairing(number, name, name, number) for number in numbers[thread::threads]]
        for thread in range(threads)
    ]
    slots = max(1, settings.parallel_games // settings.threads)
    played = play_batches(
        game, settings, search, evaluator, seed, iteration, batches, slots, name, report
    )
    return played._replace(examples=with_outcomes(played.examples, played.games))


def play_batches(
    game: Game,
    settings: SelfPlaySettings,
    search: SearchSettings,
    evaluator: Evaluator,
    seed: int,
    iteration: int,
    batches: Sequence[Sequence[Pairing]],
    slots: int,
    name: str,
    report: Callable[[SelfPlayProgress], None],
    new_player: Callable[[], SelfPlayer] | None = None,
) -> SelfPlayResult:
    """Play batches of games, each in a thread with `slots` game slots; see `play_episodes`.

    Games can remain unfinished, so example columns that depend on the end of the game are still 0.
    `new_player` creates players other than the default `SelfPlayer`.
    """
    players: list[SelfPlayer] = []

    def next_player() -> SelfPlayer:
        cores = max(1, available_cores() // settings.threads)
        player = (
            new_player() if new_player else SelfPlayer(game, settings, search, evaluator, cores)
        )
        players.append(player)
        return player

    agent = Agent(name, next_player, game=game, evaluator=lambda: evaluator)
    setup = EngineSetup(
        game, [agent], seed, iteration, max(1, len(batches)), slots, _PURPOSES, _GAME_PURPOSES
    )
    moves, recorder = _ExampleRecorder(), Recorder()
    play_pairings(
        setup, batches, moves=[moves], games=[recorder],
        progress=lambda done, note: report(SelfPlayProgress(done, moves.count)),
    )  # fmt: skip
    counts = sum_by_key(player.search.counts for player in players)
    seconds = sum_by_key(player.search.seconds for player in players)
    return SelfPlayResult(moves.examples(), recorder.games, counts, seconds, moves.count)


def merge_results(parts: Sequence[SelfPlayResult]) -> SelfPlayResult:
    """Combine the results of parts of an iteration, as if played together."""
    examples = in_game_order([part.examples for part in parts])
    games = sorted(game for part in parts for game in part.games)
    counts = sum_by_key(part.counts for part in parts)
    seconds = sum_by_key(part.seconds for part in parts)
    return SelfPlayResult(examples, games, counts, seconds, sum(part.moves for part in parts))


class SelfPlayer(SearchPlayer):
    """Search player for both sides of self-play games, with one tree per game and root noise.

    Its keys, uint64[n, 5], are random streams for `_PURPOSES` and `_GAME_PURPOSES`.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        search: SearchSettings,
        evaluator: Evaluator,
        threads: int,
    ) -> None:
        self._random_plies = settings.random_opening_plies  # used by `start` in super().__init__
        super().__init__(
            game, "self-play", search, evaluator, settings.temperature_plies,
            noise=True, threads=threads, budget=settings.budget,
        )  # fmt: skip

    def start(self, games: int) -> None:
        super().start(games)
        self._starts = self.opening_plies(games)
        self._full = np.zeros(games, np.bool_)

    def opening_plies(self, games: int) -> RandomOpeningPlies:
        """Return a source of random opening plies for `games` games."""
        return RandomOpeningPlies(self._game, self._random_plies, games)

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        self._keys[slots] = keys[:, 0]
        simulations, full = self.budget.begin(slots, keys[:, 3])
        is_random = self._starts.begin(slots, states, self._plies[slots], keys[:, 4])
        full &= ~is_random
        self._full[slots] = full
        simulations[is_random] = 1
        self.search.start_search(slots, keys[:, 1], keys[:, 2], simulations, full)

    def extra_simulations(self, slots: Slots) -> NDArray[np.int32]:
        more = np.zeros(len(slots), np.int32)
        searched = ~self._starts.is_random(slots)
        more[searched] = super().extra_simulations(slots[searched])
        return more

    def decide(self, slots: Slots) -> Actions:
        """Choose the moves of finished searches and store their `facts`."""
        if not slots.size:
            return slots
        self.facts = self.search.facts(slots).map(lambda each: each.astype(np.float16))
        self.full = self._full[slots]
        chosen = self.search.choose(slots, self._keys[slots], self.sampled(slots))
        return self._starts.replace(slots, chosen)


class _ExampleRecorder:
    """`MoveObserver` that collects an example for every move."""

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[Examples] = []

    def decided(self, moves: Moves) -> None:
        assert isinstance(moves.player, SelfPlayer)
        count = len(moves.actions)
        self.count += count
        self._chunks.append(
            Examples(
                states=moves.states,
                outcomes=np.zeros(count, np.int8),
                plies_left=np.zeros(count, np.int16),
                games=moves.numbers.astype(np.int32),
                plies=moves.plies.astype(np.int16),
                actions=moves.actions.astype(np.int16),
                full=moves.player.full,
                **moves.player.facts.columns(),
            )
        )

    def examples(self) -> Examples:
        """Return the examples, with `outcomes` and `plies_left` still 0."""
        return in_game_order(self._chunks)


def with_outcomes(examples: Examples, games: Sequence[GameRecord]) -> Examples:
    """Fill in `outcomes` and `plies_left` of examples of finished games, ordered by number."""
    numbers = np.array([game.number for game in games])
    rows = np.searchsorted(numbers, examples.games)
    results = np.array([game.result for game in games], np.int8)
    lengths = np.array([len(game.actions) for game in games], np.int16)
    signs = np.where(examples.plies % 2 == 0, 1, -1).astype(np.int8)
    return replace(
        examples, outcomes=signs * results[rows], plies_left=lengths[rows] - examples.plies
    )


def in_game_order(parts: Sequence[Examples]) -> Examples:
    """Concatenate examples and order them by game and ply."""
    examples = Examples.concatenate(parts)
    return examples.rows(np.lexsort((examples.plies, examples.games)))


def sum_by_key(tables: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of all tables for each key."""
    sums: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            sums[key] = sums.get(key, 0) + value
    return sums


NO_ACTION = -1


@kernel
def _draw_random_plies(game, states, max_plies, plies, keys, actions):
    """Draw actions int64[n] for games at a random ply; write NO_ACTION for other games.

    The number of random plies of each game is uniform from 0 to `max_plies`.
    """
    for i in range(keys.shape[0]):
        actions[i] = NO_ACTION
        if plies[i] < streams.below(streams.bits(keys[i], 0), max_plies + 1):
            random = streams.bits(keys[i], 1 + plies[i])
            actions[i] = rules.random_action(game, states[i], random)


class RandomOpeningPlies:
    """Source of random plies at the start of games."""

    def __init__(self, game: Game, max_plies: int, slots: int) -> None:
        """Allocate `slots` game slots; each game has at most `max_plies` random plies."""
        self._game = game
        self._max_plies = max_plies
        self._actions = np.full(slots, NO_ACTION, np.int64)

    def begin(
        self,
        slots: Slots,
        states: NDArray[np.uint64],
        plies: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> NDArray[np.bool_]:
        """Return whether the next move is random, bool[n]; `keys` uint64[n] are random streams."""
        actions = np.empty(len(slots), np.int64)
        _draw_random_plies(self._game, states, self._max_plies, plies, keys, actions)
        self._actions[slots] = actions
        return actions != NO_ACTION

    def replace(self, slots: Slots, actions: Actions) -> Actions:
        """Return the actions, with those of random moves replaced by the drawn actions."""
        drawn = self._actions[slots]
        return np.where(drawn != NO_ACTION, drawn, actions)

    def is_random(self, slots: Slots) -> NDArray[np.bool_]:
        """Return whether the move most recently passed to `begin` is random, bool[n]."""
        return self._actions[slots] != NO_ACTION
