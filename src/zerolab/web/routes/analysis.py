"""Moves, analyses and exact scores for single positions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from zerolab.agents.analysis import Analysis
from zerolab.core.errors import UserError
from zerolab.oracles.oracle import NotSolvedError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.roots import ChildStatistics
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import MAX_SIMULATIONS, SearchRequest, TreeNode, find_agent
from zerolab.web.requests import Client, RequestModel, client_of
from zerolab.web.routes.positions import PositionRequest, PositionResponse, position_response
from zerolab.web.solving import MAX_SOLVING_SECONDS, SolverProcess

router = APIRouter(tags=["analysis"])

_MAX_MOVE_SECONDS = 60.0
AgentSpec = Annotated[str, Field(min_length=1, max_length=400)]


class MoveRequest(RequestModel):
    """Request for an agent's move in a position."""

    position: PositionRequest
    agent: AgentSpec
    """Agent spec, such as runs/demo@12?simulations=400 or mcts:1000."""
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] | None = None
    """Number of simulations, which overrides the spec."""
    seconds: Annotated[float, Field(gt=0, le=_MAX_MOVE_SECONDS)] | None = None
    """Time limit that replaces the number of simulations, for agents that search."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)
    """Seed of the agent's random choices: tie-breaks and playouts."""


class AnalysisRequest(RequestModel):
    """Request to analyse a position with an agent."""

    position: PositionRequest
    agent: AgentSpec
    simulations: int | None = Field(default=None, ge=1, le=MAX_SIMULATIONS)
    """Number of simulations, which overrides the spec."""


class SolutionRequest(RequestModel):
    """Request to solve a position."""

    position: PositionRequest
    seconds: float = Field(default=5.0, gt=0, le=MAX_SOLVING_SECONDS)
    """Time limit in seconds."""


class AgentCheckRequest(RequestModel):
    """Request to check an agent spec, such as one that a user has typed."""

    agent: AgentSpec
    game: str = Field(max_length=60)


class MoveAnalysisResponse(BaseModel):
    """Analysis of a legal move; fields that the agent does not provide are None."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    visits: int | None
    value: float | None
    """Value for the side to move in [-1, 1], or an exact score from the `perfect` agent."""
    prior: float | None
    """Prior probability of the move."""


class AnalysisResponse(BaseModel):
    """Analysis of a position by an agent."""

    agent: str
    chosen_move: str
    """Move that the agent chooses."""
    value: float | None
    """Value of the position for the side to move, on the same scale as the values of moves."""
    simulations: int | None
    """Number of simulations so far; None for an agent that does not search."""
    moves: list[MoveAnalysisResponse]
    """Legal moves, best first."""
    principal_variation: list[str]
    """Best moves for both sides from this position on."""


class MoveResponse(BaseModel):
    """An agent's move and its analysis."""

    move: str
    position: PositionResponse
    """Position after the move."""
    analysis: AnalysisResponse
    """Analysis of the position before the move."""


class ChildResponse(BaseModel):
    """Move at a tree node, with N, P, Q and U of the selection rule."""

    name: str
    visits: int
    """Visit count N."""
    prior: float
    """Prior P."""
    value: float
    """Mean value Q for the player who makes the move."""
    bonus: float | None
    """Exploration bonus U; None if it is infinite, as in UCT before the first visit."""
    outcome: int | None
    """Outcome (1, 0 or -1) for the mover if the move ends the game; otherwise None."""


class NodeResponse(BaseModel):
    """Node of a search tree; a node that the search has not reached has no visits."""

    path: list[str]
    """Moves from the root to the node."""
    first_to_move: bool
    """True if it is the first player's turn."""
    visits: int
    value: float
    """Value for the side to move at the node, in [-1, 1]."""
    children: list[ChildResponse]


class SolutionResponse(BaseModel):
    """Exact score of every move, or the reason why the position was not solved."""

    scores: dict[str, int] | None
    """Exact scores by move, for the side to move: positive for a win, 0 for a draw and negative for
    a loss. In Othello, scores are disc differences; in other games, faster wins and slower losses
    have higher scores. None if the position was not solved."""
    best_moves: list[str]
    """Moves with the highest score."""
    unsolved_reason: str
    """Reason why the position was not solved; empty if it was solved."""


class AgentResponse(BaseModel):
    """Agent described by a valid spec."""

    name: str
    """Canonical spec."""
    game: str


