"""Bitboards: lines on all board sizes, bit counting and symmetries."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from zerolab.core.compiled import kernel
from zerolab.rules import boards

SIZES = list(product(range(3, 9), range(3, 9)))
STEPS = [(0, 1), (1, 0), (1, 1), (1, -1)]
WORDS = st.integers(0, 2**64 - 1)


@kernel
def _write_has_line(words: Any, rows: Any, columns: Any, length: Any, out: Any) -> None:
    for i in range(words.shape[0]):
        out[i] = boards.has_line(words[i], rows, columns, length)


@kernel
def _bits(word: Any, positions: Any) -> Any:
    for n in range(boards.popcount(word)):
        positions[n] = boards.nth_bit_index(word, n)
    return boards.popcount(word)


@kernel
def _image(word: Any, rows: Any, columns: Any, symmetry: Any, out: Any) -> None:
    out[0] = boards.transform_board(word[0], rows, columns, symmetry)


def _has_line(words: list[int], rows: int, columns: int, length: int) -> NDArray[np.bool_]:
    has_line = np.empty(len(words), np.bool_)
    _write_has_line(np.array(words, np.uint64), rows, columns, length, has_line)
    return has_line


def _word(cells: Any, columns: int) -> int:
    return sum(1 << (row * columns + column) for row, column in cells)


def _lines(rows: int, columns: int, length: int) -> list[list[tuple[int, int]]]:
    """Return the cells of every line of `length` cells."""
    lines = [
        [(row + i * down, column + i * right) for i in range(length)]
        for row, column in product(range(rows), range(columns))
        for down, right in STEPS
    ]
    return [line for line in lines if all(0 <= r < rows and 0 <= c < columns for r, c in line)]


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_only_complete_lines_win(rows: int, columns: int) -> None:
    for length in range(3, max(rows, columns) + 1):
        lines = _lines(rows, columns, length)
        assert lines
        assert _has_line([_word(line, columns) for line in lines], rows, columns, length).all()
        gaps = [
            _word([cell for cell in line if cell != gap], columns) for line in lines for gap in line
        ]
        assert not _has_line(gaps, rows, columns, length).any()


@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_lines_do_not_wrap_around_edges(rows: int, columns: int) -> None:
    for length in range(3, max(rows, columns) + 1):
        true_lines = {_word(line, columns) for line in _lines(rows, columns, length)}
        strided = {
            sum(1 << (first + i * step) for i in range(length))
            for step in (1, columns - 1, columns, columns + 1)
            for first in range(rows * columns - (length - 1) * step)
        }
        wrapped = sorted(strided - true_lines)
        assert not _has_line(wrapped, rows, columns, length).any()


@given(st.data(), st.sampled_from(SIZES), st.integers(3, 8))
def test_random_boards_win_with_full_line(data: Any, size: Any, length: int) -> None:
    rows, columns = size
    length = min(length, max(rows, columns))
    word = data.draw(WORDS) | data.draw(WORDS)
    word &= (1 << rows * columns) - 1
    lines = (_word(line, columns) for line in _lines(rows, columns, length))
    expected = any(word & line == line for line in lines)
    assert _has_line([word], rows, columns, length)[0] == expected


@given(WORDS)
def test_bits_are_counted_and_located(word: int) -> None:
    positions = np.empty(64, np.int64)
    count = _bits(np.uint64(word), positions)
    assert positions[:count].tolist() == [i for i in range(64) if word >> i & 1]


@given(WORDS, st.sampled_from(SIZES), st.integers(0, 7))
def test_symmetries_agree_with_numpy(word: int, size: tuple[int, int], symmetry: int) -> None:
    rows, columns = size
    if rows != columns:
        symmetry %= 4
    grid = np.array([word >> i & 1 for i in range(rows * columns)]).reshape(size)
    if symmetry & 1:
        grid = np.fliplr(grid)
    if symmetry & 2:
        grid = np.flipud(grid)
    if symmetry & 4:
        grid = grid.T
    masked = np.array([word & ((1 << rows * columns) - 1)], np.uint64)
    out = np.empty(1, np.uint64)
    _image(masked, rows, columns, symmetry, out)
    assert int(out[0]) == sum(int(cell) << i for i, cell in enumerate(grid.ravel()))
