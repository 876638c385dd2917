"""zerolab: a laboratory for AlphaZero-like self-play on small board games.

The names below are the public interface for notebooks and scripts; `zerolab.api` documents them.
They are imported when they are first used, so that ``import zerolab`` and the command line stay
fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerolab.core.version import __version__ as __version__

if TYPE_CHECKING:
    from zerolab.api import (
        Analysis,
        Match,
        MoveAnalysis,
        Network,
        NotSolvedError,
        Position,
        Positions,
        Ratings,
        Record,
        Run,
        TournamentReport,
        UserError,
        analyse,
        list_games,
        load_network,
        open_run,
        parse_game,
        play_match,
        play_tournament,
        rate,
        read_positions,
        solve,
        train,
    )

__all__ = [
    "Analysis",
    "Match",
    "MoveAnalysis",
    "Network",
    "NotSolvedError",
    "Position",
    "Positions",
    "Ratings",
    "Record",
    "Run",
    "TournamentReport",
    "UserError",
    "analyse",
    "list_games",
    "load_network",
    "open_run",
    "parse_game",
    "play_match",
    "play_tournament",
    "rate",
    "read_positions",
    "solve",
    "train",
]

_LIGHT = {"Position": "zerolab.rules.position", "UserError": "zerolab.core.errors"}
"""Names that do not need the rest of the interface, which imports torch."""

# Threads that wait for each other in torch spin first. On a machine that does other things too,
# the default number of spins makes learning many times slower; it is read when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'zerolab' has no attribute {name!r}")
    return getattr(import_module(_LIGHT.get(name, "zerolab.api")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
