"""Games that were played: of runs, and of tournaments."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from zerolab.store.listing import GameFilter
from zerolab.web.archive.games import (
    Format,
    GameFacets,
    GamePage,
    GameResponse,
    Source,
    exported,
    facets,
    one_game,
    open_source,
    opening_of,
    page_of,
)
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["games played"], prefix="/played")

_MOST_OF_PAGE = 200
_MEDIA = {"pgn": "application/x-chess-pgn", "text": "text/tab-separated-values"}
_ENDINGS = {"pgn": "pgn", "text": "tsv"}
_Name = Annotated[str, Query(max_length=400)]
_Number = Annotated[int, Query(ge=0, lt=1 << 62)]
_Plies = Annotated[int | None, Query(ge=0, le=10_000)]


def _source(lab: Lab, source: Annotated[str, Query(min_length=1, max_length=400)]) -> Source:
    return open_source(lab.folders, source)


GamesOf = Annotated[Source, Depends(_source)]


def _filter(
    source: GamesOf,
    iteration: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None,
    stage: _Name = "",
    number: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None,
    player: _Name = "",
    opponent: _Name = "",
    result: Literal["first", "second", "draw", "won", "lost"] | None = None,
    min_plies: _Plies = None,
    max_plies: _Plies = None,
    opening: Annotated[str, Query(max_length=2000)] = "",
) -> GameFilter:
    """Return which games are asked for; `opening` has the names of moves, with commas between."""
    moves = [each.strip() for each in opening.split(",") if each.strip()]
    return GameFilter(
        iteration, stage, number, player, opponent, result, min_plies, max_plies,
        opening_of(source, moves),
    )  # fmt: skip


Wanted = Annotated[GameFilter, Depends(_filter)]


@router.get("/facets")
def what_there_is(source: GamesOf) -> GameFacets:
    """Return stages, iterations and players of the games in a run or tournament."""
    return facets(source)


@router.get("")
def played(
    source: GamesOf,
    wanted: Wanted,
    offset: _Number = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_OF_PAGE)] = 50,
) -> GamePage:
    """List games, some at a time."""
    return page_of(source, wanted, offset, limit)


@router.get("/one")
def one(source: GamesOf, iteration: _Number, stage: _Name, number: _Number) -> GameResponse:
    """Return one game."""
    return one_game(source, iteration, stage, number)


@router.get("/export", response_class=StreamingResponse)
def export(source: GamesOf, wanted: Wanted, format: Format = "pgn") -> StreamingResponse:
    """Return games as a file: PGN, or a line for each with tabs between."""
    name = f"{source.path.name}-games.{_ENDINGS[format]}".encode("ascii", "replace").decode()
    name = "".join(each if each.isalnum() or each in "-._" else "_" for each in name)
    head = {"content-disposition": f'attachment; filename="{name}"'}
    parts = exported(source, wanted, format)
    begun = next(parts, "")  # a damaged file is an answer of its own, not half of one
    return StreamingResponse(chain([begun], parts), media_type=_MEDIA[format], headers=head)
