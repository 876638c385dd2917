"""Which moves players choose in given positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import Agent
from zerolab.agents.search_player import SearchPlayer
from zerolab.core import streams
from zerolab.core.threads import available_cores
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import Progress, play_schedule, slots_within_memory
from zerolab.play.observers import Moves
from zerolab.play.schedule import ScheduledGame
from zerolab.play.worker import Setup
from zerolab.search.interface import Evaluator

_NETWORK_BATCH = 1024
_LEAST_SLOTS = 64
_PARTS_PER_THREAD = 8  # positions are decided in parts, so that progress is seen


class MoveChoices(NamedTuple):
    """The moves of a player in n positions."""

    actions: NDArray[np.int64]
    """[n] legal actions, or FORFEIT."""
    values: NDArray[np.float32] | None
    """[n] what the player expects for the mover, from -1 to 1; None where it does not say."""


def network_choices(evaluator: Evaluator, positions: Positions) -> MoveChoices:
    """Return the legal moves of the highest prior, and the network's values."""
    from zerolab.networks.threads import torch_threads  # noqa: PLC0415  it takes seconds to load

    actions = np.empty(len(positions), np.int64)
    values = np.empty(len(positions), np.float32)
    legal = positions.legal
    with torch_threads(1):  # as in games: on several cores last bits may differ
        for begin in range(0, len(positions), _NETWORK_BATCH):
            rows = slice(begin, begin + _NETWORK_BATCH)
            priors, values[rows] = evaluator.evaluate(positions.states[rows])
            actions[rows] = np.where(legal[rows], priors, -1.0).argmax(axis=1)
    return MoveChoices(actions, values)


def player_choices(
    agent: Agent,
    positions: Positions,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> MoveChoices:
    """Return what an agent chooses in each position, after its player has seen the moves before.

    The random streams depend on (seed, number of the position, ply) alone. All cores take part.
    The value that a search expects is that of its root. `progress` counts the positions done.
    """
    threads = available_cores()
    each = -(-len(positions) // (threads * _PARTS_PER_THREAD))
    slots = min(slots_within_memory([agent], threads), max(_LEAST_SLOTS, each))
    setup = Setup(positions.game, [agent], seed, 0, threads, slots, (streams.EVALUATION,))
    schedule = [
        ScheduledGame(row, agent.name, agent.name, row, positions.line(row), plies=1)
        for row in range(len(positions))
    ]
    chosen = _Chosen(len(positions))
    batches = [batch for thread in range(threads) if (batch := schedule[thread::threads])]
    play_schedule(setup, batches, moves=[chosen], progress=progress)
    return chosen.choices()


class _Chosen:
    """Keeps the moves decided in positions, by number; a `MoveObserver`."""

    def __init__(self, count: int) -> None:
        self._actions = np.empty(count, np.int64)
        self._values = np.full(count, np.nan, np.float32)

    def decided(self, moves: Moves) -> None:
        """See `MoveObserver.decided`."""
        self._actions[moves.numbers] = moves.actions
        if isinstance(moves.player, SearchPlayer):
            self._values[moves.numbers] = moves.player.search.root_values(moves.slots)

    def choices(self) -> MoveChoices:
        """Return what was chosen."""
        silent = np.isnan(self._values).all()
        return MoveChoices(self._actions, None if silent else self._values)
