"""zerolab: a laboratory for AlphaZero-like self-play on small board games.

The names below are the public interface for notebooks and scripts (docs/api.md). Agents are named
as on the command line (``"mcts:100"``, ``"runs/demo@12"``), games too (``"othello:6x6"``). Wrong
arguments raise `UserError`, whose text is one clear line. Modules are imported when one of their
names is first used, so that ``import zerolab`` and the command line stay fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerolab.core import __version__ as __version__

if TYPE_CHECKING:
    from zerolab.api.matches import (
        Match,
        Ratings,
        TournamentReport,
        play_match,
        play_tournament,
        rate,
    )
    from zerolab.api.positions import (
        Analysis,
        MoveAnalysis,
        Network,
        analyse,
        list_games,
        load_network,
        read_positions,
        solve,
    )
    from zerolab.api.runs import (
        CostReference,
        IterationCost,
        Record,
        Run,
        cost_to_reach,
        export_network,
        open_run,
        read_reference,
        run_costs,
        train,
    )
    from zerolab.core.errors import UserError
    from zerolab.evaluation.positions import Positions
    from zerolab.oracles.oracle import NotSolvedError
    from zerolab.rules.catalogue import parse_game
    from zerolab.rules.position import Position
    from zerolab.search.search import Search
    from zerolab.search.search_settings import SearchSettings

__all__ = [
    "Analysis",
    "CostReference",
    "IterationCost",
    "Match",
    "MoveAnalysis",
    "Network",
    "NotSolvedError",
    "Position",
    "Positions",
    "Ratings",
    "Record",
    "Run",
    "Search",
    "SearchSettings",
    "TournamentReport",
    "UserError",
    "analyse",
    "cost_to_reach",
    "export_network",
    "list_games",
    "load_network",
    "open_run",
    "parse_game",
    "play_match",
    "play_tournament",
    "rate",
    "read_positions",
    "read_reference",
    "run_costs",
    "solve",
    "train",
]

_NAMES = {
    "zerolab.api.matches": (
        "Match", "Ratings", "TournamentReport", "play_match", "play_tournament", "rate",
    ),
    "zerolab.api.positions": (
        "Analysis", "MoveAnalysis", "Network", "analyse", "list_games", "load_network",
        "read_positions", "solve",
    ),
    "zerolab.api.runs": (
        "CostReference", "IterationCost", "Record", "Run", "cost_to_reach", "export_network",
        "open_run", "read_reference", "run_costs", "train",
    ),
    "zerolab.core.errors": ("UserError",),
    "zerolab.evaluation.positions": ("Positions",),
    "zerolab.oracles.oracle": ("NotSolvedError",),
    "zerolab.rules.catalogue": ("parse_game",),
    "zerolab.rules.position": ("Position",),
    "zerolab.search.search": ("Search",),
    "zerolab.search.search_settings": ("SearchSettings",),
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

# Threads that wait for each other in torch spin first. On a machine that does other things too,
# the default number of spins makes learning many times slower; it is read when torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'zerolab' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
