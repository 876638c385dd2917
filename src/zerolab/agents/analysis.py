"""Analysis of one position by an agent: moves with visits, values and priors, and its best line."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT, Agent, PlacedPlayer, Player, ProgramPlayer
from zerolab.agents.kinds.baselines import PerfectPlayer
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer, for_one_game
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.result import SearchResult

_SLOT = np.zeros(1, np.int64)


class MoveAnalysis(NamedTuple):
    """One legal move; numbers that its agent does not provide are None."""

    action: int
    name: str
    """As in "c2"."""
    visits: int | None = None
    """Simulations that chose it at the root."""
    value: float | None = None
    """For the player to move: the expected result of a search, in [-1, 1], or the exact score of
    perfect play (see `oracles.oracle.Oracle`)."""
    prior: float | None = None
    """Its probability in the network's policy."""


class Analysis(NamedTuple):
    """An agent's view of an ongoing position."""

    agent: str
    """The agent's canonical name."""
    position: Position
    best: MoveAnalysis
    """The move that the agent plays."""
    moves: list[MoveAnalysis]
    """All legal moves, the best first: by visits, exact values or priors."""
    value: float | None
    """Value of the position for the player to move, on the scale of the moves' values."""
    principal_variation: tuple[str, ...]
    """The line that the agent expects, its own move first; empty if it does not look ahead."""


def analyse(agent: Agent, position: Position, seed: int = 0) -> Analysis:
    """Return an agent's analysis of a position, reached by the moves that led there.

    Random streams depend on (seed, ply) alone. Raises UserError for a finished game, for a
    position of another game, and where the agent gives up.
    """
    if game_name(agent.game) != game_name(position.game):
        raise UserError(
            f"{agent.name} plays {game_name(agent.game)}: expected a position of it,"
            f" not of {game_name(position.game)}"
        )
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")
    player = for_one_game(agent.new_player())
    try:
        replay_moves(player, position)
        return analyse_as_player(player, position, move_keys(position, seed))
    finally:
        if isinstance(player, ProgramPlayer):
            player.close()


def move_keys(position: Position, seed: int) -> NDArray[np.uint64]:
    """Return the random stream of a move, uint64[1], which depends on (seed, ply) alone."""
    return np.array([streams.stream(seed, 0, 0, position.ply, streams.ARENA_MOVE)], np.uint64)


def replay_moves(player: Player, position: Position) -> None:
    """Replay in a player's slot 0 the game that led to a position.

    Raises UserError where the game began at a position that the player cannot begin at.
    """
    player.start(1)
    if position.origin is not None:
        if not isinstance(player, PlacedPlayer):
            raise UserError(
                f"{player.name} cannot begin at a position that is set up: expected moves"
            )
        player.place(_SLOT, position.origin.state[None])
    for action in position.history:
        player.advance(_SLOT, np.array([action]))


def analyse_as_player(player: Player, position: Position, keys: NDArray[np.uint64]) -> Analysis:
    """Return a player's analysis of an ongoing position.

    Its slot 0 must hold the game that led there (see `replay_moves`). `keys` is the random stream,
    uint64[1]. Raises UserError where the player gives up.
    """
    chosen, moves, value, line = _look(player, position, keys)
    if chosen == FORFEIT:
        raise UserError(f"{player.name} gave up")
    best = next(move for move in moves if move.action == chosen)
    return Analysis(player.name, position, best, moves, value, line)


def analyse_unfinished(player: SearchPlayer, position: Position) -> Analysis:
    """Return the analysis of a position by a search still running in the player's slot 0.

    Its move is the first one of its line, or before the first simulation that of highest prior.
    """
    found = player.search.result(0)
    chosen = found.best_action if found.principal_variation else int(found.priors.argmax())
    _, moves, value, line = _searched(chosen, found, position)
    best = next((move for move in moves if move.action == chosen), moves[0])
    return Analysis(player.name, position, best, moves, value, line)


class _View(NamedTuple):
    """Fields of an analysis that depend on the kind of player."""

    chosen: int
    moves: list[MoveAnalysis]
    value: float | None = None
    line: tuple[str, ...] = ()


def _look(player: Player, position: Position, keys: NDArray[np.uint64]) -> _View:
    states = position.state[None]
    if isinstance(player, PerfectPlayer):
        exact = player.oracle.action_values(states)
        moves = [_move(position, a, value=int(exact[0, a])) for a in _ranked(position, exact[0])]
        return _View(int(player.choose_by(exact, keys)[0]), moves, moves[0].value)
    if isinstance(player, PolicyPlayer):
        priors, values = player.evaluator.evaluate(states)
        chosen = int(player.choose_by(priors, _SLOT, states, keys)[0])
        moves = [
            _move(position, a, prior=float(priors[0, a])) for a in _ranked(position, priors[0])
        ]
        return _View(chosen, moves, float(values[0]))
    chosen = int(player.choose(_SLOT, states, keys)[0])
    if isinstance(player, SearchPlayer):
        return _searched(chosen, player.search.result(0), position)
    legal = sorted(position.legal_actions, key=lambda action: action != chosen)
    return _View(chosen, [_move(position, action) for action in legal])


def _searched(chosen: int, found: SearchResult, position: Position) -> _View:
    moves = []
    for action in _ranked(position, found.visits):
        known = {
            "visits": found.visits[action].item(),
            "value": found.values[action].item(),
            "prior": found.priors[action].item(),
        }
        moves.append(_move(position, action, **known))
    line, at = [], position
    for action in found.principal_variation:
        line.append(at.name(action))
        at = at.play(action)
    return _View(chosen, moves, float(found.value), tuple(line))


def _move(position: Position, action: int, **known: Any) -> MoveAnalysis:
    return MoveAnalysis(action, position.name(action), **known)


def _ranked(position: Position, worth: NDArray[Any]) -> list[int]:
    """Return the legal actions by worth[action], the highest first."""
    return sorted(position.legal_actions, key=lambda action: -worth[action])
