"""Which moves players choose in given positions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Agent, Player
from zerolab.agents.search_player import SearchPlayer
from zerolab.core import streams
from zerolab.core.threads import available_cores
from zerolab.evaluation.positions import Positions
from zerolab.play.workers import lanes_for
from zerolab.search.interface import Evaluator

_NETWORK_BATCH = 1024
_LEAST_BATCH = 64
_BATCHES_PER_THREAD = 8  # after each, progress is reported and the work can be stopped
_POLL_SECONDS = 0.2


class MoveChoices(NamedTuple):
    """The moves of a player in n positions."""

    actions: NDArray[np.int64]
    """[n] legal actions, or FORFEIT."""
    values: NDArray[np.float32] | None
    """[n] what the player expects for the mover, from -1 to 1; None where it does not say."""


def network_choices(evaluator: Evaluator, positions: Positions) -> MoveChoices:
    """Return the legal moves of the highest prior, and the network's values."""
    actions = np.empty(len(positions), np.int64)
    values = np.empty(len(positions), np.float32)
    legal = positions.legal
    for begin in range(0, len(positions), _NETWORK_BATCH):
        rows = slice(begin, begin + _NETWORK_BATCH)
        priors, values[rows] = evaluator.evaluate(positions.states[rows])
        actions[rows] = np.where(legal[rows], priors, -1.0).argmax(axis=1)
    return MoveChoices(actions, values)


def player_choices(
    agent: Agent,
    positions: Positions,
    seed: int,
    report: Callable[[int], None] = lambda _: None,
) -> MoveChoices:
    """Return what a player chooses in each position, after it was told the moves that led there.

    The random streams depend on (seed, number of the position, ply) alone. All cores take part.
    The value that a search expects is that of its root. `report` gets the number of positions done
    a few times per second.
    """
    work = _Work(agent, positions, seed)
    with ThreadPoolExecutor(work.threads, thread_name_prefix="evaluation") as pool:
        try:
            running = {pool.submit(work.run, thread) for thread in range(work.threads)}
            while running:
                ended, running = wait(running, timeout=_POLL_SECONDS)
                for thread in ended:
                    thread.result()
                report(sum(work.done))
        finally:
            work.stop.set()
    silent = np.isnan(work.values).all()
    return MoveChoices(work.actions, None if silent else work.values)


class _Work:
    """The positions, divided among threads in batches that do not depend on the threads' pace."""

    def __init__(self, agent: Agent, positions: Positions, seed: int) -> None:
        self.threads = available_cores()
        self.done = [0] * self.threads
        self.stop = threading.Event()
        self.actions = np.empty(len(positions), np.int64)
        self.values = np.full(len(positions), np.nan, np.float32)
        self._agent = agent
        self._positions = positions
        self._seed = seed
        portion = -(-len(positions) // (self.threads * _BATCHES_PER_THREAD))
        most = min(lanes_for([agent], self.threads), agent.max_games)
        self._batch = min(most, max(_LEAST_BATCH, portion))

    def run(self, thread: int) -> None:
        """Choose a move in every position of this thread."""
        count = len(self._positions)
        begins = range(thread * self._batch, count, self.threads * self._batch)
        if not begins:
            return
        player = self._agent.new_player()
        player.start(self._batch)
        for begin in begins:
            if self.stop.is_set():
                return
            rows = np.arange(begin, min(begin + self._batch, count))
            self._decide(player, rows)
            self.done[thread] += len(rows)

    def _decide(self, player: Player, rows: NDArray[np.int64]) -> None:
        slots = np.arange(len(rows))
        player.reset(slots)
        _advance(player, [self._positions.line(row) for row in rows])
        keys = streams.streams(self._seed, 0, rows, self._positions.plies[rows], streams.EVALUATION)
        self.actions[rows] = player.choose(slots, self._positions.states[rows], keys)
        if isinstance(player, SearchPlayer):
            self.values[rows] = player.search.root_values(slots)


def _advance(player: Player, lines: list[tuple[int, ...]]) -> None:
    """Tell a player the moves of its games, game i in slot i."""
    for ply in range(max(map(len, lines))):
        longer = [slot for slot, line in enumerate(lines) if len(line) > ply]
        player.advance(np.array(longer), np.array([lines[slot][ply] for slot in longer]))
