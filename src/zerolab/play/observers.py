"""Observers of moves and of finished games, and resignation in self-play."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Actions, Player, Slots
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules.facts import FloatArray
from zerolab.rules.rules import LOSS
from zerolab.store.examples import Examples
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


class ChosenMoves(NamedTuple):
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
    """int64[n]: legal actions, or `FORFEIT_ACTION`."""


class MoveObserver(Protocol):
    """Observer of every move; several engine threads can call it concurrently."""

    def on_moves_chosen(self, moves: ChosenMoves) -> None:
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


@kernel
def draw_resignation_free_games(keys, share, played_on):
    """Draw the games in which no player may resign, and write the mask to `played_on`, bool[n].

    `keys` uint64[n] are the random streams of the games.
    """
    for i in range(keys.shape[0]):
        played_on[i] = streams.uniform(keys[i], 0) < share


def should_resign(
    root_values: FloatArray, is_full_search: NDArray[np.bool_], threshold: float
) -> NDArray[np.bool_]:
    """Return whether a player resigns, bool[n], given the root values of its searches.

    Only full searches are considered, because their values are more reliable; `is_full_search`,
    bool[n], excludes quick searches and random plies.
    """
    # Without the conversion, numpy would round the threshold to float16.
    return is_full_search & (root_values.astype(np.float64) < threshold)


def resignation_counts(
    examples: Examples, games: Sequence[GameRecord], threshold: float
) -> dict[str, float]:
    """Return the `resignations` field of `SelfPlayRecord` for the games of an iteration.

    `examples` covers all games, ordered by game and ply. A resigned game has no example of the
    position in which the player gave up, so all examples in which a player would have resigned come
    from games that were played on. Only the first such example in each game is counted.
    """
    would_resign = np.flatnonzero(should_resign(examples.root_values, examples.full, threshold))
    _, first = np.unique(examples.games[would_resign], return_index=True)
    outcomes = examples.outcomes[would_resign[first]]
    false_count = int((outcomes != LOSS).sum())
    counts: dict[str, float] = {
        "resigned": sum(game.is_forfeited for game in games),
        "played_on": len(outcomes),
        "false": false_count,
    }
    return {**counts, "false_rate": false_count / len(outcomes)} if len(outcomes) else counts
