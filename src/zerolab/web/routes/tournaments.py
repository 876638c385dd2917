"""Tournaments: ratings and cross tables."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from zerolab.web.archive.tournaments import (
    ShownTournament,
    TournamentDetails,
    list_tournaments,
    open_tournament,
    tournament_details,
)
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["tournaments"], prefix="/tournaments")


@router.get("")
def tournaments(lab: Lab) -> list[ShownTournament]:
    """List the tournaments, those of studies included."""
    return list_tournaments(lab.folders)


@router.get("/one")
def one_tournament(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> TournamentDetails:
    """Return ratings with intervals, and the cross table."""
    return tournament_details(open_tournament(lab.folders, tournament))
