"""The conformance kit, applied to the package's games and to broken games."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from games.fingerprint import fingerprint
from games.naive import NaiveConnectFour, NaiveGobang
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name, registered_games
from zerolab.testing import CHECKS, check_game


def _games() -> list[Any]:
    """Return all games on the smallest and largest boards, and on a wide and a tall one."""
    games = []
    for entry in registered_games().values():
        if not entry.rules.__module__.startswith("zerolab."):
            continue
        (low, high), (_, widest), *others = entry.field_bounds().values()
        for rows, columns in [(low, low), (high, widest), (low, widest), (high, 5)]:
            tail = [min(4, rows, columns)] * len(others)
            games.append(entry.game_type(rows, columns, *tail))
    return games


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("game", _games(), ids=game_name)
def test_law(game: Any, check: Callable[[Any], None]) -> None:
    check(game)


BROKEN = {
    "StartSkipsWord": "start does not write every word",
    "ZeroForOngoing": "has the outcome 0, not ONGOING",
    "UnknownOutcome": "the outcome is 3; expected",
    "LegalSkipsEntries": "legal does not write every entry",
    "NoLegalActions": "the game is ongoing, but no action is legal",
    "ApplyOverwritesItsInput": "read `state` before writing `out`",
    "NeverEnds": "not over after 1000 random plies",
    "EncodeSkipsEmptyCells": "encode leaves entries unwritten",
    "EmptyPlanes": "the last action changed no plane",
    "DuplicateNames": 'several actions have the name "a"',
    "BoardWithoutColours": "mover_board does not return the pieces of plane 0",
    "DrawingWithoutLastColumn": "the drawing does not show every cell",
    "NameParsedWrongly": '"b1" is action 1, but is parsed as 2',
    "RectangleQuarterTurn": "is not a permutation",
    "NotAGroup": "symmetry 1 followed by 2 is not a symmetry of the game",
    "PolicyNotMirrored": "symmetry 1 before or after action 0 gives different states",
    "PlanesNotMirrored": "permuted with transform_cell",
    "ColumnLayoutForCells": "moves actions differently from the columns",
    "TooManyPlaneNames": "2 names for 1 planes",
    "TransformDropsPlayer": "does not undo symmetry",
    "IllegalRandomAction": "which are not legal",
    "LopsidedRandomAction": "random_action is not uniform",
    "PlayoutResultOfWrongPlayer": "playouts do not match `moves`",
    "PlayoutPrefersFirstHalf": "playouts are not uniform",
    "PlayoutWithoutMoves": "playouts do not match `moves`",
    "PlayoutAlwaysWon": "playouts have a mean outcome of 1.00",
    "EmptiesCountsPieces": "empty_count is 1; expected 0 to 0",
    "MaxPliesTooSmall": "plies, but max_plies is 5",
    "ScoreNegated": "but the outcome is -1",
    "BoundsOmitFastLosses": "score_bounds are 0 and",
    "IllegalSolverMoves": "; expected distinct moves out of",
    "DefenceOmitted": "the best solver move has the value",
    "DrawScoredAsLoss": "the outcome is -1, but the twin's is 0",
    "AbsoluteWinner": "the outcome is 1, but the twin's is -1",
    "AbsoluteColours": "have different pieces in the cells [[2, 1]]",
}


NAMES = ["othello:8x8", "connect_four:8x8", "gobang:3x4:3", "hex:4x4"]


@cache
def _plain_python() -> tuple[list[Any], dict[str, str], str]:
    """Return the fingerprints of `NAMES`, the errors of broken games, and printed warnings."""
    process = subprocess.run(
        [sys.executable, "-m", "games.broken_games", *NAMES],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    fingerprints, errors = json.loads(process.stdout)
    return fingerprints, errors, process.stderr


@pytest.mark.parametrize("name", BROKEN)
def test_broken_game_is_caught(name: str) -> None:
    error = _plain_python()[1][name]
    assert error.startswith(f"{name}(rows=3")
    assert BROKEN[name] in error


def test_every_broken_game_has_expected_error() -> None:
    assert set(BROKEN) == set(_plain_python()[1])


def test_check_game_accepts_names_and_twins() -> None:
    check_game("gobang:3x3:3", partial(NaiveGobang, 3, 3, 3))


def test_check_game_compares_with_the_twin() -> None:
    with pytest.raises(AssertionError, match="but the twin's are"):
        check_game("gobang:4x4", partial(NaiveConnectFour, 4, 4, 4))


def test_check_game_explains_an_unknown_name() -> None:
    with pytest.raises(UserError, match='did you mean "gobang"'):
        check_game("goban:3x3:3")


def test_plain_python_agrees_with_compiled_code() -> None:
    fingerprints, _, warnings = _plain_python()
    for name, plain in zip(NAMES, fingerprints, strict=True):
        assert plain == fingerprint(name), name
    assert warnings == "", "plain Python prints warnings"
