"""Comparing a game with a twin: an independent implementation of the same rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zerolab.rules import host
from zerolab.rules.interface import ONGOING, Game
from zerolab.rules.perft import Count, perft
from zerolab.testing.samples import Sample, random_games, require


class Twin(Protocol):
    """A position of the same game, written as plainly as possible."""

    def legal_actions(self) -> Sequence[int]:
        """Return the legal actions of an ongoing game in ascending order."""
        ...

    def play(self, action: int) -> Twin:
        """Return the position after an action; this one stays as it is."""
        ...

    def result(self) -> int | None:
        """Return +1 if the player who made the first action has won, -1, 0, or None."""
        ...

    def board(self) -> NDArray[Any] | None:
        """Return [rows, columns] with 1 and -1 for the first and second player's pieces.

        Where it is None, boards are not compared.
        """
        ...


def check_twin(game: Game, start: Callable[[], Twin], most_leaves: int = 500) -> None:
    """Compare random games move by move, and perft counts to about `most_leaves` sequences."""
    for played in random_games(game):
        twin = start()
        for sample in played:
            if sample.history:
                twin = twin.play(sample.history[-1])
            _compare(sample, twin)
    _compare_counts(game, start, most_leaves)


def _compare(sample: Sample, twin: Twin) -> None:
    game, sign = sample.game, 1 if len(sample.history) % 2 == 0 else -1
    result = twin.result()
    expected = ONGOING if result is None else sign * result
    same_outcome = sample.outcome == expected
    require(same_outcome, sample, f"the outcome is {sample.outcome}, the twin's {expected}")
    if sample.outcome == ONGOING:
        legal = np.flatnonzero(host.legal(game, sample.state)).tolist()
        others = list(twin.legal_actions())
        require(legal == others, sample, f"{legal} are legal, for the twin {others}")
    board = twin.board()
    if board is not None:
        _compare_boards(sample, sign * host.encode(game, sample.state)[0], board)


def _compare_boards(sample: Sample, pieces: NDArray[Any], board: NDArray[Any]) -> None:
    different = np.argwhere(pieces != board).tolist()
    require(
        not different,
        sample,
        f"plane 0 and the twin's board show different pieces in the cells {different}",
    )


def _compare_counts(game: Game, start: Callable[[], Twin], most_leaves: int) -> None:
    level: list[Twin] = [start()]
    branching = len(level[0].legal_actions())
    for count in perft(game, depth=20):
        level = [
            twin.play(action)
            for twin in level
            if twin.result() is None
            for action in twin.legal_actions()
        ]
        ended = sum(twin.result() is not None for twin in level)
        expected = Count(count.depth, len(level), ended)
        require(count == expected, game, f"perft gives {count}, the twin {expected}")
        if not level or len(level) * branching > most_leaves:
            return
