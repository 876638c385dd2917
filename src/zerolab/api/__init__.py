"""What ``import zerolab`` offers: the parts of the laboratory for notebooks and scripts.

Agents are named as on the command line (``"mcts:100"``, ``"runs/demo@12"``), games too
(``"othello:6x6"``). Wrong arguments raise `UserError`, whose text is one clear line.
"""

from __future__ import annotations

from zerolab.api.analysis import Analysis, MoveAnalysis, analyse, solve
from zerolab.api.games import list_games, read_positions
from zerolab.api.matches import (
    Match,
    Ratings,
    TournamentReport,
    play_match,
    play_tournament,
    rate,
)
from zerolab.api.networks import Network, load_network
from zerolab.api.runs import Record, Run, open_run, train
from zerolab.core.errors import UserError
from zerolab.evaluation.positions import Positions
from zerolab.oracles.interface import NotSolvedError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position

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
