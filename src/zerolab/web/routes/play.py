"""Moves of agents, for games between people and agents."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from zerolab.agents.analysis import Analysis
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.analyses import ShownAnalysis, shown_analysis
from zerolab.web.clients import client_of
from zerolab.web.laboratory import Lab
from zerolab.web.leaving import unless_left
from zerolab.web.positions import Asked, AskedPosition, ShownPosition, shown
from zerolab.web.searches.live import Wanted
from zerolab.web.searches.players import MOST_SIMULATIONS, find_player

router = APIRouter(tags=["play"])

MOST_SECONDS = 60.0
Spec = Annotated[str, Field(min_length=1, max_length=400)]


class AskedMove(Asked):
    """A position in which an agent is to move."""

    position: AskedPosition
    agent: Spec
    """Such as runs/demo@12?simulations=400 or mcts:1000."""
    simulations: Annotated[int, Field(ge=1, le=MOST_SIMULATIONS)] | None = None
    """Of each move, instead of those that the agent's spec says."""
    seconds: Annotated[float, Field(gt=0, le=MOST_SECONDS)] | None = None
    """Of each move, instead of a number of simulations, where the agent searches."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)
    """Decides ties and playouts."""


class PlayedMove(BaseModel):
    """The move of an agent, and what it was thinking."""

    move: str
    position: ShownPosition
    """After the move."""
    analysis: ShownAnalysis
    """Of the position before it."""


@router.post("/move")
async def move(asked: AskedMove, lab: Lab, request: Request) -> PlayedMove:
    """Let an agent choose a move."""
    at = await asyncio.to_thread(asked.position.position)
    simulations = MOST_SIMULATIONS if asked.seconds is not None else asked.simulations
    wanted = Wanted(asked.agent, at, lab.folders, simulations, asked.seconds, asked.seed)
    found = await unless_left(request, lab.searches.last(client_of(request), wanted))
    return await asyncio.to_thread(_played, at, found)


def _played(at: Position, found: Analysis) -> PlayedMove:
    """Return the position after the best move that was found; the first one of a game compiles."""
    after = at.play(found.best.action)
    return PlayedMove(
        move=found.best.name, position=shown(after, at), analysis=shown_analysis(found)
    )


class CheckedAgent(BaseModel):
    """An agent that can be played against."""

    name: str
    """Its canonical name."""
    game: str


class AskedAgent(Asked):
    """What somebody has typed for an agent."""

    agent: Spec
    game: str = Field(max_length=60)


@router.post("/agent")
def agent(asked: AskedAgent, lab: Lab) -> CheckedAgent:
    """Check the spec of an agent; the answer to a wrong one says what was expected."""
    found = find_player(asked.agent, parse_game(asked.game), lab.folders)
    return CheckedAgent(name=found.name, game=asked.game)
