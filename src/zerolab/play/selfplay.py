"""Self-play: an agent plays both sides of its games, and every position becomes an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Actions, Agent, Slots
from zerolab.agents.search_player import SearchPlayer
from zerolab.core import streams
from zerolab.core.threads import available_cores
from zerolab.play.engine import play_schedule
from zerolab.play.observers import Moves, Recorder
from zerolab.play.schedule import ScheduledGame
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.play.worker import Setup
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.search.settings import SearchSettings
from zerolab.store.games import GameRecord

_PURPOSES = (streams.SELF_PLAY_MOVE, streams.PLAYOUT, streams.ROOT_NOISE)


class Plies(NamedTuple):
    """One entry for every move of every game, ordered by game number and ply."""

    states: NDArray[np.uint64]
    """uint64[N, words]: before the move."""
    policies: NDArray[np.float16]
    """float16[N, actions]: the policy target."""
    values: NDArray[np.int8]
    """int8[N]: the final outcome for the mover."""
    games: NDArray[np.int32]
    """int32[N]: the game's number."""
    plies: NDArray[np.int16]
    """int16[N]: counted from 0."""
    actions: NDArray[np.int16]
    """int16[N]: the move."""


class Episodes(NamedTuple):
    """Games of self-play, and how they were searched."""

    plies: Plies
    games: list[GameRecord]
    """By number."""
    counts: dict[str, int]
    """See `Search.counts`."""
    seconds: dict[str, float]
    """Thread time by part of the search."""


class SelfPlayProgress(NamedTuple):
    """How far self-play has come."""

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
) -> Episodes:
    """Play the episodes of an iteration, or those of some `numbers` among them.

    A game depends on (seed, iteration, its number) alone, so an iteration can be played in parts;
    `merge_episodes` puts them together. Games are dealt to `settings.threads` threads by their
    numbers. `name` is that of the agent in the games' records. `report` is called a few times per
    second. An exception, such as KeyboardInterrupt in `report`, stops all threads.
    """
    numbers = range(settings.episodes) if numbers is None else numbers
    threads = min(settings.threads, len(numbers))
    players: list[_SelfPlayer] = []

    def new_player() -> _SelfPlayer:
        cores = max(1, available_cores() // settings.threads)
        players.append(_SelfPlayer(game, settings, search, evaluator, cores))
        return players[-1]

    batches = [
        [ScheduledGame(number, name, name, number) for number in numbers[thread::threads]]
        for thread in range(threads)
    ]
    agent = Agent(name, new_player, game=game, evaluator=lambda: evaluator)
    setup = Setup(
        game, [agent], seed, iteration, max(1, threads),
        max(1, settings.parallel_games // settings.threads), _PURPOSES,
    )  # fmt: skip
    examples, recorder = _Examples(), Recorder()
    play_schedule(
        setup, batches, moves=[examples], games=[recorder],
        progress=lambda done, note: report(SelfPlayProgress(done, examples.count)),
    )  # fmt: skip
    counts = _total(player.search.counts for player in players)
    seconds = _total(player.search.seconds for player in players)
    return Episodes(examples.plies(recorder.games), recorder.games, counts, seconds)


def merge_episodes(parts: Sequence[Episodes]) -> Episodes:
    """Return the episodes of parts of an iteration as if they had been played at once."""
    columns = zip(*(part.plies for part in parts), strict=True)
    plies = _in_order([np.concatenate(column) for column in columns])
    games = sorted(game for part in parts for game in part.games)
    counts = _total(part.counts for part in parts)
    return Episodes(plies, games, counts, _total(part.seconds for part in parts))


class _Searched(NamedTuple):
    """The results of the searches of some moves."""

    visits: NDArray[np.int32]
    """int32[n, actions]"""
    values: NDArray[np.float32]
    """float32[n, actions]: 0 where not visited."""
    sampled: NDArray[np.bool_]
    """bool[n]: whether the move is drawn in proportion to the visits."""
    actions: Actions
    """int64[n]: the move."""


def _visit_targets(searched: _Searched) -> NDArray[np.float64]:
    targets: NDArray[np.float64] = searched.visits / searched.visits.sum(axis=1, keepdims=True)
    return targets


def _value_targets(searched: _Searched) -> NDArray[np.float64]:
    """Return (Q + 1) / 2 normalised, or the visits where every visited action loses."""
    weights = np.where(searched.visits > 0, (searched.values.astype(np.float64) + 1) / 2, 0)
    total = weights.sum(axis=1, keepdims=True)
    all_lost = total <= 0
    return np.where(all_lost, _visit_targets(searched), weights / np.where(all_lost, 1, total))


def _move_targets(searched: _Searched) -> NDArray[np.float64]:
    targets = np.zeros(searched.visits.shape)
    targets[np.arange(len(targets)), searched.actions] = 1
    return targets


_TARGETS = {"visits": _visit_targets, "values": _value_targets, "move": _move_targets}


class _SelfPlayer(SearchPlayer):
    """Searches both sides of its games in one tree each, with root noise.

    Its keys are uint64[n, 3]: a stream for the move, one for playouts, one for root noise.
    """

    def __init__(
        self,
        game: Game,
        settings: SelfPlaySettings,
        search: SearchSettings,
        evaluator: Evaluator,
        threads: int,
    ) -> None:
        self._targets = _TARGETS[settings.early_targets], _TARGETS[settings.late_targets]
        super().__init__(
            game, "self-play", search, evaluator, settings.sampled_plies,
            noise=True, threads=threads,
        )  # fmt: skip

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """See `AsyncPlayer.submit`."""
        self._keys[slots] = keys[:, 0]
        self.search.start_search(slots, keys[:, 1], keys[:, 2])

    def decide(self, slots: Slots) -> Actions:
        """Choose as every search does, and make the policy targets of the moves."""
        if not slots.size:
            return slots
        visits, values = self.search.root_actions(slots)
        sampled = self.sampled(slots)
        actions = self.search.choose(slots, self._keys[slots], sampled)
        searched = _Searched(visits, values, sampled, actions)
        early, late = (targets(searched) for targets in self._targets)
        self.policies = np.where(sampled[:, None], early, late).astype(np.float16)
        """float16[n, actions]: the targets of the moves decided last."""
        return actions


class _Examples:
    """Keeps an example for every move; a `MoveObserver`."""

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[tuple[NDArray[Any], ...]] = []

    def decided(self, moves: Moves) -> None:
        """See `MoveObserver.decided`."""
        assert isinstance(moves.player, _SelfPlayer)
        self.count += len(moves.actions)
        self._chunks.append(
            (
                moves.states,
                moves.player.policies,
                moves.numbers.astype(np.int32),
                moves.plies.astype(np.int16),
                moves.actions.astype(np.int16),
            )
        )

    def plies(self, games: Sequence[GameRecord]) -> Plies:
        """Return the examples of finished games with their outcomes."""
        columns = zip(*self._chunks, strict=True)
        states, policies, numbers, plies, actions = (np.concatenate(each) for each in columns)
        known = np.array([game.number for game in games])
        results = np.array([game.result for game in games], np.int8)
        outcomes = results[np.searchsorted(known, numbers)]
        values = np.where(plies % 2 == 0, 1, -1).astype(np.int8) * outcomes
        return _in_order([states, policies, values, numbers, plies, actions])


def _in_order(columns: Sequence[NDArray[Any]]) -> Plies:
    """Return the columns of `Plies` ordered by game and ply."""
    found = Plies(*columns)
    order = np.lexsort((found.plies, found.games))
    return Plies(*(column[order] for column in columns))


def _total(tables: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            total[key] = total.get(key, 0) + value
    return total
