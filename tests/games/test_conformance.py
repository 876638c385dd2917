"""The conformance kit: games of the package pass it, and broken ones do not."""

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

from games import fingerprint
from games.naive import NaiveConnectFour, NaiveGobang
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name, registered_games
from zerolab.testing import CHECKS, check_game


def _games() -> list[Any]:
    """Return each game at its smallest and largest size, tall and wide, and off centre."""
    games = []
    for entry in registered_games().values():
        if not entry.rules.__module__.startswith("zerolab."):
            continue
        (low, high), (_, widest), *others = entry.sizes().values()
        for rows, columns in [(low, low), (high, widest), (5, 5), (low, widest), (high, 5)]:
            tail = [min(4, rows, columns)] * len(others)
            games.append(entry.kind(rows, columns, *tail))
    return games


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("game", _games(), ids=game_name)
def test_law(game: Any, check: Callable[[Any], None]) -> None:
    check(game)


BROKEN = {
    "StartLeavesAWord": "start does not write every word",
    "ZeroMeansNotEnded": "the first position has outcome 0, not ONGOING",
    "UnknownOutcome": "the outcome 3 is none of",
    "LegalLeavesEntries": "legal does not write every entry",
    "NobodyCanMove": "the game is ongoing, but no action is legal",
    "ApplyOverwritesItsInput": "read before you write",
    "NeverEnds": "no end after 1000 random actions",
    "EncodeAdds": "encode leaves entries unwritten",
    "EmptyPlanes": "the last action changed no plane",
    "SameName": 'more than one action is named "a"',
    "BoardOfTheFirstPlayer": "board does not show the pieces of plane 0",
    "DrawingWithoutLastColumn": "the drawing does not show every cell",
    "NameReadWrongly": '"b1" names action 1, but is read as 2',
    "QuarterTurnOfARectangle": "is no permutation",
    "NotAGroup": "symmetry 1, then 2, is no symmetry of the game",
    "PolicyNotMirrored": "action 0, then symmetry 1, is not the same in reverse order",
    "PlanesNotMirrored": "are not those permuted by transform_cell",
    "CellsTakenForColumns": "does not move actions as it moves the columns",
    "NameWithoutAPlane": "2 names of 1 planes",
    "TransformForgetsAPlayer": "does not undo symmetry",
    "IllegalRandomAction": "which are not legal",
    "LopsidedRandomAction": "random_action is not uniform",
    "PlayoutForgetsWhoseResult": "playouts are not what `moves` shows",
    "PlayoutPrefersTheFirstHalf": "playouts are not uniform",
    "PlayoutListsNoMoves": "playouts are not what `moves` shows",
    "PlayoutAlwaysWon": "the mean of playouts is 1.00",
    "EmptiesCountsPieces": "empties is 1, and was 0 before",
    "ShorterThanItsGames": "plies, but max_plies is 5",
    "ScoreSeenByTheWinner": "but the outcome -1",
    "BoundsForgetFastLosses": "score_bounds are 0 and",
    "SolverMovesNotLegal": "; expected some of",
    "DefenceForgotten": "the best solver move is worth",
    "TieScoredAsALoss": "the outcome is -1, the twin's 0",
    "WinnerSeenAbsolutely": "the outcome is 1, the twin's -1",
    "ColoursShownAbsolutely": "show different pieces in the cells [[2, 1]]",
}


@cache
def _complaints() -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "games.broken_games"],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BROKEN)
def test_broken_game_is_caught(name: str) -> None:
    complaint = _complaints()[name]
    assert complaint.startswith(f"{name}(rows=3")
    assert BROKEN[name] in complaint


def test_every_broken_game_has_its_complaint() -> None:
    assert set(BROKEN) == set(_complaints())


def test_check_game_takes_names_and_twins() -> None:
    check_game("gobang:3x3:3", partial(NaiveGobang, 3, 3, 3))


def test_check_game_compares_with_the_twin() -> None:
    with pytest.raises(AssertionError, match="for the twin"):
        check_game("gobang:4x4", partial(NaiveConnectFour, 4, 4, 4))


def test_check_game_explains_an_unknown_name() -> None:
    with pytest.raises(UserError, match='did you mean "gobang"'):
        check_game("goban:3x3:3")


NAMES = ["othello:5x6", "othello:8x8", "connect_four:8x8", "gobang:3x4:3", "gobang:8x8", "hex:4x4"]


def test_plain_python_agrees_with_compiled_code() -> None:
    done = subprocess.run(
        [sys.executable, fingerprint.__file__, *NAMES],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name, plain in zip(NAMES, json.loads(done.stdout), strict=True):
        assert plain == fingerprint.fingerprint(name), name
    assert done.stderr == "", "plain Python warns"
