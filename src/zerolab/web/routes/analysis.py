"""Analysis of positions: once, or live over a websocket, with the tree and exact values."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from pydantic import Field

from zerolab.oracles.interface import NotSolvedError
from zerolab.web.analyses import (
    ShownAnalysis,
    ShownSolution,
    not_solved,
    shown_analysis,
    solved,
)
from zerolab.web.clients import Client, client_of
from zerolab.web.laboratory import Lab
from zerolab.web.leaving import unless_left
from zerolab.web.positions import Asked, AskedPosition
from zerolab.web.routes.play import Spec
from zerolab.web.searches.live import Wanted
from zerolab.web.searches.players import MOST_SIMULATIONS
from zerolab.web.searches.solving import MOST_SECONDS, Solvers

router = APIRouter(tags=["analysis"])

_SECONDS = 5.0


class AskedAnalysis(Asked):
    """A position for an agent to look at."""

    position: AskedPosition
    agent: Spec
    simulations: int | None = Field(default=None, ge=1, le=MOST_SIMULATIONS)


class AskedSolution(Asked):
    """A position to solve."""

    position: AskedPosition
    seconds: float = Field(default=_SECONDS, gt=0, le=MOST_SECONDS)


@router.post("/analysis")
async def analysis(asked: AskedAnalysis, lab: Lab, request: Request) -> ShownAnalysis:
    """Return what an agent makes of a position, when its search is over."""
    at = await asyncio.to_thread(asked.position.position)
    wanted = Wanted(asked.agent, at, lab.folders, asked.simulations)
    found = await unless_left(request, lab.searches.last(client_of(request), wanted))
    return shown_analysis(found)


@router.post("/solution")
async def solution(asked: AskedSolution, lab: Lab, request: Request) -> ShownSolution:
    """Return the exact value of every move, or why it was not found."""
    return await unless_left(request, solve(lab.solvers, client_of(request), asked))


async def solve(solvers: Solvers, client: Client, asked: AskedSolution) -> ShownSolution:
    """Solve a position for a client within its time limit."""
    at = await asyncio.to_thread(asked.position.position)
    try:
        return solved(await solvers.solve(client, at, asked.seconds))
    except NotSolvedError as error:
        return not_solved(str(error))
