"""Moves, analyses and exact values of single positions."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from zerolab.agents.analysis import Analysis
from zerolab.core.errors import UserError
from zerolab.oracles.oracle import NotSolvedError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import MAX_SIMULATIONS, SearchRequest, TreeNode, find_agent
from zerolab.web.requests import Client, RequestModel, client_of
from zerolab.web.routes.positions import PositionRequest, PositionResponse, position_response
from zerolab.web.solving import MAX_SECONDS, Solvers

router = APIRouter(tags=["analysis"])

_MAX_MOVE_SECONDS = 60.0
Spec = Annotated[str, Field(min_length=1, max_length=400)]


class MoveRequest(RequestModel):
    """A position in which an agent is to move."""

    position: PositionRequest
    agent: Spec
    """Such as runs/demo@12?simulations=400 or mcts:1000."""
    simulations: Annotated[int, Field(ge=1, le=MAX_SIMULATIONS)] | None = None
    """Overrides the simulations of the agent's spec."""
    seconds: Annotated[float, Field(gt=0, le=_MAX_MOVE_SECONDS)] | None = None
    """A time limit instead of a number of simulations, for agents that search."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)
    """Decides ties and playouts."""


class AnalysisRequest(RequestModel):
    """A position to analyse with an agent."""

    position: PositionRequest
    agent: Spec
    simulations: int | None = Field(default=None, ge=1, le=MAX_SIMULATIONS)


class SolutionRequest(RequestModel):
    """A position to solve."""

    position: PositionRequest
    seconds: float = Field(default=5.0, gt=0, le=MAX_SECONDS)


class AgentRequest(RequestModel):
    """An agent's spec, as typed by a user."""

    agent: Spec
    game: str = Field(max_length=60)


class MoveAnalysisResponse(BaseModel):
    """A legal move; None stands for what its agent does not provide."""

    model_config = ConfigDict(from_attributes=True)

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
    """Simulations so far; None for an agent that does not search."""
    moves: list[MoveAnalysisResponse]
    """Best first."""
    line: list[str]
    """The expected line of play."""


class MoveResponse(BaseModel):
    """An agent's move and its analysis."""

    move: str
    position: PositionResponse
    """After the move."""
    analysis: AnalysisResponse
    """Of the position before it."""


class ChildResponse(BaseModel):
    """An action at a node: N, P, Q and U of its selection rule."""

    name: str
    visits: int
    prior: float
    value: float
    bonus: float
    outcome: int | None
    """1, 0 or -1 for the mover if the game ends; otherwise None."""


class NodeResponse(BaseModel):
    """A node of a search tree; one that the search has not reached has no visits."""

    path: list[str]
    first_to_move: bool
    visits: int
    value: float
    """For the player to move at the node."""
    children: list[ChildResponse]


class SolutionResponse(BaseModel):
    """The exact score of every move, or the reason why it is unknown."""

    scores: dict[str, int] | None
    """For the player to move; positive scores win, negative ones lose. Scores count discs in
    Othello; in other games, faster wins score higher."""
    best: list[str]
    reason: str
    """Empty if solved."""


class AgentResponse(BaseModel):
    """An agent that can be played against."""

    name: str
    """Its canonical name."""
    game: str


@router.post("/move")
async def move(request: MoveRequest, lab: Lab, connection: Request) -> MoveResponse:
    """Let an agent choose a move."""
    at = await asyncio.to_thread(request.position.position)
    simulations = MAX_SIMULATIONS if request.seconds is not None else request.simulations
    search = SearchRequest(
        request.agent, at, lab.folders, simulations, request.seconds, request.seed
    )
    found = await _unless_left(connection, lab.searches.analyse(client_of(connection), search))
    return await asyncio.to_thread(_move_response, at, found)  # a game's first move compiles


@router.post("/analysis")
async def analysis(request: AnalysisRequest, lab: Lab, connection: Request) -> AnalysisResponse:
    """Return an agent's analysis of a position at the end of its search."""
    at = await asyncio.to_thread(request.position.position)
    search = SearchRequest(request.agent, at, lab.folders, request.simulations)
    found = await _unless_left(connection, lab.searches.analyse(client_of(connection), search))
    return analysis_response(found)


@router.post("/solution")
async def solution(request: SolutionRequest, lab: Lab, connection: Request) -> SolutionResponse:
    """Return the exact value of every move, or the reason why it was not found."""
    return await _unless_left(connection, solve(lab.solvers, client_of(connection), request))


@router.post("/agent")
def agent(request: AgentRequest, lab: Lab) -> AgentResponse:
    """Check the spec of an agent; the error for an invalid one says what was expected."""
    found = find_agent(request.agent, parse_game(request.game), lab.folders)
    return AgentResponse(name=found.name, game=request.game)


async def solve(solvers: Solvers, client: Client, request: SolutionRequest) -> SolutionResponse:
    """Solve a position for a client within its time limit."""
    at = await asyncio.to_thread(request.position.position)
    try:
        scores = await solvers.solve(client, at, request.seconds)
    except NotSolvedError as error:
        return SolutionResponse(scores=None, best=[], reason=str(error))
    most = max(scores.values())
    best = [name for name, score in scores.items() if score == most]
    return SolutionResponse(scores=scores, best=best, reason="")


def analysis_response(found: Analysis) -> AnalysisResponse:
    """Return an analysis for display."""
    counts = [move.visits for move in found.moves if move.visits is not None]
    return AnalysisResponse(
        agent=found.agent,
        best=found.best.name,
        value=found.value,
        simulations=sum(counts) if counts else None,
        moves=[MoveAnalysisResponse.model_validate(each) for each in found.moves],
        line=list(found.principal_variation),
    )


def node_response(path: list[str], found: TreeNode) -> NodeResponse:
    """Return a tree node for display."""
    at, node = found
    return NodeResponse(
        path=path,
        first_to_move=at.first_to_move,
        visits=node.visits if node else 0,
        value=node.value if node else 0.0,
        children=[
            ChildResponse(name=at.name(child.action), **child._asdict())
            for child in (node.children if node else ())
        ],
    )


def _move_response(at: Position, found: Analysis) -> MoveResponse:
    after = at.play(found.best.action)
    return MoveResponse(
        move=found.best.name,
        position=position_response(after, at),
        analysis=analysis_response(found),
    )


_Result = TypeVar("_Result")


async def _unless_left(connection: Request, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Return the result of some work, but cancel it if the client disconnects.

    Raises UserError in that case, which nobody reads.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(connection))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise UserError("the client has disconnected")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()


async def _disconnected(connection: Request) -> None:
    """Return once the client has disconnected; the request's body has been read before."""
    while (await connection.receive())["type"] != "http.disconnect":
        pass
