"""Observers of games in progress: of every move, or of every finished game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Player, Slots
from zerolab.store.games import GameRecord


class Histories:
    """The actions that led to some positions, looked up on demand."""

    def __init__(self, played: Sequence[Sequence[int]], slots: NDArray[np.int64]) -> None:
        """Take the actions of all games in progress, and the slots of the n positions, int64[n]."""
        self._played = played
        self._slots = slots

    def __getitem__(self, at: int) -> Sequence[int]:
        """Return the actions of one position."""
        return self._played[self._slots[at]]


class Moves(NamedTuple):
    """Moves that one player has decided, before they are played."""

    player: Player
    """The player, which may know more about the moves, such as the visits of its search."""
    slots: Slots
    """int64[n]: the player's game slots."""
    numbers: NDArray[np.int64]
    """int64[n]: the numbers of the games."""
    plies: NDArray[np.int64]
    """int64[n]: the number of moves played before."""
    states: NDArray[np.uint64]
    """uint64[n, words]: the positions."""
    histories: Histories
    """n lists of the actions that led there. They change as games continue, so an observer that
    keeps one must copy it."""
    actions: Actions
    """int64[n]: legal actions, or FORFEIT."""


class MoveObserver(Protocol):
    """Observer of every move; called by several threads of the engine at once."""

    def decided(self, moves: Moves) -> None:
        """Receive moves of one player."""
        ...


class GameObserver(Protocol):
    """Observer of every finished game; called by the thread that called `play_pairings`."""

    def finished(self, games: Sequence[GameRecord]) -> None:
        """Receive the games that have ended since the last call.

        The result of a game that ended at its limit of plies is ONGOING.
        """
        ...


class Recorder:
    """`GameObserver` that keeps the records of finished games."""

    def __init__(self) -> None:
        self._games: list[GameRecord] = []

    def finished(self, games: Sequence[GameRecord]) -> None:
        self._games += games

    @property
    def games(self) -> list[GameRecord]:
        """All games, by number."""
        return sorted(self._games)
