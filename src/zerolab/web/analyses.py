"""What agents and solvers think of positions, as pages show it."""

from __future__ import annotations

from pydantic import BaseModel

from zerolab.agents.analysis import Analysis
from zerolab.web.live_search import Node
from zerolab.web.solving import Values


class MoveAnalysisResponse(BaseModel):
    """A legal move; what its agent does not say is None."""

    name: str
    visits: int | None
    value: float | None
    """For the player to move: in [-1, 1], or an exact score of the agent `perfect`."""
    prior: float | None


class AnalysisResponse(BaseModel):
    """An agent's view of a position."""

    agent: str
    best: str
    value: float | None
    """For the player to move."""
    simulations: int | None
    """How many the search has had; None where there is none."""
    moves: list[MoveAnalysisResponse]
    """The best first."""
    line: list[str]
    """The line that it expects."""


class ChildResponse(BaseModel):
    """An action in a tree: N, P, Q and U of its selection rule."""

    name: str
    visits: int
    prior: float
    value: float
    bonus: float
    outcome: int | None
    """1, 0 or -1 for the mover, where the game ends."""


class NodeResponse(BaseModel):
    """A node of a tree."""

    path: list[str]
    first_to_move: bool
    visits: int
    value: float
    """For the player to move at the node."""
    children: list[ChildResponse]


class SolutionResponse(BaseModel):
    """The exact score of every move, or why it is not known."""

    scores: dict[str, int] | None
    """For the player to move; above 0 wins, below 0 loses. In Othello by how many discs, in other
    games the sooner a win the higher."""
    best: list[str]
    reason: str
    """Why it is not solved; empty if it is."""


def analysis_response(found: Analysis) -> AnalysisResponse:
    """Return an analysis for a page."""
    counts = [move.visits for move in found.moves if move.visits is not None]
    return AnalysisResponse(
        agent=found.agent,
        best=found.best.name,
        value=found.value,
        simulations=sum(counts) if counts else None,
        moves=[
            MoveAnalysisResponse(
                name=each.name, visits=each.visits, value=each.value, prior=each.prior
            )
            for each in found.moves
        ],
        line=list(found.principal_variation),
    )


def node_response(path: list[str], found: Node) -> NodeResponse:
    """Return a node for a page; one that the search has not reached has no visits."""
    at, node = found
    return NodeResponse(
        path=path,
        first_to_move=at.first_to_move,
        visits=node.visits if node else 0,
        value=node.value if node else 0.0,
        children=[
            ChildResponse(
                name=at.name(child.action),
                visits=child.visits,
                prior=child.prior,
                value=child.value,
                bonus=child.bonus,
                outcome=child.outcome,
            )
            for child in (node.children if node else ())
        ],
    )


def solution_response(values: Values) -> SolutionResponse:
    """Return the exact values of all moves for a page."""
    most = max(values.values())
    best = [name for name, value in values.items() if value == most]
    return SolutionResponse(scores=values, best=best, reason="")


def unsolved_response(reason: str) -> SolutionResponse:
    """Return why a position is not solved."""
    return SolutionResponse(scores=None, best=[], reason=reason)