@router.post("/move")
async def move(request: MoveRequest, lab: Lab, connection: Request) -> MoveResponse:
    """Return an agent's move."""
    position = await asyncio.to_thread(request.position.position)
    simulations = MAX_SIMULATIONS if request.seconds is not None else request.simulations
    search = SearchRequest(
        request.agent, position, lab.folders, simulations, request.seconds, request.seed
    )
    work = lab.search_pool.analyse(client_of(connection), search)
    analysis = await cancel_on_disconnect(connection, work)
    # In a thread, because the first move of a game compiles its rules.
    return await asyncio.to_thread(_move_response, position, analysis)


@router.post("/analysis")
async def analysis(request: AnalysisRequest, lab: Lab, connection: Request) -> AnalysisResponse:
    """Return an agent's analysis of a position at the end of its search."""
    position = await asyncio.to_thread(request.position.position)
    search = SearchRequest(request.agent, position, lab.folders, request.simulations)
    work = lab.search_pool.analyse(client_of(connection), search)
    return analysis_response(await cancel_on_disconnect(connection, work))


@router.post("/solution")
async def solution(request: SolutionRequest, lab: Lab, connection: Request) -> SolutionResponse:
    """Return the exact score of every move, or the reason why the position was not solved."""
    work = solve(lab.solver, client_of(connection), request)
    return await cancel_on_disconnect(connection, work)


@router.post("/agent")
def check_agent(request: AgentCheckRequest, lab: Lab) -> AgentResponse:
    """Check an agent spec; the error for an invalid spec explains what was expected."""
    valid_agent = find_agent(request.agent, parse_game(request.game), lab.folders)
    return AgentResponse(name=valid_agent.name, game=request.game)


async def solve(
    solver: SolverProcess, client: Client, request: SolutionRequest
) -> SolutionResponse:
    """Solve a position for a client within the requested time limit."""
    position = await asyncio.to_thread(request.position.position)
    try:
        scores = await solver.solve(client, position, request.seconds)
    except NotSolvedError as error:
        return SolutionResponse(scores=None, best_moves=[], unsolved_reason=str(error))
    most = max(scores.values())
    best_moves = [name for name, score in scores.items() if score == most]
    return SolutionResponse(scores=scores, best_moves=best_moves, unsolved_reason="")


def analysis_response(analysis: Analysis) -> AnalysisResponse:
    """Convert an analysis to a response."""
    counts = [move.visits for move in analysis.moves if move.visits is not None]
    return AnalysisResponse(
        agent=analysis.agent_name,
        chosen_move=analysis.chosen_move.name,
        value=analysis.value,
        simulations=sum(counts) if counts else None,
        moves=[MoveAnalysisResponse.model_validate(each) for each in analysis.moves],
        principal_variation=list(analysis.principal_variation),
    )


def node_response(path: list[str], tree_node: TreeNode) -> NodeResponse:
    """Convert a tree node to a response."""
    position, node = tree_node
    return NodeResponse(
        path=path,
        first_to_move=position.first_to_move,
        visits=node.visits if node else 0,
        value=node.value if node else 0.0,
        children=[_child_response(position, each) for each in (node.children if node else ())],
    )


def _child_response(position: Position, child: ChildStatistics) -> ChildResponse:
    bonus = child.bonus if math.isfinite(child.bonus) else None
    return ChildResponse(
        name=position.action_name(child.action), **{**child._asdict(), "bonus": bonus}
    )


def _move_response(position: Position, analysis: Analysis) -> MoveResponse:
    after = position.play(analysis.chosen_move.action)
    return MoveResponse(
        move=analysis.chosen_move.name,
        position=position_response(after, position),
        analysis=analysis_response(analysis),
    )


_Result = TypeVar("_Result")


async def cancel_on_disconnect(connection: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of `work`; cancel it and raise UserError if the client disconnects."""
    working = asyncio.create_task(work)
    disconnecting = asyncio.create_task(_disconnected(connection))
    try:
        await asyncio.wait({working, disconnecting}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise UserError("the client has disconnected")
        return working.result()
    finally:
        for task in (working, disconnecting):
            task.cancel()


async def _disconnected(connection: Request) -> None:
    """Wait until the client disconnects. The request body must already have been read."""
    while (await connection.receive())["type"] != "http.disconnect":
        pass
