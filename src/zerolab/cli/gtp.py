"""`zerolab gtp`: an agent as an engine of the Go Text Protocol."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from zerolab.agents.interface import Player
from zerolab.agents.specs import parse_agent
from zerolab.cli.parse import AgentSpec, call
from zerolab.core.errors import UserError
from zerolab.gtp.engine import Engine
from zerolab.rules.catalogue import parse_game
from zerolab.rules.interface import Game


def gtp(player: AgentSpec, *, game: str | None = None, seed: int = 0) -> None:
    """Let an agent answer commands of the Go Text Protocol, version 2, on standard input.

    Examples:
      zerolab gtp runs/demo
      zerolab gtp mcts:100 --game othello:8x8

    Args:
        player: A run such as runs/demo?simulations=400, or one of {agents}.
        game: What to play at first; a run brings its own game.
        seed: Decides equal moves of the agent, and Random's.
    """
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")
    first = parse_agent(player, parse_game(game) if game else None)

    def make_player(asked: Game) -> Player:
        return (first if asked == first.game else parse_agent(player, asked)).new_player()

    engine = Engine(first.game, make_player, seed)
    if sys.stdin is not None:
        engine.serve(sys.stdin.buffer, sys.stdout.buffer)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and serve."""
    call(gtp, "gtp", arguments)
