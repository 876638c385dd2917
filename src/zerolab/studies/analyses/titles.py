"""What games are called in tables and figures."""

from __future__ import annotations

from collections.abc import Mapping

GAME_TITLES: Mapping[str, str] = {
    "othello": "Othello", "connect_four": "Connect Four", "gobang": "Gobang"
}  # fmt: skip
"""By the names of the games in specs."""
