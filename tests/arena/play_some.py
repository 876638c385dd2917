"""A small tournament that stores its games as often as it can; to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from zerolab.arena import tournament as module
from zerolab.arena import workers
from zerolab.arena.players import Entrant, RandomPlayer, mcts_entrant
from zerolab.arena.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import parse_game

NAME = "connect_four:4x4"
GAME = parse_game(NAME)


def entrants():
    random = Entrant("random", lambda: RandomPlayer(GAME))
    return [random, mcts_entrant(GAME, 20), mcts_entrant(GAME, 60), mcts_entrant(GAME, 61)]


def settings(**changes):
    players = {entrant.name: "" for entrant in entrants()}
    chosen = {"game": NAME, "games": 300, "openings": 2, "seed": 4, "players": players}
    return TournamentSettings(**{**chosen, **changes})


def play(folder):
    """Play with few lanes, so that pairs finish one after the other."""
    module._STORE_SECONDS = 0.0
    workers._MOST_LANES = workers._LEAST_LANES
    workers._POLL_SECONDS = 0.005
    with Tournament.locked(folder, settings()) as tournament:
        tournament.play(GAME, entrants())
        return tournament.games()


if __name__ == "__main__":
    play(Path(sys.argv[1]))
