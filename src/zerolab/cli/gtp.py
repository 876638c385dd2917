"""`zerolab gtp`: a player as an engine of the Go Text Protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import tyro

from zerolab.arena.players import Player, RandomPlayer, mcts_player
from zerolab.cli.parse import call
from zerolab.core.errors import UserError
from zerolab.gtp.engine import Engine
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.interface import Game
from zerolab.store.run_folder import RunFolder
from zerolab.training.agents import network_entrant, run_settings


def gtp(player: tyro.conf.Positional[str], *, game: str | None = None, seed: int = 0) -> None:
    """Let a player answer commands of the Go Text Protocol, version 2, on standard input.

    Examples:
      zerolab gtp runs/demo
      zerolab gtp mcts:100 --game othello:8x8

    Args:
        player: Who plays: random, mcts:100, perfect, or a run's folder.
        game: What to play; a run brings its own game.
        seed: Decides equal moves of the player, and Random's.
    """
    if not 0 <= seed < 1 << 63:
        raise UserError(f"seed = {seed}: expected at least 0 and less than 2**63")
    chosen, make_player = _find(player, game)
    if sys.stdin is not None:
        Engine(chosen, make_player, seed).serve(sys.stdin.buffer, sys.stdout.buffer)


def _find(spec: str, game: str | None) -> tuple[Game, Callable[[Game], Player]]:
    kind, _, number = spec.partition(":")
    if kind not in ("random", "mcts"):
        folder = RunFolder.open(Path(spec))
        settings = run_settings(folder)
        own = parse_game(settings.game)
        agent = network_entrant(folder, settings, folder.progress.best).player()

        def same_player(asked: Game) -> Player:
            if asked != own:
                raise UserError(f"{spec} plays {game_name(own)}")
            return agent

        return own, same_player
    if game is None:
        raise UserError(f"{spec} plays every game: expected --game, as in --game othello:6x6")
    if kind == "random":
        return parse_game(game), RandomPlayer
    return parse_game(game), lambda asked: mcts_player(asked, int(number))


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and serve."""
    call(gtp, "gtp", arguments)
