"""Trained networks, evaluating positions in batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.specs import own_game, parse_agent
from zerolab.api.arguments import require_position
from zerolab.core.errors import UserError, quoted, require
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.rules.position import Position
from zerolab.search.interface import Evaluator


class Network:
    """A network of a run or of an agent's file.

    `name` is its canonical spec and `game` the game it plays.
    """

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
        require("positions", positions, Sequence, "a list of positions")
        for position in positions:
            require_position(position)
            if game_name(position.game) != game_name(self.game):
                raise UserError(
                    f"{self.name} plays {game_name(self.game)}: expected its positions,"
                    f" not one of {game_name(position.game)}"
                )
        states = np.array([position.state for position in positions], np.uint64)
        return self.evaluate_states(states.reshape(len(positions), rules.words(self.game)))

    def evaluate_states(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Do as `evaluate`, for states uint64[N, words] such as those of `read_positions`.

        Raises UserError for anything but such an array.
        """
        words = rules.words(self.game)
        is_array = isinstance(states, np.ndarray)
        if not is_array or states.dtype != np.uint64 or states.shape[1:] != (words,):
            found = f"{states.dtype}{list(states.shape)}" if is_array else quoted(states)
            raise UserError(f"states = {found}: expected an array uint64[N, {words}]")
        if not len(states):
            return np.empty((0, rules.actions(self.game)), np.float32), np.empty(0, np.float32)
        return self._evaluator.evaluate(states)

    def __repr__(self) -> str:
        return f"<Network {self.name} of {game_name(self.game)}>"


def load_network(spec: str) -> Network:
    """Return the network of ``runs/demo`` (its best one), ``runs/demo@12`` or ``agent.zerolab``.

    Raises UserError where there is no such run, network or file, or it is damaged.
    """
    missing = UserError(f"{quoted(spec)} has no network: expected a run, such as runs/demo@12")
    if not isinstance(spec, str) or own_game(spec) is None:
        raise missing
    agent = parse_agent(spec)
    if agent.evaluator is None:
        raise missing
    return Network(agent.name, agent.game, agent.evaluator())
