"""Stored games of runs and tournaments: filtered lists, single games and export."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from zerolab.core.errors import quoted
from zerolab.play.game_files import PlayedGame, as_lines, as_pgn, move_names
from zerolab.play.tournament import TOURNAMENT, Tournament
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.games import GameStore
from zerolab.store.listing import (
    FoundGame,
    GameFilter,
    StageOfGames,
    count_games,
    every_game,
    find_games,
    players_of_games,
    stages_of_games,
)
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.web.folders import FileCache, Folders
from zerolab.web.laboratory import Lab
from zerolab.web.requests import MissingError
from zerolab.web.routes.positions import Winner

router = APIRouter(tags=["games played"], prefix="/played")

SourceKind = Literal["run", "tournament"]
Format = Literal["pgn", "text"]

_WINNERS: dict[int, Winner] = {1: "first", -1: "second", 0: "draw"}
_MAX_PAGE = 200
_MEDIA = {"pgn": "application/x-chess-pgn", "text": "text/tab-separated-values"}
_SUFFIXES = {"pgn": "pgn", "text": "tsv"}
_Name = Annotated[str, Query(max_length=400)]
_Number = Annotated[int, Query(ge=0, lt=1 << 62)]
_Plies = Annotated[int | None, Query(ge=0, le=10_000)]


class GameSource(NamedTuple):
    """A folder with games."""

    path: Path
    kind: SourceKind
    game: Game
    store: GameStore


class GameResponse(BaseModel):
    """A stored game."""

    source: str
    """The folder of the run or tournament."""
    iteration: int
    """Of the run; in a tournament, the number of the twenty games of a pairing it belongs to."""
    stage: str
    """Such as selfplay or gate; in a tournament, the pairing."""
    number: int
    first: str
    second: str
    result: Winner
    forfeit: bool
    """True if the player to move gave up at the end."""
    plies: int
    game: str
    moves: list[str]


class GamePage(BaseModel):
    """A section of the games that pass a filter."""

    total: int
    """Number of games that pass the filter."""
    offset: int
    games: list[GameResponse]


class GameFacets(BaseModel):
    """Values by which games of a folder can be filtered."""

    source: str
    kind: SourceKind
    game: str
    games: int
    stages: list[StageOfGames]
    players: list[str]


_FACETS: FileCache[GameFacets] = FileCache()
_COUNTS: FileCache[int] = FileCache()


def open_source(folders: Folders, name: str) -> GameSource:
    """Return a folder with games; raise UserError if the name is anything else."""
    places = (*folders.runs, folders.tournaments, folders.studies)
    path = folders.confined(Path(name), places)
    if is_run(path):
        run = RunFolder.open(path)
        return GameSource(path, "run", parse_game(str(run.config.get("game", ""))), run.games)
    if path.is_dir() and TOURNAMENT.is_in(path):
        played = Tournament.saved(path)
        assert played is not None
        return GameSource(path, "tournament", parse_game(played.settings.game), played.store)
    raise MissingError(f"{quoted(name)} has no games: expected a run or a tournament")


def _source(lab: Lab, source: Annotated[str, Query(min_length=1, max_length=400)]) -> GameSource:
    return open_source(lab.folders, source)


Source = Annotated[GameSource, Depends(_source)]


def _filter(
    source: Source,
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
    """Return a filter; `opening` is a comma-separated list of moves."""
    at = Position.start(source.game)
    for move in (each.strip() for each in opening.split(",") if each.strip()):
        at = at.play(move)
    return GameFilter(
        iteration, stage, number, player, opponent, result, min_plies, max_plies, at.history
    )


Filter = Annotated[GameFilter, Depends(_filter)]


@router.get("/facets")
def facets(source: Source) -> GameFacets:
    """Return stages, iterations and players of the games in a run or tournament."""
    return _FACETS.get(str(source.path), [source.store.path], lambda: _facets(source))


@router.get("")
def played(
    source: Source,
    filter: Filter,
    offset: _Number = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_PAGE)] = 50,
) -> GamePage:
    """List games by iteration, stage and number, one section at a time."""
    key = f"{source.path} {filter}"
    total = _COUNTS.get(key, [source.store.path], lambda: count_games(source.store, filter))
    found = find_games(source.store, filter, offset, limit) if offset < total else []
    games = [_game_response(source, each) for each in found]
    return GamePage(total=total, offset=offset, games=games)


@router.get("/one")
def one(source: Source, iteration: _Number, stage: _Name, number: _Number) -> GameResponse:
    """Return one game."""
    place = GameFilter(iteration=iteration, stage=stage, number=number)
    found = find_games(source.store, place, limit=1)
    if not found:
        raise MissingError(
            f"there is no game {number} of iteration {iteration}, {quoted(stage)}:"
            f" expected one of {source.path.as_posix()}"
        )
    return _game_response(source, found[0])


@router.get("/export", response_class=StreamingResponse)
def export(source: Source, filter: Filter, format: Format = "pgn") -> StreamingResponse:
    """Return games as a file: PGN, or one line of tab-separated fields per game."""
    name = f"{source.path.name}-games.{_SUFFIXES[format]}".encode("ascii", "replace").decode()
    name = "".join(each if each.isalnum() or each in "-._" else "_" for each in name)
    head = {"content-disposition": f'attachment; filename="{name}"'}
    write = as_pgn if format == "pgn" else as_lines
    parts = write(source.game, _played_games(source, filter))
    begun = next(parts, "")  # now, so that a damaged file gives an error instead of half a response
    return StreamingResponse(chain([begun], parts), media_type=_MEDIA[format], headers=head)


def _facets(source: GameSource) -> GameFacets:
    stages = stages_of_games(source.store)
    return GameFacets(
        source=source.path.as_posix(),
        kind=source.kind,
        game=game_name(source.game),
        games=sum(each.games for each in stages),
        stages=stages,
        players=players_of_games(source.store),
    )


def _played_games(source: GameSource, filter: GameFilter) -> Iterator[PlayedGame]:
    for each in every_game(source.store, filter):
        yield PlayedGame(
            f"{source.path.as_posix()}, iteration {each.iteration}, {each.stage}",
            each.number, each.first, each.second, move_names(source.game, each.actions),
            each.result, each.forfeit,
        )  # fmt: skip


def _game_response(source: GameSource, found: FoundGame) -> GameResponse:
    return GameResponse(
        source=source.path.as_posix(),
        iteration=found.iteration,
        stage=found.stage,
        number=found.number,
        first=found.first,
        second=found.second,
        result=_WINNERS[found.result],
        forfeit=found.forfeit,
        plies=len(found.actions),
        game=game_name(source.game),
        moves=list(move_names(source.game, found.actions)),
    )
