"""Analysis of positions by agents: moves with visits, values and priors, and the best line."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT, Agent, CustomStartPlayer, Player, ProgramPlayer
from zerolab.agents.kinds.baselines import PerfectPlayer
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer, prepare_for_one_game
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.search.result import SearchResult

_SLOT = np.zeros(1, np.int64)


class MoveAnalysis(NamedTuple):
    """Analysis of a legal move; numbers that the agent does not provide are None."""

    action: int
    name: str
    """Move name, such as "c2"."""
    visits: int | None = None
    """Visit count at the root."""
    value: float | None = None
    """Value for the side to move: the expected result in [-1, 1] from a search, or the exact score
    of perfect play (see `oracles.oracle.Oracle`)."""
    prior: float | None = None
    """Probability in the network's policy."""


class Analysis(NamedTuple):
    """Analysis of an ongoing position by an agent."""

    agent: str
    """Canonical name of the agent."""
    position: Position
    best: MoveAnalysis
    """Move that the agent plays, not necessarily the first in `moves`."""
    moves: list[MoveAnalysis]
    """All legal moves in descending order of visits, exact values or priors."""
    value: float | None
    """Value of the position for the side to move, on the same scale as move values."""
    principal_variation: tuple[str, ...]
    """Expected line, starting with the agent's move; empty if the agent does not search."""


def analyse(agent: Agent, position: Position, seed: int = 0) -> Analysis:
    """Return an agent's analysis of a position, taking the move history into account.

    Random streams depend only on (seed, ply). Raises UserError for a finished game, for a position
    of a different game, and if the agent forfeits.
    """
    if game_name(agent.game) != game_name(position.game):
        raise UserError(
            f"{agent.name} plays {game_name(agent.game)}: expected a position of this game,"
            f" not of {game_name(position.game)}"
        )
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")
    player = prepare_for_one_game(agent.new_player())
    try:
        replay_moves(player, position)
        return analyse_with_player(player, position, move_stream_keys(position, seed))
    finally:
        if isinstance(player, ProgramPlayer):
            player.close()


def move_stream_keys(position: Position, seed: int) -> NDArray[np.uint64]:
    """Return the key of the random stream of a move, uint64[1]; it depends only on (seed, ply)."""
    return np.array([streams.stream_key(seed, 0, 0, position.ply, streams.ARENA_MOVE)], np.uint64)


def replay_moves(player: Player, position: Position) -> None:
    """Replay the moves that led to a position in slot 0 of a player.

    Raises UserError if the game has a custom start position and the player does not support it.
    """
    player.start(1)
    if position.custom_start is not None:
        if not isinstance(player, CustomStartPlayer):
            raise UserError(
                f"{player.name} cannot start from a custom position: expected a position reached by"
                " moves from the start"
            )
        player.begin_at(_SLOT, position.custom_start.state[None])
    for action in position.history:
        player.advance(_SLOT, np.array([action]))


def analyse_with_player(player: Player, position: Position, keys: NDArray[np.uint64]) -> Analysis:
    """Return a player's analysis of an ongoing position.

    Slot 0 must contain the game that led to the position (see `replay_moves`). `keys`, uint64[1],
    is the random stream of the move. Raises UserError if the player forfeits.
    """
    chosen, moves, value, line = _view(player, position, keys)
    if chosen == FORFEIT:
        raise UserError(f"{player.name} forfeits the game")
    best = next(move for move in moves if move.action == chosen)
    return Analysis(player.name, position, best, moves, value, line)


def analyse_running_search(player: SearchPlayer, position: Position) -> Analysis:
    """Return an interim analysis by the search that is still running in slot 0 of a player.

    The best move is the first move of the principal variation, or the move with the highest prior
    before the first simulation.
    """
    result = player.search.result(0)
    chosen = result.best_action if result.principal_variation else int(result.priors.argmax())
    _, moves, value, line = _search_view(chosen, result, position)
    best = next((move for move in moves if move.action == chosen), moves[0])
    return Analysis(player.name, position, best, moves, value, line)


class _View(NamedTuple):
    """Analysis fields that depend on the type of player."""

    chosen: int
    moves: list[MoveAnalysis]
    value: float | None = None
    line: tuple[str, ...] = ()


def _view(player: Player, position: Position, keys: NDArray[np.uint64]) -> _View:
    states = position.state[None]
    if isinstance(player, PerfectPlayer):
        exact = player.oracle.action_values(states)
        moves = [_move(position, a, value=int(exact[0, a])) for a in _ranked(position, exact[0])]
        return _View(int(player.choose_by_values(exact, keys)[0]), moves, moves[0].value)
    if isinstance(player, PolicyPlayer):
        priors, values = player.evaluator.evaluate(states)
        chosen = int(player.choose_by_priors(priors, _SLOT, states, keys)[0])
        moves = [
            _move(position, a, prior=float(priors[0, a])) for a in _ranked(position, priors[0])
        ]
        return _View(chosen, moves, float(values[0]))
    chosen = int(player.choose(_SLOT, states, keys)[0])
    if isinstance(player, SearchPlayer):
        return _search_view(chosen, player.search.result(0), position)
    legal = sorted(position.legal_actions, key=lambda action: action != chosen)
    return _View(chosen, [_move(position, action) for action in legal])


def _search_view(chosen: int, result: SearchResult, position: Position) -> _View:
    moves = []
    for action in _ranked(position, result.visits):
        statistics = {
            "visits": result.visits[action].item(),
            "value": result.action_values[action].item(),
            "prior": result.priors[action].item(),
        }
        moves.append(_move(position, action, **statistics))
    line, current = [], position
    for action in result.principal_variation:
        line.append(current.name(action))
        current = current.play(action)
    return _View(chosen, moves, float(result.root_value), tuple(line))


def _move(position: Position, action: int, **statistics: Any) -> MoveAnalysis:
    return MoveAnalysis(action, position.name(action), **statistics)


def _ranked(position: Position, scores: NDArray[Any]) -> list[int]:
    """Return the legal actions in descending order of scores[action]."""
    return sorted(position.legal_actions, key=lambda action: -scores[action])
