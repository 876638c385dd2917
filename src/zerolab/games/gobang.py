"""Gobang [Wang2020a], with K or more pieces in a row to win; ``gobang:3x3:3`` is tic-tac-toe."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.core import streams
from zerolab.report.board_shapes import BoardStyle
from zerolab.rules import boards, cells, rules
from zerolab.rules.catalogue import register_game
from zerolab.rules.cells import (
    CellEncoding,
    CellRules,
    CellSolverRules,
    PlacementNotation,
)
from zerolab.rules.rules import DRAW, LOSS, ONGOING


class Gobang(NamedTuple):
    """Gobang on a rectangular board; `length` or more pieces in a row win."""

    rows: Annotated[int, Field(ge=3, le=8)]
    columns: Annotated[int, Field(ge=3, le=8)]
    length: Annotated[int, Field(ge=3, le=8)] = 4


class GobangRules(CellRules):
    """Rules of Gobang; the state is (own pieces, opponent's pieces), and an action is a cell."""

    @staticmethod
    def check(game):
        boards.check_line_fits(game.rows, game.columns, game.length)

    @staticmethod
    def apply(game, state, action, out):
        own = state[0] | boards.bit(action)
        out[0] = state[1]
        out[1] = own

    @staticmethod
    def outcome(game, state):
        if boards.has_line(state[1], game.rows, game.columns, game.length):
            return LOSS
        if state[0] | state[1] == boards.full_board(game.rows, game.columns):
            return DRAW
        return ONGOING

    @staticmethod
    def playout(game, state, key, out, moves):
        """Play empty cells in random order, shuffled in place in `moves` [Durstenfeld1964]."""
        own = state[0]
        other = state[1]
        empty = boards.full_board(game.rows, game.columns) & ~(own | other)
        count = boards.write_cells(empty, moves[1:])
        won = boards.has_line(other, game.rows, game.columns, game.length)
        random = boards.ZERO
        plies = 0
        while plies < count and not won:
            random = rules.random_bits_for_ply(key, plies, random)
            drawn = 1 + plies + streams.random_below(random, count - plies)
            plies += 1
            cell = moves[drawn]
            moves[drawn] = moves[plies]
            moves[plies] = cell
            mover = own | boards.bit(cell)
            own = other
            other = mover
            won = boards.has_line(mover, game.rows, game.columns, game.length)
        moves[0] = plies
        return rules.outcome_if_last_ply_wins(plies) if won else DRAW


class GobangSolverRules(CellSolverRules):
    """Solver rules that score the speed of a win; a threat reduces the moves to try to one."""

    @staticmethod
    def final_score(game, state):
        return cells.line_final_score(state, game.rows, game.columns, game.length)

    @staticmethod
    def score_is_distance(game):
        return True

    @staticmethod
    def score_bounds(game, state):
        return cells.line_score_bounds(state, game.rows, game.columns, game.length)

    @staticmethod
    def solver_moves(game, state, out):
        """Write an immediate win, else the defence against one, else all empty cells."""
        empty = cells.empty_cells(state, game.rows, game.columns)
        wins = empty & boards.completing_cells(state[0], game.rows, game.columns, game.length)
        if wins:
            out[0] = boards.lowest_bit_index(wins)
            return 1
        threats = empty & boards.completing_cells(state[1], game.rows, game.columns, game.length)
        if threats:
            out[0] = boards.lowest_bit_index(threats)
            return 1
        return boards.write_cells(empty, out)

    @staticmethod
    def move_ordering_score(game, state):
        return cells.threat_ordering_score(state, game.rows, game.columns, game.length)


register_game(
    "gobang",
    Gobang,
    GobangRules,
    CellEncoding,
    PlacementNotation,
    GobangSolverRules,
    BoardStyle(cells="points", surface="wood", pieces="black_and_white", decided_by="line"),
)
