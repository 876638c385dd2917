"""Hex, the example of a plug-in game: conformance, agreement with OpenSpiel, and its guide."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from games.spiel import spiel_start
from zerolab import Position
from zerolab.rules.catalogue import parse_game
from zerolab.testing import CHECKS, check_against_twin

EXAMPLE = Path(__file__).parents[2] / "examples" / "hex.py"


def test_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 120


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["hex:3x3", "hex:6x5", "hex:8x8"])
def test_law(name: str, check: Callable[[Any], None]) -> None:
    check(parse_game(name))


@pytest.mark.parametrize("rows", range(3, 9))
@pytest.mark.parametrize("columns", range(3, 9))
def test_agrees_with_open_spiel(rows: int, columns: int) -> None:
    spiel_twin = spiel_start(f"hex(num_rows={rows},num_cols={columns})")
    check_against_twin(parse_game(f"hex:{rows}x{columns}"), spiel_twin, 1000)


def test_first_player_connects_top_and_bottom() -> None:
    position = Position.start("hex:3x3")
    for move in ["b1", "a1", "b2", "a2", "a3"]:
        assert position.outcome is None
        position = position.play(move)
    assert position.first_player_outcome == 1


def test_second_player_connects_left_and_right() -> None:
    position = Position.start("hex:3x3")
    for move in ["a1", "c1", "c3", "b2", "b3", "a2"]:
        assert position.outcome is None
        position = position.play(move)
    assert position.first_player_outcome == -1


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-game.md").read_text()
SOURCES = [
    (ROOT / path).read_text()
    for path in ("examples/hex.py", "examples/pyproject.toml", "tests/games/test_hex.py")
]
QUOTES = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("quote", [quote for quote in QUOTES if "check_game" not in quote])
def test_quoted_code_is_exact(quote: str) -> None:
    assert any(quote in source for source in SOURCES)


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\(\.\./([^)]+)\)", PAGE)
    assert len(links) > 3
    assert all((ROOT / link).is_file() for link in links)
