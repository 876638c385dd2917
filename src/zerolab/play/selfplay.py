"""Self-play: many games in lockstep, each move searched, every position an example."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core import streams
from zerolab.core.threads import available_cores
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game
from zerolab.search.interface import Evaluator
from zerolab.search.search import Search, choose_actions
from zerolab.search.settings import SearchSettings

_POLL_SECONDS = 0.2


class Plies(NamedTuple):
    """One entry for every move of every game, ordered by game number and ply."""

    states: NDArray[np.uint64]  # [N, words] before the move
    policies: NDArray[np.float16]  # [N, actions] the policy target
    values: NDArray[np.int8]  # [N] the final outcome for the mover
    games: NDArray[np.int32]  # [N] game number
    plies: NDArray[np.int16]  # [N] ply, counted from 0
    actions: NDArray[np.int16]  # [N] the move


class Episodes(NamedTuple):
    """The games of one iteration and how they were searched."""

    plies: Plies
    counts: dict[str, int]
    seconds: dict[str, float]


class Progress(NamedTuple):
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
    report: Callable[[Progress], None] = lambda _: None,
) -> Episodes:
    """Play the episodes of an iteration; the result depends on (seed, iteration) alone.

    Games are dealt to `settings.threads` groups by their numbers. `report` is called a few times
    a second. An exception, such as KeyboardInterrupt in `report`, stops all groups.
    """
    count = min(settings.threads, settings.episodes)
    stop = threading.Event()
    task = _Task(game, settings, search, evaluator, seed, iteration)
    groups = [_Group(task, range(g, settings.episodes, count)) for g in range(count)]
    with ThreadPoolExecutor(count, thread_name_prefix="self-play") as pool:
        try:
            running = {pool.submit(group.play, stop) for group in groups}
            while running:
                done, running = wait(running, timeout=_POLL_SECONDS)
                for future in done:
                    future.result()
                report(Progress(sum(g.finished for g in groups), sum(g.played for g in groups)))
        finally:
            stop.set()
    return _merge(groups)


class _Searched(NamedTuple):
    """What came out of the searches of some moves."""

    visits: NDArray[np.int32]  # [n, actions]
    values: NDArray[np.float32]  # [n, actions] 0 where not visited
    sample: NDArray[np.bool_]  # [n] whether the move is drawn in proportion to the visits
    actions: NDArray[np.int64]  # [n] the move


def _visit_targets(searched: _Searched) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = searched.visits / searched.visits.sum(axis=1, keepdims=True)
    return shares


def _value_targets(searched: _Searched) -> NDArray[np.float64]:
    """Return (Q + 1) / 2 normalised, or the visits where every visited action loses."""
    hopes = np.where(searched.visits > 0, (searched.values.astype(np.float64) + 1) / 2, 0)
    total = hopes.sum(axis=1, keepdims=True)
    hopeless = total <= 0
    return np.where(hopeless, _visit_targets(searched), hopes / np.where(hopeless, 1, total))


def _move_targets(searched: _Searched) -> NDArray[np.float64]:
    targets = np.zeros(searched.visits.shape)
    targets[np.arange(len(targets)), searched.actions] = 1
    return targets


_TARGETS = {"visits": _visit_targets, "values": _value_targets, "move": _move_targets}


class _Task(NamedTuple):
    """What all groups of an iteration have in common."""

    game: Game
    settings: SelfPlaySettings
    search: SearchSettings
    evaluator: Evaluator
    seed: int
    iteration: int


class _Group:
    """Games that one thread plays: slots hold games, a finished game makes room for the next."""

    def __init__(self, task: _Task, numbers: range) -> None:
        self.task = task
        self.finished = 0
        self.played = 0
        self.chunks: list[tuple[NDArray[Any], ...]] = []
        self.results: dict[int, int] = {}
        self._waiting = list(reversed(numbers))
        settings = task.settings
        slots = min(len(numbers), max(1, settings.parallel_games // settings.threads))
        cores = max(1, available_cores() // settings.threads)
        self.search = Search(task.game, task.search, task.evaluator, slots, cores)
        self._number = np.zeros(slots, np.int64)
        self._ply = np.zeros(slots, np.int64)

    def play(self, stop: threading.Event) -> None:
        """Play all games; a set `stop` ends early with games unfinished."""
        start = host.start(self.task.game)
        self._open(np.arange(len(self._number)), start)
        while self.search.active and not stop.is_set():
            slots = self.search.step()
            if slots.size:
                self._move(slots, start)

    def _open(self, slots: NDArray[np.int64], start: NDArray[np.uint64]) -> None:
        """Start the next games in free slots; slots beyond the games that wait stay idle."""
        slots = slots[: len(self._waiting)]
        if slots.size:
            self._number[slots] = [self._waiting.pop() for _ in slots]
            self._ply[slots] = 0
            self.search.set_root(slots, np.repeat(start[None], len(slots), axis=0))
            self._begin(slots)

    def _keys(self, slots: NDArray[np.int64], purpose: int) -> NDArray[np.uint64]:
        numbers, plies = self._number[slots], self._ply[slots]
        return streams.streams(self.task.seed, self.task.iteration, numbers, plies, purpose)

    def _begin(self, slots: NDArray[np.int64]) -> None:
        playouts, noise = self._keys(slots, streams.PLAYOUT), self._keys(slots, streams.ROOT_NOISE)
        self.search.start_search(slots, playouts, noise)

    def _move(self, slots: NDArray[np.int64], start: NDArray[np.uint64]) -> None:
        """Choose, record and play a move in slots whose search is finished."""
        visits, values = self.search.root_actions(slots)
        sample = self._ply[slots] + 1 < self.task.settings.temperature_threshold
        actions = choose_actions(visits, self._keys(slots, streams.SELF_PLAY_MOVE), sample)
        self._record(slots, _Searched(visits, values, sample, actions))
        self.search.advance(slots, actions)
        self._ply[slots] += 1
        outcomes = self.search.outcomes(slots)
        over = outcomes != ONGOING
        for slot, outcome in zip(slots[over], outcomes[over], strict=True):
            sign = 1 if self._ply[slot] % 2 == 0 else -1
            self.results[int(self._number[slot])] = sign * int(outcome)
        self.finished += int(over.sum())
        if not over.all():
            self._begin(slots[~over])
        self._open(slots[over], start)

    def _record(self, slots: NDArray[np.int64], searched: _Searched) -> None:
        settings = self.task.settings
        early = _TARGETS[settings.early_targets](searched)
        late = _TARGETS[settings.late_targets](searched)
        policies = np.where(searched.sample[:, None], early, late)
        self.played += len(slots)
        self.chunks.append(
            (
                self.search.states(slots),
                policies.astype(np.float16),
                self._number[slots].astype(np.int32),
                self._ply[slots].astype(np.int16),
                searched.actions.astype(np.int16),
            )
        )


def _merge(groups: list[_Group]) -> Episodes:
    """Order the moves of all groups by game and ply, and give them their games' results."""
    columns = zip(*(chunk for group in groups for chunk in group.chunks), strict=True)
    states, policies, games, plies, actions = (np.concatenate(column) for column in columns)
    order = np.lexsort((plies, games))
    results = {number: result for group in groups for number, result in group.results.items()}
    first_player = np.array([results[number] for number in range(len(results))], np.int8)
    values = np.where(plies % 2 == 0, 1, -1).astype(np.int8) * first_player[games]
    arrays = (states, policies, values, games, plies, actions)
    counts = _total([group.search.counts for group in groups])
    seconds = _total([group.search.seconds for group in groups])
    return Episodes(Plies(*(array[order] for array in arrays)), counts, seconds)


def _total(tables: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: sum(table[key] for table in tables) for key in tables[0]}
