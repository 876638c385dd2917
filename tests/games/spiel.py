"""OpenSpiel states as twins of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspiel


class SpielTwin:
    """Wrapper of an OpenSpiel state, without a board because OpenSpiel's format differs."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def legal_actions(self) -> list[int]:
        return list(self.state.legal_actions())

    def play(self, action: int) -> SpielTwin:
        return SpielTwin(self.state.child(action))

    def result(self) -> int | None:
        return int(self.state.returns()[0]) if self.state.is_terminal() else None

    def board(self) -> None:
        return None


def spiel_start(name: str) -> Callable[[], SpielTwin]:
    """Return a function that creates the initial state of an OpenSpiel game."""
    return lambda: SpielTwin(pyspiel.load_game(name).new_initial_state())
