"""Analysis of positions: once, or live over a websocket, with the tree and exact values."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from pydantic import Field

from zerolab.oracles.oracle import NotSolvedError
from zerolab.web.analyses import (
    AnalysisResponse,
    SolutionResponse,
    analysis_response,
    solution_response,
    unsolved_response,
)
from zerolab.web.clients import Client, client_of
from zerolab.web.laboratory import Lab
from zerolab.web.leaving import unless_left
from zerolab.web.live_search import MOST_SIMULATIONS, SearchRequest
from zerolab.web.positions import PositionRequest, RequestModel
from zerolab.web.routes.play import Spec
from zerolab.web.solving import MOST_SECONDS, Solvers

router = APIRouter(tags=["analysis"])

_SECONDS = 5.0


class AnalysisRequest(RequestModel):
    """A position for an agent to look at."""

    position: PositionRequest
    agent: Spec
    simulations: int | None = Field(default=None, ge=1, le=MOST_SIMULATIONS)


class SolutionRequest(RequestModel):
    """A position to solve."""

    position: PositionRequest
    seconds: float = Field(default=_SECONDS, gt=0, le=MOST_SECONDS)


@router.post("/analysis")
async def analysis(asked: AnalysisRequest, lab: Lab, request: Request) -> AnalysisResponse:
    """Return what an agent makes of a position, when its search is over."""
    at = await asyncio.to_thread(asked.position.position)
    wanted = SearchRequest(asked.agent, at, lab.folders, asked.simulations)
    found = await unless_left(request, lab.searches.last(client_of(request), wanted))
    return analysis_response(found)


@router.post("/solution")
async def solution(asked: SolutionRequest, lab: Lab, request: Request) -> SolutionResponse:
    """Return the exact value of every move, or why it was not found."""
    return await unless_left(request, solve(lab.solvers, client_of(request), asked))


async def solve(solvers: Solvers, client: Client, asked: SolutionRequest) -> SolutionResponse:
    """Solve a position for a client within its time limit."""
    at = await asyncio.to_thread(asked.position.position)
    try:
        return solution_response(await solvers.solve(client, at, asked.seconds))
    except NotSolvedError as error:
        return unsolved_response(str(error))
