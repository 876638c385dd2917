"""Analysis of positions by agents: moves with visits, values and priors, and the best line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import FORFEIT_ACTION, Agent, CustomStartPlayer, Player, close_player
from zerolab.agents.baselines import PerfectPlayer
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer, prepare_for_one_game
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.report.board_svg import Hint, draw_board, signed_number
from zerolab.report.table import data_frame
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position, board_image_content
from zerolab.search.roots import SearchResult

if TYPE_CHECKING:
    from pandas import DataFrame


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

    def __repr__(self) -> str:
        numbers = {"visits": self.visits, "value": self.value, "prior": self.prior}
        known = (f", {name} {number:.3g}" for name, number in numbers.items() if number is not None)
        return f"<MoveAnalysis {self.name}{''.join(known)}>"


class Analysis(NamedTuple):
    """Analysis of an ongoing position by an agent."""

    agent_name: str
    """Canonical name of the agent."""
    position: Position
    chosen_move: MoveAnalysis
    """Move that the agent plays, not necessarily the first in `moves`."""
    moves: list[MoveAnalysis]
    """Legal moves in descending order of visits, exact value or prior; if these are unknown, the
    chosen move comes first."""
    value: float | None
    """Value of the position for the side to move, on the same scale as move values."""
    principal_variation: tuple[str, ...]
    """Expected line, starting with the agent's move; empty if the agent does not search."""

    def __repr__(self) -> str:
        value, move = value_text(self), self.chosen_move.name
        return f"<Analysis by {self.agent_name}: {move}{value and f', value {value}'}>"

    def to_pandas(self) -> DataFrame:
        """Return one row per legal move; raise MissingExtraError if pandas is not installed."""
        return data_frame([move._asdict() for move in self.moves])

    def _repr_html_(self) -> str:
        """Return the board with the visits of the moves, for notebooks."""
        return analysis_html(self)


def analyse(agent: Agent, position: Position, seed: int = 0) -> Analysis:
    """Return an agent's analysis of a position, taking the move history into account.

    Random streams depend only on (seed, ply). Raises UserError for a finished game, for a position
    of a different game, and if the agent forfeits.
    """
    return analyse_with_seeds(agent, position, [seed])[0]


def analyse_with_seeds(agent: Agent, position: Position, seeds: Iterable[int]) -> list[Analysis]:
    """Return an agent's analyses of a position, one per seed, from one player; see `analyse`."""
    require_analysable(agent, position)
    player = prepare_for_one_game(agent.new_player())
    try:
        return [replay_and_analyse(player, [position], seed)[0] for seed in seeds]
    finally:
        close_player(player)


def require_analysable(agent: Agent, position: Position) -> None:
    """Raise UserError unless a position is ongoing and of the agent's game."""
    if game_name(agent.game) != game_name(position.game):
        raise UserError(
            f"{agent.name} plays {game_name(agent.game)}: expected a position of this game,"
            f" not of {game_name(position.game)}"
        )
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")


def replay_and_analyse(player: Player, positions: Sequence[Position], seed: int) -> list[Analysis]:
    """Return a player's analyses of ongoing positions, each in a separate slot.

    Raises UserError if the player forfeits or cannot start from a custom position.
    """
    replay_moves(player, positions)
    keys = [move_stream_keys(position, seed) for position in positions]
    return analyse_with_player(player, positions, np.concatenate(keys))


def move_stream_keys(position: Position, seed: int) -> NDArray[np.uint64]:
    """Return the key of the random stream of a move, uint64[1]; it depends only on (seed, ply)."""
    return np.array([streams.stream_key(seed, 0, 0, position.ply, streams.MATCH_MOVE)], np.uint64)


def replay_moves(player: Player, positions: Sequence[Position]) -> None:
    """Replay the moves that led to n positions in slots 0 to n - 1 of a player.

    Raises UserError if a game has a custom start position and the player does not support it.
    """
    player.start(len(positions))
    for slot, position in enumerate(positions):
        if position.custom_start is None:
            continue
        if not isinstance(player, CustomStartPlayer):
            raise UserError(
                f"{player.name} cannot start from a custom position: expected a position reached by"
                " moves from the start"
            )
        player.reset_to_states(np.array([slot]), position.custom_start.state[None])
    for ply in range(max((position.ply for position in positions), default=0)):
        slots = [slot for slot, position in enumerate(positions) if position.ply > ply]
        actions = [positions[slot].history[ply] for slot in slots]
        player.advance(np.array(slots, np.int64), np.array(actions, np.int64))


