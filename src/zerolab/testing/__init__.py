"""Conformance checks for games, including games from other packages.

>>> from zerolab.testing import check_game
>>> check_game("othello:6x6")

A failing check raises AssertionError, naming the game or the position that fails it. `CHECKS` lists
all checks, so that a test suite can run them individually.
"""

from __future__ import annotations

from collections.abc import Callable

from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.testing.laws import (
    check_action_names,
    check_apply,
    check_drawing,
    check_empty_count,
    check_games_end,
    check_legal,
    check_max_plies,
    check_outcome,
    check_plane_names,
    check_planes,
    check_registration,
    check_scores,
    check_solver_moves,
    check_start,
    check_state_of_board,
)
from zerolab.testing.random_games import (
    TwinPosition,
    check_against_twin,
    check_playout,
    check_playout_mean,
    check_random_action,
)
from zerolab.testing.symmetry import (
    check_action_layout,
    check_symmetric_positions,
    check_symmetries_invert,
    check_symmetry_tables,
)

__all__ = ["CHECKS", "TwinPosition", "check_against_twin", "check_game"]

CHECKS: tuple[Callable[[Game], None], ...] = (
    check_registration,
    check_start,
    check_outcome,
    check_legal,
    check_apply,
    check_games_end,
    check_planes,
    check_action_names,
    check_drawing,
    check_state_of_board,
    check_symmetry_tables,
    check_symmetric_positions,
    check_symmetries_invert,
    check_action_layout,
    check_plane_names,
    check_random_action,
    check_playout,
    check_playout_mean,
    check_empty_count,
    check_max_plies,
    check_scores,
    check_solver_moves,
)
"""All checks, starting with the most fundamental ones."""


def check_game(game: Game | str, twin: Callable[[], TwinPosition] | None = None) -> None:
    """Run all checks on a game, given as a value or by name.

    `twin` returns the initial position of an independent implementation. If it is given, random
    games and perft counts are also compared with this implementation. Raises AssertionError if a
    check fails, and UserError for an unknown name.
    """
    game_value = parse_game(game) if isinstance(game, str) else game
    for check in CHECKS:
        check(game_value)
    if twin is not None:
        check_against_twin(game_value, twin)
