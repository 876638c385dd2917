"""Games with one defect each; as a program, print the conformance errors of all of them.

The program runs as plain Python, to avoid compiling every game. It first prints the fingerprints of
the games named by its arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple
from unittest.mock import patch

import numpy as np
from pydantic import Field

from games.fingerprint import fingerprint
from games.naive import NaiveGobang
from zerolab import testing
from zerolab.core import streams
from zerolab.games.gobang import GobangRules, GobangSolverRules
from zerolab.rules import boards, rules
from zerolab.rules.catalogue import register_game
from zerolab.rules.cells import CellEncoding, CellNotation
from zerolab.rules.rules import DRAW, LOSS, ONGOING, WIN
from zerolab.testing import random_games

Side = Annotated[int, Field(ge=3, le=8)]

PARTS = (GobangRules, CellEncoding, CellNotation, GobangSolverRules)

CAUGHT_BY: dict[str, tuple[str, Any]] = {}
"""The check that must catch each broken game, and the game."""


def _broken(check: str, rows: int = 3, columns: int = 3) -> Callable[[type], type]:
    """Register three-in-a-row Gobang with the decorated part in place of its own."""

    def register(broken: type) -> type:
        name = broken.__name__
        fields = [("rows", Side), ("columns", Side), ("length", Side)]
        kind = NamedTuple(name, fields)  # type: ignore[misc]
        parts = [broken if issubclass(broken, part) else part for part in PARTS]
        register_game(name, kind, *parts)
        CAUGHT_BY[name] = check, kind(rows, columns, 3)
        return broken

    return register


@_broken("check_start")
class StartSkipsWord(GobangRules):
    @staticmethod
    def start(game, out):
        out[0] = boards.ZERO


@_broken("check_start")
class ZeroForOngoing(GobangRules):
    @staticmethod
    def outcome(game, state):
        result = GobangRules.outcome(game, state)
        return DRAW if result == ONGOING else result


@_broken("check_outcome")
class UnknownOutcome(GobangRules):
    @staticmethod
    def outcome(game, state):
        result = GobangRules.outcome(game, state)
        return 3 if result == LOSS else result


@_broken("check_legal")
class LegalSkipsEntries(GobangRules):
    @staticmethod
    def legal(game, state, mask):
        for cell in range(game.rows * game.columns):
            if not boards.test_bit(state[0] | state[1], cell):
                mask[cell] = True


@_broken("check_legal")
class NoLegalActions(GobangRules):
    @staticmethod
    def legal(game, state, mask):
        GobangRules.legal(game, state, mask)
        if boards.popcount(state[0]) == 2:
            mask[:] = False


@_broken("check_apply")
class ApplyOverwritesItsInput(GobangRules):
    @staticmethod
    def apply(game, state, action, out):
        out[0] = state[1]
        out[1] = state[0] | boards.bit(action)


@_broken("check_games_end")
class NeverEnds(GobangRules):
    @staticmethod
    def legal(game, state, mask):
        mask[:] = True

    @staticmethod
    def outcome(game, state):
        return ONGOING


@_broken("check_planes")
class EncodeSkipsEmptyCells(CellEncoding):
    @staticmethod
    def encode(game, state, out):
        for cell in range(game.rows * game.columns):
            if boards.test_bit(state[0] | state[1], cell):
                out[0, cell] = boards.piece_at(state[0], state[1], cell)


@_broken("check_planes")
class EmptyPlanes(CellEncoding):
    @staticmethod
    def encode(game, state, out):
        out[:] = 0


@_broken("check_action_names")
class DuplicateNames(CellNotation):
    @staticmethod
    def action_name(game, action):
        return "abcdefgh"[action % game.columns]


@_broken("check_action_names")
class NameParsedWrongly(CellNotation):
    @classmethod
    def parse_action(cls, game, text):
        action = super().parse_action(game, text)
        return None if action is None else action * 2 % 9


@_broken("check_drawing")
class BoardWithoutColours(CellNotation):
    @staticmethod
    def mover_board(game, state):
        return abs(CellNotation.mover_board(game, state))


@_broken("check_drawing")
class DrawingWithoutLastColumn(CellNotation):
    @classmethod
    def draw_board(cls, game, board, symbols):
        return super().draw_board(game, board[:, :-1], symbols)


@_broken("check_symmetry_tables", rows=3, columns=4)
class RectangleQuarterTurn(CellEncoding):
    @staticmethod
    def symmetry_count(game):
        return 8


@_broken("check_symmetry_tables")
class NotAGroup(CellEncoding):
    @staticmethod
    def symmetry_count(game):
        return 3


@_broken("check_symmetric_positions")
class PolicyNotMirrored(CellEncoding):
    @staticmethod
    def transform_action(game, symmetry, action):
        return action


@_broken("check_symmetric_positions")
class PlanesNotMirrored(CellEncoding):
    @staticmethod
    def transform_cell(game, symmetry, cell):
        return cell if symmetry == 1 else CellEncoding.transform_cell(game, symmetry, cell)

    @staticmethod
    def transform_action(game, symmetry, action):
        return CellEncoding.transform_cell(game, symmetry, action)


@_broken("check_action_layout")
class ColumnLayoutForCells(CellEncoding):
    action_places = "columns"


@_broken("check_plane_names")
class TooManyPlaneNames(CellEncoding):
    plane_names = ("pieces", "edges")


@_broken("check_symmetries_invert")
class TransformDropsPlayer(CellEncoding):
    @staticmethod
    def transform(game, state, symmetry, out):
        CellEncoding.transform(game, state, symmetry, out)
        if symmetry:
            out[1] = boards.ZERO


@_broken("check_random_action")
class IllegalRandomAction(GobangRules):
    @staticmethod
    def random_action(game, state, random):
        return streams.random_below(random, game.rows * game.columns)


@_broken("check_random_action")
class LopsidedRandomAction(GobangRules):
    @staticmethod
    def random_action(game, state, random):
        action = streams.random_below(random, game.rows * game.columns)
        while boards.test_bit(state[0] | state[1], action):
            action = (action + 1) % (game.rows * game.columns)
        return action


@_broken("check_playout")
class PlayoutResultOfWrongPlayer(GobangRules):
    @staticmethod
    def playout(game, state, key, out, moves):
        GobangRules.playout(game, state, key, out, moves)
        return rules.outcome(game, out)


@_broken("check_playout")
class PlayoutPrefersFirstHalf(GobangRules):
    @staticmethod
    def playout(game, state, key, out, moves):
        first = GobangRules.playout(game, state, key, out, moves)
        if moves[0] > 0 and moves[1] < game.rows * game.columns // 2:
            return first
        return GobangRules.playout(game, state, key + boards.ONE, out, moves)


@_broken("check_playout")
class PlayoutWithoutMoves(GobangRules):
    @staticmethod
    def playout(game, state, key, out, moves):
        result = GobangRules.playout(game, state, key, out, moves)
        moves[0] = 0
        return result


@_broken("check_playout_mean")
class PlayoutAlwaysWon(GobangRules):
    @staticmethod
    def playout(game, state, key, out, moves):
        return WIN


@_broken("check_empty_count")
class EmptiesCountsPieces(GobangSolverRules):
    @staticmethod
    def empty_count(game, state):
        return boards.popcount(state[0] | state[1])


@_broken("check_max_plies")
class MaxPliesTooSmall(GobangSolverRules):
    @staticmethod
    def max_plies(game):
        return 5


@_broken("check_scores")
class ScoreNegated(GobangSolverRules):
    @staticmethod
    def final_score(game, state):
        return -GobangSolverRules.final_score(game, state)


@_broken("check_scores")
class BoundsOmitFastLosses(GobangSolverRules):
    @staticmethod
    def score_bounds(game, state):
        return 0, GobangSolverRules.score_bounds(game, state)[1]


@_broken("check_solver_moves")
class IllegalSolverMoves(GobangSolverRules):
    @staticmethod
    def solver_moves(game, state, out):
        return boards.write_cells(boards.full_board(3, 3), out)


@_broken("check_solver_moves")
class DefenceOmitted(GobangSolverRules):
    @staticmethod
    def solver_moves(game, state, out):
        return min(1, GobangSolverRules.solver_moves(game, state[::-1], out))


@_broken("check_against_twin")
class DrawScoredAsLoss(GobangRules):
    @staticmethod
    def outcome(game, state):
        result = GobangRules.outcome(game, state)
        return LOSS if result == DRAW else result


@_broken("check_against_twin")
class AbsoluteWinner(GobangRules):
    @staticmethod
    def outcome(game, state):
        result = GobangRules.outcome(game, state)
        first_to_move = boards.popcount(state[0]) == boards.popcount(state[1])
        return WIN if result == LOSS and not first_to_move else result


@_broken("check_against_twin")
class AbsoluteColours(CellEncoding):
    @staticmethod
    def encode(game, state, out):
        first_to_move = boards.popcount(state[0]) == boards.popcount(state[1])
        CellEncoding.encode(game, state if first_to_move else state[::-1], out)


_PLAYOUTS = 150
"""Playouts per position in `check_playout`, enough to detect these defects."""


def _error(name: str) -> str:
    """Return the message of the check that must catch a game, or an empty string."""
    check, game = CAUGHT_BY[name]
    try:
        if check == "check_against_twin":
            testing.check_against_twin(game, lambda: NaiveGobang(*game))
        else:
            run_check = next(each for each in testing.CHECKS if each.__name__ == check)
            playouts = _PLAYOUTS if check == "check_playout" else random_games._PLAYOUTS
            with patch.object(random_games, "_PLAYOUTS", playouts):
                run_check(game)
    except AssertionError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    fingerprints = [fingerprint(name) for name in sys.argv[1:]]
    np.seterr(all="ignore")
    print(json.dumps([fingerprints, {name: _error(name) for name in CAUGHT_BY}]))
