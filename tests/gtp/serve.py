"""Our engine as a process that starts fast: `zerolab gtp` without the networks."""

from __future__ import annotations

import sys

from zerolab.arena.players import RandomPlayer, mcts_player
from zerolab.gtp.engine import Engine
from zerolab.rules.catalogue import parse_game


def make_player(game):
    kind, _, playouts = sys.argv[1].partition(":")
    return RandomPlayer(game) if kind == "random" else mcts_player(game, int(playouts))


if __name__ == "__main__":
    Engine(parse_game(sys.argv[2]), make_player).serve(sys.stdin.buffer, sys.stdout.buffer)
