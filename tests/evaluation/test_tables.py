"""Accuracy tables, JSON and figures for long games."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from zerolab.evaluation.accuracy import MoveChoices, accuracy_report, random_move_accuracy_report
from zerolab.evaluation.opponents import draw_accuracy, json_value, print_accuracy
from zerolab.evaluation.positions import SolvedPositions


def long_games(games=30, plies=60):
    """Return invented positions at all plies; half of their moves are correct."""
    values = np.array([[1, -1], [0, -1]] * (games * plies // 2), np.int32)
    lines = np.tile(np.arange(plies), games)
    return SolvedPositions(
        None,
        np.repeat(np.arange(games), plies),
        np.zeros(lines.sum(), np.int16),
        np.cumsum([0, *lines]),
        np.zeros((games * plies, 1), np.uint64),
        values,
    )


POSITIONS = long_games()
CHOICES = MoveChoices(
    np.random.default_rng(1).integers(0, 2, len(POSITIONS)), np.zeros(len(POSITIONS), np.float32)
)
REPORTS = [accuracy_report("player", POSITIONS, CHOICES), random_move_accuracy_report(POSITIONS)]


def printed_lines(reports):
    console = Console(file=io.StringIO(), width=140, soft_wrap=True, highlight=False)
    print_accuracy(console, reports)
    return console.file.getvalue().splitlines()


def test_table_of_sixty_plies_fits_on_a_screen():
    lines = printed_lines(REPORTS)
    (header,) = (n for n, line in enumerate(lines) if line.split()[:2] == ["plies", "positions"])
    rows = [line.split() for line in lines[header + 1 :] if line.strip()]
    assert len(rows) == 8
    assert len(lines) <= 24
    assert sum(int(row[1]) for row in rows) == len(POSITIONS)
    assert [row[0] for row in rows][:2] == ["0-6", "7-14"]


def test_json_has_every_ply():
    plain = json_value(REPORTS[0])
    assert list(plain["by_ply"]) == [str(ply) for ply in range(60)]
    first = plain["by_ply_range"][0]
    assert (first["first_ply"], first["last_ply"]) == (0, 6)
    assert first["accuracy"]["strong"]["samples"] == 7 * 30


def test_figure_has_every_ply_and_one_line_per_player():
    figure = draw_accuracy("title", REPORTS)
    for axes in figure.axes:
        (dashed,) = (line for line in axes.lines if line.get_label() == "random, expected")
        assert dashed.get_xdata().tolist() == list(range(60))
        (measured,) = axes.containers
        assert measured.lines[0].get_xdata().tolist() == list(range(60))
