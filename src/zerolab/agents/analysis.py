"""What an agent makes of one position: moves with visits, values and priors, and its best line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zerolab.agents.interface import FORFEIT, Agent, Player
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.agents.policy_player import PolicyPlayer
from zerolab.agents.search_player import SearchPlayer
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position

_SLOT = np.zeros(1, np.int64)


class MoveAnalysis(NamedTuple):
    """One legal move; what its agent does not say is None."""

    action: int
    name: str
    """Such as "c2"."""
    visits: int | None = None
    """Simulations of the search that chose it at the root."""
    value: float | None = None
    """For the player to move: what a search expects, in [-1, 1], or the exact score
    (see `oracles.interface.Oracle`) of perfect play."""
    prior: float | None = None
    """The probability that the network's policy gives it."""


class Analysis(NamedTuple):
    """An agent's view of an ongoing position."""

    agent: str
    """Its canonical name."""
    position: Position
    best: MoveAnalysis
    """The move it plays."""
    moves: list[MoveAnalysis]
    """All legal moves, the best first: by visits, exact values or priors."""
    value: float | None
    """Of the position, for the player to move, on the scale of the moves' values."""
    principal_variation: tuple[str, ...]
    """The line that it expects, its own move first; empty where the agent does not plan ahead."""


def analyse(agent: Agent, position: Position, seed: int = 0) -> Analysis:
    """Let an agent look at a position, after the moves that led there.

    The random streams depend on (seed, ply) alone. Raises UserError for a finished game, for a
    position of another game, and where the agent gives up.
    """
    if game_name(agent.game) != game_name(position.game):
        raise UserError(
            f"{agent.name} plays {game_name(agent.game)}: expected a position of it,"
            f" not of {game_name(position.game)}"
        )
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")
    player = agent.new_player()
    player.start(1)
    for action in position.history:
        player.advance(_SLOT, np.array([action]))
    keys = np.array([streams.stream(seed, 0, 0, position.ply, streams.ARENA_MOVE)], np.uint64)
    chosen = int(player.choose(_SLOT, position.state[None], keys)[0])
    if chosen == FORFEIT:
        raise UserError(f"{agent.name} gave up")
    return describe(agent.name, player, position, chosen)


def describe(name: str, player: Player, position: Position, chosen: int) -> Analysis:
    """Return what a player that has just chosen a move in slot 0 knows about the position."""
    moves, value, line = _known_to(player, position)
    if not moves:
        moves = [MoveAnalysis(action, position.name(action)) for action in position.legal_actions]
        moves.sort(key=lambda move: move.action != chosen)
    best = next(move for move in moves if move.action == chosen)
    return Analysis(name, position, best, moves, value, line)


def _known_to(
    player: Player, position: Position
) -> tuple[list[MoveAnalysis], float | None, tuple[str, ...]]:
    """Return moves from best to worst, the position's value and the principal variation."""
    if isinstance(player, SearchPlayer):
        return _search(player, position)
    if isinstance(player, PerfectPlayer):
        exact = player.oracle.action_values(position.state[None])[0]
        moves = [
            MoveAnalysis(action, position.name(action), value=int(exact[action]))
            for action in sorted(position.legal_actions, key=lambda action: -exact[action])
        ]
        return moves, moves[0].value, ()
    if isinstance(player, PolicyPlayer):
        priors, values = player.evaluator.evaluate(position.state[None])
        moves = [
            MoveAnalysis(action, position.name(action), prior=float(priors[0, action]))
            for action in sorted(position.legal_actions, key=lambda action: -priors[0, action])
        ]
        return moves, float(values[0]), ()
    return [], None, ()


def _search(
    player: SearchPlayer, position: Position
) -> tuple[list[MoveAnalysis], float | None, tuple[str, ...]]:
    found = player.search.result(0)

    def about(action: int) -> MoveAnalysis:
        visits, value, prior = found.visits[action], found.values[action], found.priors[action]
        return MoveAnalysis(action, position.name(action), int(visits), float(value), float(prior))

    ranked = sorted(position.legal_actions, key=lambda action: -found.visits[action])
    line, at = [], position
    for action in found.principal_variation:
        line.append(at.name(action))
        at = at.play(action)
    return [about(action) for action in ranked], float(found.value), tuple(line)
