"""Who watches games while they are played: every move, or every finished game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Player, Slots
from zerolab.store.games import GameRecord


class Histories:
    """The actions that led to some positions, looked up when asked for: few observers do."""

    def __init__(self, played: Sequence[Sequence[int]], slots: NDArray[np.int64]) -> None:
        """Take the actions of all games in progress, and which of them are meant, int64[n]."""
        self._played = played
        self._slots = slots

    def __getitem__(self, at: int) -> Sequence[int]:
        """Return the actions of one position."""
        return self._played[self._slots[at]]


class Moves(NamedTuple):
    """Moves that one player has decided and that are not played yet."""

    player: Player
    """With what it knows of the moves, such as a search's visits."""
    slots: Slots
    """int64[n]: the player's slots."""
    numbers: NDArray[np.int64]
    """int64[n]: the scheduled games' numbers."""
    plies: NDArray[np.int64]
    """int64[n]: how many moves were played before."""
    states: NDArray[np.uint64]
    """uint64[n, words]: the positions."""
    histories: Histories
    """n lists of the actions that led there. They change as games go on: copy what is to be kept
    while the moves are observed."""
    actions: Actions
    """int64[n]: legal actions, or FORFEIT."""


class MoveObserver(Protocol):
    """Sees every move; called by the engine's threads, several at a time."""

    def decided(self, moves: Moves) -> None:
        """Take in moves of one player."""
        ...


class GameObserver(Protocol):
    """Sees every finished game; called by the thread that plays the schedule."""

    def finished(self, games: Sequence[GameRecord]) -> None:
        """Take in games that have ended since the last call.

        The result of a game that was left at its limit of plies is ONGOING.
        """
        ...


class Recorder:
    """Keeps the records of finished games; a `GameObserver`."""

    def __init__(self) -> None:
        self._games: list[GameRecord] = []

    def finished(self, games: Sequence[GameRecord]) -> None:
        self._games += games

    @property
    def games(self) -> list[GameRecord]:
        """All games, by number."""
        return sorted(self._games)
