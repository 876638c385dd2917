"""Small tournament for tests to kill, which stores games as often as possible."""

from __future__ import annotations

from pathlib import Path

from zerolab.agents.agent import Agent
from zerolab.agents.baselines import RandomPlayer
from zerolab.agents.specs import parse_agent
from zerolab.play import engine
from zerolab.play import tournament as module
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game

NAME = "connect_four:4x4"
GAME = parse_game(NAME)


def agents():
    random = Agent("random", lambda: RandomPlayer(GAME), game=GAME)
    return [
        random,
        parse_agent("mcts:20", GAME),
        parse_agent("mcts:60", GAME),
        parse_agent("mcts:61", GAME),
    ]


def settings(**changes):
    players = {agent.name: "" for agent in agents()}
    defaults = {"game": NAME, "games": 120, "openings": 2, "seed": 4, "players": players}
    return TournamentSettings(**{**defaults, **changes})


def play(folder):
    """Play with few slots, so that pairs finish one after the other."""
    module._STORE_SECONDS = 0.0
    engine._MAX_SLOTS = engine._MIN_SLOTS
    engine._POLL_SECONDS = 0.005
    with Tournament.open_locked(Path(folder), settings()) as tournament:
        tournament.play(GAME, agents())
        return tournament.games()
