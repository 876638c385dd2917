"""Observers of moves and of finished games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Player, Slots
from zerolab.store.games import GameRecord


class GameHistories:
    """Actions that led to each of n positions, looked up on demand."""

    def __init__(self, actions: Sequence[Sequence[int]], slots: NDArray[np.int64]) -> None:
        """Wrap the actions of all games in progress, for the n positions in `slots` int64[n]."""
        self._actions = actions
        self._slots = slots

    def __getitem__(self, at: int) -> Sequence[int]:
        """Return the actions that led to position `at`."""
        return self._actions[self._slots[at]]


class MoveBatch(NamedTuple):
    """Moves chosen by one player in n games, before they are played."""

    player: Player
    """Player, which provides further data such as the visit counts of its search."""
    player_slots: Slots
    """int64[n]: game slots of the player."""
    game_numbers: NDArray[np.int64]
    """int64[n]: game numbers."""
    plies: NDArray[np.int64]
    """int64[n]: number of previous moves in each game."""
    states: NDArray[np.uint64]
    """uint64[n, words]: positions before the moves."""
    histories: GameHistories
    """Previous actions of each game. The sequences grow as the games continue, so observers must
    copy the sequences that they store."""
    actions: Actions
    """int64[n]: legal actions, or FORFEIT."""


class MoveObserver(Protocol):
    """Observer of every move; several engine threads can call it concurrently."""

    def on_moves_chosen(self, moves: MoveBatch) -> None:
        """Receive the moves of one player."""
        ...


class GameObserver(Protocol):
    """Observer of finished games; called in the thread that called `play_pairings`."""

    def on_games_finished(self, games: Sequence[GameRecord]) -> None:
        """Receive the games that finished since the previous call.

        The result of a game that reached its ply limit is ONGOING.
        """
        ...


class GameRecorder:
    """`GameObserver` that collects the records of finished games."""

    def __init__(self) -> None:
        self._games: list[GameRecord] = []

    def on_games_finished(self, games: Sequence[GameRecord]) -> None:
        self._games += games

    @property
    def games(self) -> list[GameRecord]:
        """All finished games, ordered by number."""
        return sorted(self._games)

    @property
    def latest_game(self) -> GameRecord | None:
        """The game that finished last, or None before the first."""
        return self._games[-1] if self._games else None
