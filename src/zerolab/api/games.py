"""The registered games, and solved positions of them as arrays."""

from __future__ import annotations

from pathlib import Path

from zerolab.api.arguments import require_path
from zerolab.evaluation.positions import Positions
from zerolab.evaluation.positions import read_positions as read_positions_and_metadata
from zerolab.rules.catalogue import parse_game, registered_games


def list_games() -> list[str]:
    """Return the names of all games, those of installed plug-ins included."""
    return sorted(registered_games())


def read_positions(path: Path | str, game: str | None = None) -> Positions:
    """Return the solved positions in a file that `zerolab dataset` has written.

    They are arrays: states uint64[n, words], exact values int32[n, actions] of all moves, and the
    moves that led to each. Every position is replayed and checked. Raises UserError for a file that
    is missing, damaged, newer, or of another game than `game`.
    """
    require_path("path", path)
    chosen = None if game is None else parse_game(game)
    positions, _ = read_positions_and_metadata(Path(path), chosen)
    return positions
