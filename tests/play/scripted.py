"""Players with predictable moves, and agents that create given players."""

from __future__ import annotations

import numpy as np

from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.rules.position import Position


class Scripted:
    """A player that plays what `pick` chooses and checks that all moves are reported to it."""

    def __init__(self, game, name, pick):
        self.name = name
        self.game = game
        self.pick = pick
        self.reported = []

    def start(self, games):
        self.positions = [Position.start(self.game)] * games

    def reset(self, slots):
        for slot in slots:
            self.positions[slot] = Position.start(self.game)

    def choose(self, slots, states, keys):
        for slot, state in zip(slots, states, strict=True):
            assert (self.positions[slot].state == state).all()
        return np.array([self.pick(self.positions[slot]) for slot in slots], np.int64)

    def advance(self, slots, actions):
        for slot, action in zip(slots, actions, strict=True):
            self.positions[slot] = self.positions[slot].play(int(action))
            self.reported.append(int(action))


def lowest(position):
    return position.legal_actions[0]


def highest(position):
    return position.legal_actions[-1]


def quitter(ply):
    """Return a `pick` function that plays the lowest action and forfeits from ply `ply` on."""
    return lambda position: FORFEIT_ACTION if position.ply >= ply else lowest(position)


def agent_of(player, game=None, **fields):
    """Return an agent that always returns `player`, so it can play in only one thread."""
    return Agent(player.name, lambda: player, game=game, **fields)


def scripted(game, name, pick):
    """Return an agent of scripted players."""
    return Agent(name, lambda: Scripted(game, name, pick), game=game)
