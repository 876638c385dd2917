"""The page on adding a game quotes the files of the example exactly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add-a-game.md").read_text()
SOURCES = [
    (ROOT / path).read_text()
    for path in ("examples/hex.py", "examples/pyproject.toml", "tests/games/test_hex.py")
]
QUOTES = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("quote", [quote for quote in QUOTES if "check_game" not in quote])
def test_quotes_are_exact(quote: str) -> None:
    assert any(quote in source for source in SOURCES)


def test_linked_files_exist() -> None:
    links = re.findall(r"\]\(\.\./([^)]+)\)", PAGE)
    assert len(links) > 3
    assert all((ROOT / link).is_file() for link in links)
