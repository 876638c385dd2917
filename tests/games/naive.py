"""Simple implementations of three games on grids of 1 (first player), -1 (second) and 0 (empty)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Grid = NDArray[np.int8]

LINES = [(0, 1), (1, 0), (1, 1), (1, -1)]
DIRECTIONS = LINES + [(-r, -c) for r, c in LINES]


def _walk(grid: Grid, row: int, column: int, step: tuple[int, int]) -> Iterator[int]:
    """Yield the contents of the cells after (row, column) in one direction, up to the edge."""
    rows, columns = grid.shape
    row, column = row + step[0], column + step[1]
    while 0 <= row < rows and 0 <= column < columns:
        yield int(grid[row, column])
        row, column = row + step[0], column + step[1]


def _run_length(grid: Grid, row: int, column: int, step: tuple[int, int]) -> int:
    """Count the adjacent stones of a cell's colour in one direction."""
    count = 0
    for stone in _walk(grid, row, column, step):
        if stone != grid[row, column]:
            break
        count += 1
    return count


class NaiveOthello:
    """Othello: a move flips opposing discs between the new disc and another of its colour."""

    def __init__(self, rows: int, columns: int) -> None:
        self.grid = np.zeros((rows, columns), np.int8)
        row, column = rows // 2, columns // 2
        self.grid[row - 1, column] = self.grid[row, column - 1] = 1
        self.grid[row - 1, column - 1] = self.grid[row, column] = -1
        self.mover = 1

    def _flipped(self, row: int, column: int, colour: int) -> list[tuple[int, int]]:
        flipped: list[tuple[int, int]] = []
        for step in DIRECTIONS:
            line = []
            for distance, stone in enumerate(_walk(self.grid, row, column, step), start=1):
                if stone == -colour:
                    line.append((row + distance * step[0], column + distance * step[1]))
                    continue
                if stone == colour:
                    flipped += line
                break
        return flipped

    def _cells(self, colour: int) -> Iterator[int]:
        columns = self.grid.shape[1]
        for cell in np.flatnonzero(self.grid == 0).tolist():
            if self._flipped(*divmod(cell, columns), colour):
                yield cell

    def legal_actions(self) -> list[int]:
        return list(self._cells(self.mover)) or [self.grid.size]

    def play(self, action: int) -> NaiveOthello:
        rows, columns = self.grid.shape
        after = NaiveOthello(rows, columns)
        after.grid, after.mover = self.grid.copy(), -self.mover
        if action < self.grid.size:
            row, column = divmod(action, columns)
            for cell in [*self._flipped(row, column, self.mover), (row, column)]:
                after.grid[cell] = self.mover
        return after

    def result(self) -> int | None:
        if any(True for colour in (1, -1) for _ in self._cells(colour)):
            return None
        return int(np.sign(self.grid.sum()))

    def board(self) -> Grid:
        return self.grid


class NaiveGobang:
    """Gobang: a row of at least `length` stones through the last one wins."""

    def __init__(self, rows: int, columns: int, length: int) -> None:
        self.grid = np.zeros((rows, columns), np.int8)
        self.length = length
        self.mover = 1
        self.won = False

    def legal_actions(self) -> list[int]:
        return [int(cell) for cell in np.flatnonzero(self.grid == 0)]

    def place(self, action: int) -> tuple[int, int]:
        row, column = divmod(action, self.grid.shape[1])
        return row, column

    def play(self, action: int) -> NaiveGobang:
        after = type(self)(*self.grid.shape, self.length)
        row, column = self.place(action)
        after.grid, after.mover = self.grid.copy(), -self.mover
        after.grid[row, column] = self.mover
        after.won = any(
            1
            + _run_length(after.grid, row, column, (r, c))
            + _run_length(after.grid, row, column, (-r, -c))
            >= self.length
            for r, c in LINES
        )
        return after

    def result(self) -> int | None:
        if self.won:
            return -self.mover
        return None if (self.grid == 0).any() else 0

    def board(self) -> Grid:
        return self.grid


class NaiveConnectFour(NaiveGobang):
    """Connect Four: Gobang in which a stone falls to the lowest empty cell of its column."""

    def legal_actions(self) -> list[int]:
        return [int(column) for column in np.flatnonzero(self.grid[0] == 0)]

    def place(self, action: int) -> tuple[int, int]:
        return int(np.flatnonzero(self.grid[:, action] == 0).max()), action
