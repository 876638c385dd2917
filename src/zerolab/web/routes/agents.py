"""Agents to choose from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from zerolab.web.archive.agents import RatedAgent, SuggestedAgent, rated_agents, suggested_agents
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["agents"])


@router.get("/agents")
def agents(lab: Lab, game: Annotated[str, Query(max_length=60)]) -> list[SuggestedAgent]:
    """List agents of a game: the networks of every run, and those that need none."""
    return suggested_agents(lab.folders, game)


@router.get("/ratings")
def ratings(lab: Lab, game: Annotated[str, Query(max_length=60)]) -> list[RatedAgent]:
    """List the players of a game's latest tournament with their Elo, the strongest first."""
    return rated_agents(lab.folders, game)
