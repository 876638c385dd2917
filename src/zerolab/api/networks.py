"""Trained networks, evaluating positions in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.rules.position import Position
from zerolab.search.interface import Evaluator


class Network:
    """A run's network; `name` is its canonical spec and `game` the game it plays."""

    def __init__(self, name: str, game: Game, evaluator: Evaluator) -> None:
        self.name = name
        self.game = game
        self._evaluator = evaluator

    def evaluate(
        self, positions: Sequence[Position]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of N positions.

        Priors are the network's policy over all actions, illegal ones included. Values lie in
        [-1, 1] and are the outcome that the player to move expects. Raises UserError for a
        position of another game.
        """
        for position in positions:
            if game_name(position.game) != game_name(self.game):
                raise UserError(
                    f"{self.name} plays {game_name(self.game)}: expected its positions,"
                    f" not one of {game_name(position.game)}"
                )
        words = positions[0].state.shape[0] if positions else 0
        states = np.array([position.state for position in positions], np.uint64)
        return self.evaluate_states(states.reshape(len(positions), words))

    def evaluate_states(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Do as `evaluate`, for states uint64[N, words] such as those of `read_positions`."""
        if not len(states):
            return np.empty((0, rules.actions(self.game)), np.float32), np.empty(0, np.float32)
        return self._evaluator.evaluate(states)

    def __repr__(self) -> str:
        return f"<Network {self.name} of {game_name(self.game)}>"


def load_network(spec: str) -> Network:
    """Return the network of ``runs/demo`` (its best one) or ``runs/demo@12``.

    Raises UserError where there is no such run or network, or its file is damaged.
    """
    agent = parse_agent(spec)
    if agent.evaluator is None:
        raise UserError(f'"{spec}" has no network: expected a run, such as runs/demo@12')
    return Network(agent.name, agent.game, agent.evaluator())