def analyse_with_player(
    player: Player, positions: Sequence[Position], keys: NDArray[np.uint64]
) -> list[Analysis]:
    """Return a player's analyses of n ongoing positions.

    Slots 0 to n - 1 must contain the games that led to the positions (see `replay_moves`). `keys`,
    uint64[n], are the random streams of the moves. Raises UserError if the player forfeits.
    """
    analyses = []
    for position, view in zip(positions, _views(player, positions, keys), strict=True):
        if view.chosen == FORFEIT_ACTION:
            raise UserError(f"{player.name} forfeits the game")
        best = next(move for move in view.moves if move.action == view.chosen)
        analyses.append(Analysis(player.name, position, best, view.moves, view.value, view.line))
    return analyses


def analyse_running_search(player: SearchPlayer, position: Position) -> Analysis:
    """Return an interim analysis from the search still running in slot 0 of a player.

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


def _views(player: Player, positions: Sequence[Position], keys: NDArray[np.uint64]) -> list[_View]:
    slots, states = np.arange(len(positions)), np.array([each.state for each in positions])
    if isinstance(player, PerfectPlayer):
        exact = player.oracle.action_values(states)
        best = player.choose_by_values(exact, keys)
        return [_exact_view(*each) for each in zip(best.tolist(), exact, positions, strict=True)]
    if isinstance(player, PolicyPlayer):
        priors, values = player.evaluator.evaluate(states)
        chosen = player.choose_by_priors(priors, slots, states, keys).tolist()
        return [
            _policy_view(*each)
            for each in zip(chosen, priors, values.tolist(), positions, strict=True)
        ]
    chosen = player.choose(slots, states, keys).tolist()
    if isinstance(player, SearchPlayer):
        return [
            _search_view(chosen[slot], player.search.result(slot), position)
            for slot, position in enumerate(positions)
        ]
    return [_plain_view(*each) for each in zip(chosen, positions, strict=True)]


def _exact_view(chosen: int, exact: NDArray[np.int32], position: Position) -> _View:
    moves = [_move(position, a, value=int(exact[a])) for a in _ranked(position, exact)]
    return _View(chosen, moves, moves[0].value)


def _policy_view(
    chosen: int, priors: NDArray[np.float32], value: float, position: Position
) -> _View:
    moves = [_move(position, a, prior=float(priors[a])) for a in _ranked(position, priors)]
    return _View(chosen, moves, value)


def _plain_view(chosen: int, position: Position) -> _View:
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
        line.append(current.action_name(action))
        current = current.play(action)
    return _View(chosen, moves, float(result.root_value), tuple(line))


def _move(position: Position, action: int, **statistics: Any) -> MoveAnalysis:
    return MoveAnalysis(action, position.action_name(action), **statistics)


def _ranked(position: Position, scores: NDArray[Any]) -> list[int]:
    """Return the legal actions in descending order of scores[action]."""
    return sorted(position.legal_actions, key=lambda action: -scores[action])


def board_hints(analysis: Analysis) -> dict[int, Hint]:
    """Return hints by action, from visit shares, priors or exact scores; none for a share of 0."""
    moves = analysis.moves
    if has_exact_values(analysis):
        highest = max(move.value for move in moves if move.value is not None)
        return {
            move.action: Hint(0.0, None, move.value == highest, int(move.value))
            for move in moves
            if move.value is not None
        }
    total = sum(move.visits or 0 for move in moves)
    shares = [(move.visits or 0) / total if total else move.prior or 0.0 for move in moves]
    most = max(shares)
    return {
        move.action: Hint(share, move.value, share == most)
        for move, share in zip(moves, shares, strict=True)
        if share > 0
    }


def has_exact_values(analysis: Analysis) -> bool:
    """Return whether the values are exact scores, as from the ``perfect`` agent."""
    best = analysis.chosen_move
    return best.value is not None and best.visits is None and best.prior is None


def value_text(analysis: Analysis) -> str:
    """Return the signed value, an integer if exact, otherwise with two decimals; "" if unknown."""
    value = analysis.value
    return "" if value is None else signed_number(value, 0 if has_exact_values(analysis) else 2)


def analysis_html(analysis: Analysis) -> str:
    """Return an analysis as HTML, with the board as SVG."""
    position = analysis.position
    side = "X" if position.first_to_move else "O"
    facts = [f"{escape(analysis.agent_name)} plays <b>{escape(analysis.chosen_move.name)}</b>"]
    if analysis.value is not None:
        facts.append(f"value {value_text(analysis)} for {side}")
    if analysis.principal_variation:
        facts.append(f"best line {escape(' '.join(analysis.principal_variation))}")
    board = draw_board(board_image_content(position, board_hints(analysis)))
    return f"<div>{board}<div>{'; '.join(facts)}</div></div>"
