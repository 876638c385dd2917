"""What the search of a position says, for many positions, and a bounded memory of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_FIRST_ROWS = 64


class Answers(NamedTuple):
    """Finished searches of N positions; values are those of the players to move."""

    policies: NDArray[np.float32]
    """float32[N, actions]: what the root rule makes of the search (see `Search.policies`)."""
    visits: NDArray[np.int32]
    """int32[N, actions]"""
    root_values: NDArray[np.float32]
    """float32[N]: P(win) - P(loss)."""
    root_draws: NDArray[np.float32]
    """float32[N]: P(draw); NaN where the search kept none."""
    action_values: NDArray[np.float32]
    """float32[N, actions]; NaN where not searched."""
    full: NDArray[np.bool_]
    """bool[N]: whether the search was a full one (see `Allowance`)."""
    best: NDArray[np.uint32]
    """uint32[N, actions]: weights of moves, of which one of the highest is played."""
    sampled: NDArray[np.uint32]
    """uint32[N, actions]: weights in proportion to which a move is drawn."""

    def rows(self, rows: Any) -> Answers:
        """Return copies of some rows, by an index that numpy understands and no slice."""
        return Answers(*(column[rows] for column in self))

    def put(self, rows: Any, answers: Answers) -> None:
        """Write answers into some rows."""
        for column, new in zip(self, answers, strict=True):
            column[rows] = new


def empty_answers(count: int, actions: int) -> Answers:
    """Return unwritten answers for so many positions."""
    table = count, actions
    return Answers(
        policies=np.empty(table, np.float32),
        visits=np.empty(table, np.int32),
        root_values=np.empty(count, np.float32),
        root_draws=np.empty(count, np.float32),
        action_values=np.empty(table, np.float32),
        full=np.empty(count, np.bool_),
        best=np.empty(table, np.uint32),
        sampled=np.empty(table, np.uint32),
    )


class AnswerCache:
    """Answers by position; beyond `most` of them the oldest one makes room.

    Memory grows with what is stored.
    """

    def __init__(self, most: int, actions: int) -> None:
        self._most = most
        self._actions = actions
        self._answers = empty_answers(min(most, _FIRST_ROWS), actions)
        self._rows: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._next = 0

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, keys: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the rows of positions, int64[n], -1 where an answer is not known."""
        return np.array([self._rows.get(key, -1) for key in keys], np.int64)

    def read(self, rows: NDArray[np.int64]) -> Answers:
        """Return copies of answers."""
        return self._answers.rows(rows)

    def add(self, keys: Sequence[bytes], answers: Answers) -> None:
        """Store answers of different positions that are not known yet."""
        kept = keys[-self._most :] if self._most else ()
        rows = np.array([self._take(key) for key in kept], np.int64)
        self._grow()
        self._answers.put(rows, answers.rows(np.arange(len(keys) - len(kept), len(keys))))

    def _take(self, key: bytes) -> int:
        """Return the row for another position, if need be that of the oldest one."""
        row = self._next
        self._next = (row + 1) % self._most
        if row == len(self._keys):
            self._keys.append(key)
        else:
            del self._rows[self._keys[row]]
            self._keys[row] = key
        self._rows[key] = row
        return row

    def _grow(self) -> None:
        rows = len(self._answers.full)
        if len(self._keys) > rows:
            wider = empty_answers(min(self._most, 2 * len(self._keys)), self._actions)
            wider.put(np.arange(rows), self._answers)
            self._answers = wider
