"""Moves of agents, for games between people and agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from zerolab.agents.analysis import Analysis
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.analyses import AnalysisResponse, analysis_response
from zerolab.web.clients import client_of
from zerolab.web.laboratory import Lab
from zerolab.web.leaving import unless_left
from zerolab.web.live_search import MOST_SIMULATIONS, SearchRequest, find_player
from zerolab.web.positions import PositionRequest, PositionResponse, RequestModel, position_response

router = APIRouter(tags=["play"])

MOST_MOVE_SECONDS = 60.0
Spec = Annotated[str, Field(min_length=1, max_length=400)]


class MoveRequest(RequestModel):
    """A position in which an agent is to move."""

    position: PositionRequest
    agent: Spec
    """Such as runs/demo@12?simulations=400 or mcts:1000."""
    simulations: Annotated[int, Field(ge=1, le=MOST_SIMULATIONS)] | None = None
    """Of each move, instead of those that the agent's spec says."""
    seconds: Annotated[float, Field(gt=0, le=MOST_MOVE_SECONDS)] | None = None
    """Of each move, instead of a number of simulations, where the agent searches."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)
    """Decides ties and playouts."""


class MoveResponse(BaseModel):
    """The move of an agent, and what it was thinking."""

    move: str
    position: PositionResponse
    """After the move."""
    analysis: AnalysisResponse
    """Of the position before it."""


@router.post("/move")
async def move(asked: MoveRequest, lab: Lab, request: Request) -> MoveResponse:
    """Let an agent choose a move."""
    at = await asyncio.to_thread(asked.position.position)
    simulations = MOST_SIMULATIONS if asked.seconds is not None else asked.simulations
    wanted = SearchRequest(asked.agent, at, lab.folders, simulations, asked.seconds, asked.seed)
    found = await unless_left(request, lab.searches.last(client_of(request), wanted))
    return await asyncio.to_thread(_played, at, found)


def _played(at: Position, found: Analysis) -> MoveResponse:
    """Return the position after the best move that was found; the first one of a game compiles."""
    after = at.play(found.best.action)
    return MoveResponse(
        move=found.best.name,
        position=position_response(after, at),
        analysis=analysis_response(found),
    )


class AgentResponse(BaseModel):
    """An agent that can be played against."""

    name: str
    """Its canonical name."""
    game: str


class AgentRequest(RequestModel):
    """What somebody has typed for an agent."""

    agent: Spec
    game: str = Field(max_length=60)


@router.post("/agent")
def agent(asked: AgentRequest, lab: Lab) -> AgentResponse:
    """Check the spec of an agent; the answer to a wrong one says what was expected."""
    found = find_player(asked.agent, parse_game(asked.game), lab.folders)
    return AgentResponse(name=found.name, game=asked.game)
