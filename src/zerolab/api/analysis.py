"""Looking at single positions: with an agent, or exactly."""

from __future__ import annotations

from zerolab.agents.analysis import Analysis, MoveAnalysis
from zerolab.agents.analysis import analyse as analyse_with
from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agent
from zerolab.api.arguments import require_position, whole_number
from zerolab.core.errors import UserError, require
from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.solver import UNLIMITED, Budget
from zerolab.rules.position import Position

__all__ = ["Analysis", "MoveAnalysis", "analyse", "solve"]


def analyse(position: Position, agent: str | Agent, *, seed: int = 0) -> Analysis:
    """Let an agent, such as ``"mcts:1000"`` or ``"runs/demo"``, search a position.

    Raises UserError for a wrong argument, a finished game, and an agent of another game.
    """
    require_position(position)
    require("agent", agent, (str, Agent), 'an agent, such as "mcts:1000"')
    parsed = parse_agent(agent, position.game) if isinstance(agent, str) else agent
    return analyse_with(parsed, position, whole_number("seed", seed, 0))


def solve(position: Position, *, nodes: int | None = None) -> dict[str, int]:
    """Return the exact value of every legal move for the player to move, best first.

    Values are disc differences in Othello; elsewhere they are positive for a win, 0 for a draw,
    negative for a loss, and larger for a faster win or a slower loss. Raises NotSolvedError, a
    UserError, where `nodes` positions do not suffice, and UserError for a finished game.
    """
    require_position(position)
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")
    budget = UNLIMITED if nodes is None else Budget(nodes=whole_number("nodes", nodes, 1))
    values = oracle_for(position.game, budget).action_values(position.state[None])[0]
    ranked = sorted(position.legal_actions, key=lambda action: -values[action])
    return {position.name(action): int(values[action]) for action in ranked}
