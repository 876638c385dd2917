"""Parsing and registration of games, with error messages and plug-ins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
from pydantic import Field

from zerolab.core.errors import UserError
from zerolab.games.connect_four import ConnectFour
from zerolab.games.gobang import Gobang
from zerolab.games.othello import Othello
from zerolab.rules.catalogue import game_name, parse_game, register_game, registered_games
from zerolab.rules.cells import CellEncoding, CellRules
from zerolab.rules.encoding import Encoding


class CellWithoutEnd(CellRules):
    """Rules with all required functions."""

    @staticmethod
    def apply(game, state, action, out):
        raise NotImplementedError

    @staticmethod
    def outcome(game, state):
        raise NotImplementedError


HEX = Path(__file__).parents[2] / "examples" / "hex.py"


@pytest.mark.parametrize(
    ("text", "game", "name"),
    [
        ("othello:6x6", Othello(6, 6), "othello:6x6"),
        ("connect_four:6x7", ConnectFour(6, 7, 4), "connect_four:6x7"),
        ("connect_four:6x7:4", ConnectFour(6, 7, 4), "connect_four:6x7"),
        (" gobang:3x3:3 ", Gobang(3, 3, 3), "gobang:3x3:3"),
        ("gobang:3x8", Gobang(3, 8, 4), "gobang:3x8"),
    ],
)
def test_names_are_parsed_and_normalised(text: str, game: object, name: str) -> None:
    parsed = parse_game(text)
    assert parsed == game
    assert type(parsed) is type(game)
    assert game_name(parsed) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("otello:6x6", 'unknown game "otello": .*did you mean "othello"'),
        ("chess:8x8", 'unknown game "chess": expected one of .*othello'),
        ("", 'unknown game ""'),
        ("6x6", 'unknown game "6x6"'),
        ("othello:", '"othello:" is not a game: expected othello:ROWSxCOLUMNS'),
        ("othello:6", '"othello:6" is not a game'),
        ("othello:6x", '"othello:6x" is not a game'),
        ("othello:-6x6", '"othello:-6x6" is not a game'),
        ("othello:6x6x6", "is not a game"),
        ("othello:6x6:4", '"othello:6x6:4" is not a game: expected othello:ROWSxCOLUMNS, such'),
        ("gobang:6x6:4:4", r"expected gobang:ROWSxCOLUMNS\[:LENGTH\]"),
        ("gobang:6x6:four", "is not a game"),
        ("gobang:6x6:", "is not a game"),
        ("othello:3x6", "othello:3x6: rows = 3: expected at least 4"),
        ("othello:6x9", "othello:6x9: columns = 9: expected at most 8"),
        ("gobang:6x6:2", "gobang:6x6:2: length = 2: expected at least 3"),
        ("gobang:3x3", "gobang:3x3: 4 in a row do not fit on a 3x3 board; expected at most 3"),
        ("connect_four:4x5:6", "6 in a row do not fit on a 4x5 board; expected at most 5"),
    ],
)
def test_wrong_names_are_explained(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_game(text)


def test_every_mistake_has_its_own_line() -> None:
    with pytest.raises(UserError) as caught:
        parse_game("othello:3x99")
    assert str(caught.value).splitlines() == [
        "othello:3x99: rows = 3: expected at least 4",
        "othello:3x99: columns = 99: expected at most 8",
    ]


def test_sizes_come_from_annotations() -> None:
    sizes = registered_games()["gobang"].field_bounds()
    assert sizes == {"rows": (3, 8), "columns": (3, 8), "length": (3, 8)}


def test_unregistered_game_has_no_name() -> None:
    class Chess(NamedTuple):
        rows: int = 8
        columns: int = 8

    with pytest.raises(TypeError, match="Chess is not registered"):
        game_name(Chess())


def test_duplicate_name_is_refused() -> None:
    class Other(NamedTuple):
        rows: Annotated[int, Field(ge=3, le=8)]
        columns: Annotated[int, Field(ge=3, le=8)]

    registered_games()
    with pytest.raises(ValueError, match="'othello' is registered twice"):
        register_game("othello", Other, CellWithoutEnd, CellEncoding)


def test_incomplete_part_is_named_in_error() -> None:
    class Unfinished(NamedTuple):
        rows: Annotated[int, Field(ge=3, le=8)]
        columns: Annotated[int, Field(ge=3, le=8)]

    with pytest.raises(TypeError, match="CellRules lacks apply, outcome"):
        register_game("unfinished", Unfinished, CellRules, CellEncoding)
    with pytest.raises(TypeError, match="Encoding lacks plane_count, encode"):
        register_game("unfinished", Unfinished, CellWithoutEnd, Encoding)
    assert "unfinished" not in registered_games()


def _perft(
    folder: Path, entry_point: str, game: str = "third:3x3"
) -> subprocess.CompletedProcess[str]:
    """Run `zerolab perft GAME 2` with a package that declares the entry point."""
    announcement = folder / "third_party-1.dist-info" / "entry_points.txt"
    announcement.parent.mkdir(exist_ok=True)
    announcement.write_text(f"[zerolab.games]\nthird = {entry_point}\n")
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "zerolab.cli.main", "perft", game, "2", "--json"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "NUMBA_DISABLE_JIT": "1",  # 72 leaves take less time than their compilation
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_plugin_registers_game(tmp_path: Path) -> None:
    source = HEX.read_text().replace('register_game("hex"', 'register_game("third"')
    (tmp_path / "third_party.py").write_text(source)
    process = _perft(tmp_path, "third_party")
    assert process.returncode == 0, process.stderr
    assert '{"depth": 2, "leaves": 72, "ended": 0}' in process.stdout


def test_broken_plugin_disables_only_itself(tmp_path: Path) -> None:
    (tmp_path / "third_party.py").write_text("import no_such_module_anywhere\n")
    process = _perft(tmp_path, "third_party")
    assert process.returncode == 2
    warning, error = process.stderr.splitlines()
    assert warning == (
        'zerolab: the plug-in "third" (third_party) of zerolab.games cannot be loaded: '
        "No module named 'no_such_module_anywhere'; everything else works without it"
    )
    assert error.startswith('zerolab: unknown game "third": expected one of ')
    process = _perft(tmp_path, "third_party", "othello:4x4")
    assert process.returncode == 0
    assert '"depth": 2' in process.stdout
