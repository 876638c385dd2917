"""Gobang: K stones in a row win, longer rows too; ``gobang:3x3:3`` is tic-tac-toe (FACTS 1)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import Field

from zerolab.core import streams
from zerolab.rules import boards, lines, playouts
from zerolab.rules.catalogue import register_game
from zerolab.rules.interface import DRAW, LOSS, ONGOING
from zerolab.rules.squares import SquareRules


class Gobang(NamedTuple):
    """A board on which `length` stones in a row win."""

    rows: Annotated[int, Field(ge=3, le=8)]
    columns: Annotated[int, Field(ge=3, le=8)]
    length: Annotated[int, Field(ge=3, le=8)] = 4


@register_game("gobang", Gobang)
class GobangRules(SquareRules):
    """The state is (own stones, other's stones); an action is an empty cell."""

    @staticmethod
    def check(game):
        boards.check_line_fits(game.rows, game.columns, game.length)

    @staticmethod
    def apply(game, state, action, out):
        own = state[0] | boards.ONE << boards.word(action)
        out[0] = state[1]
        out[1] = own

    @staticmethod
    def outcome(game, state):
        if boards.has_run(state[1], game.rows, game.columns, game.length):
            return LOSS
        if state[0] | state[1] == boards.full_board(game.rows, game.columns):
            return DRAW
        return ONGOING

    @staticmethod
    def playout(game, state, key, out, moves):
        """See `interface.playout`.

        Moves are drawn by shuffling the empty cells (Fisher and Yates), so that no draw waits for
        another; they are listed where the moves wants them.
        """
        own = state[0]
        other = state[1]
        empty = boards.full_board(game.rows, game.columns) & ~(own | other)
        left = boards.list_cells(empty, moves[1:])
        won = boards.has_run(other, game.rows, game.columns, game.length)
        random = boards.ZERO
        plies = 0
        while plies < left and not won:
            random = playouts.draw(key, plies, random)
            chosen = 1 + plies + streams.below(random, left - plies)
            plies += 1
            cell = moves[chosen]
            moves[chosen] = moves[plies]
            moves[plies] = cell
            mover = own | boards.ONE << boards.word(cell)
            own = other
            other = mover
            won = boards.has_run(mover, game.rows, game.columns, game.length)
        moves[0] = plies
        return playouts.last_mover_wins(plies) if won else DRAW

    @staticmethod
    def score(game, state):
        return lines.score(state, game.rows, game.columns, game.length)

    @staticmethod
    def score_is_distance(game):
        return True

    @staticmethod
    def score_bounds(game, state):
        return lines.score_bounds(state, game.rows, game.columns, game.length)

    @staticmethod
    def solver_moves(game, state, out):
        """See `interface.solver_moves`: a win at once, or a cell where the other would win."""
        empty = lines.empty_cells(state, game.rows, game.columns)
        wins = empty & boards.completing_cells(state[0], game.rows, game.columns, game.length)
        if wins:
            out[0] = boards.lowest_bit(wins)
            return 1
        threats = empty & boards.completing_cells(state[1], game.rows, game.columns, game.length)
        if threats:
            out[0] = boards.lowest_bit(threats)
            return 1
        return boards.list_cells(empty, out)

    @staticmethod
    def move_ordering_score(game, state):
        return lines.move_ordering_score(state, game.rows, game.columns, game.length)
