"""zerolab: a laboratory for AlphaZero-like self-play on small board games.

The names below are the public interface for notebooks and scripts (docs/api.md). Agents and games
are specified as on the command line (``"mcts:100"``, ``"runs/demo@12"``; ``"othello:6x6"``).
Invalid arguments raise `UserError` with a message that states what was expected. A module is
imported only when one of its names is first used, which keeps ``import zerolab`` and the command
line fast.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zerolab.core import __version__ as __version__

# The redundant aliases mark the names as re-exports.
# isort: off
if TYPE_CHECKING:
    from zerolab.api.positions import (
        Analysis as Analysis,
        LoadedAgent as LoadedAgent,
        MoveAnalysis as MoveAnalysis,
        analyse as analyse,
        load_agent as load_agent,
    )
    from zerolab.api.games import (
        Match as Match,
        Ratings as Ratings,
        TestedMatch as TestedMatch,
        TournamentReport as TournamentReport,
        play_match as play_match,
        play_sprt as play_sprt,
        play_tournament as play_tournament,
        rate as rate,
    )
    from zerolab.api.games import (
        RecordedGame as RecordedGame,
        format_pgn as format_pgn,
        parse_pgn as parse_pgn,
        read_pgn as read_pgn,
        write_pgn as write_pgn,
    )
    from zerolab.api.positions import (
        Network as Network,
        encode_batch as encode_batch,
        list_games as list_games,
        load_network as load_network,
        read_positions as read_positions,
        solve as solve,
    )
    from zerolab.api.runs import (
        CumulativeCost as CumulativeCost,
        Record as Record,
        ReferenceMoveTimes as ReferenceMoveTimes,
        Run as Run,
        cost_to_reach as cost_to_reach,
        export_network as export_network,
        open_run as open_run,
        read_cost_reference as read_cost_reference,
        run_costs as run_costs,
        train as train,
    )
    from zerolab.api.runs import (
        StudyReport as StudyReport,
        study_report as study_report,
    )
    from zerolab.core.errors import (
        MissingExtraError as MissingExtraError,
        UserError as UserError,
    )
    from zerolab.evaluation.positions import SolvedPositions as SolvedPositions
    from zerolab.oracles.oracle import NotSolvedError as NotSolvedError
    from zerolab.rules.catalogue import parse_game as parse_game
    from zerolab.rules.position import Position as Position
    from zerolab.rules.rules import ONGOING as ONGOING
    from zerolab.search.search import Search as Search
    from zerolab.search.search_settings import SearchSettings as SearchSettings
# isort: on

_NAMES_BY_MODULE = {
    "zerolab.api.games": (
        "Match", "Ratings", "RecordedGame", "TestedMatch", "TournamentReport", "format_pgn",
        "parse_pgn", "play_match", "play_sprt", "play_tournament", "rate", "read_pgn", "write_pgn",
    ),
    "zerolab.api.positions": (
        "Analysis", "LoadedAgent", "MoveAnalysis", "Network", "analyse", "encode_batch",
        "list_games", "load_agent", "load_network", "read_positions", "solve",
    ),
    "zerolab.api.runs": (
        "CumulativeCost", "Record", "ReferenceMoveTimes", "Run", "StudyReport", "cost_to_reach",
        "export_network", "open_run", "read_cost_reference", "run_costs", "study_report", "train",
    ),
    "zerolab.core.errors": ("MissingExtraError", "UserError"),
    "zerolab.evaluation.positions": ("SolvedPositions",),
    "zerolab.oracles.oracle": ("NotSolvedError",),
    "zerolab.rules.catalogue": ("parse_game",),
    "zerolab.rules.position": ("Position",),
    "zerolab.rules.rules": ("ONGOING",),
    "zerolab.search.search": ("Search",),
    "zerolab.search.search_settings": ("SearchSettings",),
}  # fmt: skip
_MODULES = dict(
    sorted((name, module) for module, names in _NAMES_BY_MODULE.items() for name in names)
)
__all__ = list(_MODULES)

# Waiting torch threads spin before they sleep. On a machine with other load, the default spin count
# makes training many times slower. The variable must be set before torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def __getattr__(name: str) -> Any:
    """Import a public name on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module 'zerolab' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
