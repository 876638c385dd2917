"""The oracle for a game."""

from __future__ import annotations

from zerolab.core.errors import UserError
from zerolab.oracles.interface import Oracle
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game


def oracle_for(game: Game) -> Oracle:
    """Return the best oracle there is for a game; raise UserError where an extra is missing."""
    raise UserError(f"{game_name(game)} has no oracle yet")
