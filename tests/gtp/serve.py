"""The GTP engine as a process: `zerolab gtp` without networks."""

from __future__ import annotations

import os
import sys

from zerolab.agents.baselines import RandomPlayer
from zerolab.agents.network_players import SearchPlayer
from zerolab.gtp.engine import GtpEngine
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import mcts_settings


def make_player(game):
    kind, _, playouts = sys.argv[1].partition(":")
    if kind == "random":
        return RandomPlayer(game)
    uniform = UniformEvaluator(rules.action_count(game))
    return SearchPlayer(game, sys.argv[1], mcts_settings(int(playouts)), uniform)


def serve():
    """Serve the player and game named on the command line."""
    GtpEngine(parse_game(sys.argv[2]), make_player).serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # interpreter shutdown would take longer than serving
