"""Games stored by runs and tournaments: filtered lists, single games and exports."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from zerolab.core.errors import quoted
from zerolab.play.game_files import ExportedGame, as_pgn, as_tsv, move_names
from zerolab.play.tournament import TOURNAMENT_FOLDER_KIND, Tournament
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.games import GameStore
from zerolab.store.listing import (
    FoundGame,
    GameFilter,
    StageSummary,
    count_matching_games,
    iterate_matching_games,
    list_matching_games,
    list_players,
    summarise_stages,
)
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.web.folders import FileCache, Folders
from zerolab.web.laboratory import Lab
from zerolab.web.requests import NotFoundError
from zerolab.web.routes.positions import WINNERS, Winner

router = APIRouter(tags=["games played"], prefix="/played")

SourceKind = Literal["run", "tournament"]
Format = Literal["pgn", "text"]

_MAX_PAGE = 200
_MEDIA = {"pgn": "application/x-chess-pgn", "text": "text/tab-separated-values"}
_SUFFIXES = {"pgn": "pgn", "text": "tsv"}
_Name = Annotated[str, Query(max_length=400)]
_Number = Annotated[int, Query(ge=0, lt=1 << 62)]
_Plies = Annotated[int | None, Query(ge=0, le=10_000)]


class GameSource(NamedTuple):
    """Run or tournament whose games are shown."""

    path: Path
    kind: SourceKind
    game: Game
    """Rules of all its games."""
    store: GameStore


class GameResponse(BaseModel):
    """Stored game."""

    folder: str
    """Folder of the run or tournament."""
    iteration: int
    """Iteration of a run; in a tournament, the number of the pairing's block of twenty games."""
    stage: str
    """Stage of a run, such as selfplay or gate; in a tournament, the pairing."""
    number: int
    """Number of the game in its iteration and stage."""
    first: str
    """Name of the first player."""
    second: str
    """Name of the second player."""
    result: Winner
    is_forfeited: bool
    """True if the game ended because the side to move forfeited or resigned."""
    plies: int
    """Number of moves."""
    given_plies: int
    """Number of moves at the start that no player chose, such as those of a random opening."""
    game: str
    """Game name, such as othello:6x6."""
    moves: list[str]


class GamePage(BaseModel):
    """Page of a list of the games that match a filter."""

    total: int
    """Number of games that match the filter."""
    offset: int
    """Number of matching games before this page."""
    games: list[GameResponse]


class GameFilterOptions(BaseModel):
    """Stages and players by which the games of a run or tournament can be filtered."""

    folder: str
    """Folder of the run or tournament."""
    kind: SourceKind
    game: str
    """Game name, such as othello:6x6."""
    game_count: int
    """Number of stored games."""
    stages: list[StageSummary]
    players: list[str]


_FILTER_OPTIONS: FileCache[GameFilterOptions] = FileCache()
_COUNTS: FileCache[int] = FileCache()


def open_game_source(folders: Folders, name: str) -> GameSource:
    """Return a run or tournament as a game source; raise UserError if `name` is neither."""
    path = folders.require_served_path(
        Path(name), (*folders.runs, folders.tournaments, folders.studies)
    )
    if is_run(path):
        run = RunFolder.open(path)
        return GameSource(path, "run", parse_game(str(run.config.get("game", ""))), run.games)
    if path.is_dir() and TOURNAMENT_FOLDER_KIND.matches(path):
        tournament = Tournament.load(path)
        assert tournament is not None
        game = parse_game(tournament.settings.game)
        return GameSource(path, "tournament", game, tournament.store)
    raise NotFoundError(f"{quoted(name)} has no games: expected a run or a tournament")


def _source(lab: Lab, source: Annotated[str, Query(min_length=1, max_length=400)]) -> GameSource:
    return open_game_source(lab.folders, source)


GameSourceParam = Annotated[GameSource, Depends(_source)]


def _filter(
    source: GameSourceParam,
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
    position = Position.start(source.game)
    for move in (each.strip() for each in opening.split(",") if each.strip()):
        position = position.play(move)
    return GameFilter(
        iteration, stage, number, player, opponent, result, min_plies, max_plies, position.history
    )


GameFilterParam = Annotated[GameFilter, Depends(_filter)]


@router.get("/facets")
def game_filter_options(source: GameSourceParam) -> GameFilterOptions:
    """Return the stages, iterations and players of the games of a run or tournament."""
    return _FILTER_OPTIONS.get(
        str(source.path), [source.store.path], lambda: _filter_options(source)
    )


@router.get("")
def matching_games(
    source: GameSourceParam,
    filter: GameFilterParam,
    offset: _Number = 0,
    limit: Annotated[int, Query(ge=1, le=_MAX_PAGE)] = 50,
    latest_first: bool = False,
) -> GamePage:
    """Return one page of the games that match a filter, sorted by iteration, stage and number.

    With `latest_first`, the order is reversed.
    """
    key = f"{source.path} {filter}"
    total = _COUNTS.get(
        key, [source.store.path], lambda: count_matching_games(source.store, filter)
    )
    matches = (
        list_matching_games(source.store, filter, offset, limit, latest_first=latest_first)
        if offset < total
        else []
    )
    games = [_game_response(source, each) for each in matches]
    return GamePage(total=total, offset=offset, games=games)


@router.get("/one")
def one_game(
    source: GameSourceParam, iteration: _Number, stage: _Name, number: _Number
) -> GameResponse:
    """Return a game by its iteration, stage and number."""
    key = GameFilter(iteration=iteration, stage=stage, number=number)
    matches = list_matching_games(source.store, key, limit=1)
    if not matches:
        raise NotFoundError(
            f"there is no game {number} in iteration {iteration}, {quoted(stage)}:"
            f" expected a game in {source.path.as_posix()}"
        )
    return _game_response(source, matches[0])


@router.get("/export", response_class=StreamingResponse)
def export_games(
    source: GameSourceParam, filter: GameFilterParam, format: Format = "pgn"
) -> StreamingResponse:
    """Return the matching games as a PGN file, or as a text file with one line per game.

    The fields of a line are separated by tabs.
    """
    name = f"{source.path.name}-games.{_SUFFIXES[format]}".encode("ascii", "replace").decode()
    name = "".join(each if each.isalnum() or each in "-._" else "_" for each in name)
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    write = as_pgn if format == "pgn" else as_tsv
    parts = write(source.game, _exported_games(source, filter))
    first = next(parts, "")  # read before responding, so that damaged files cause an error response
    return StreamingResponse(chain([first], parts), media_type=_MEDIA[format], headers=headers)


def _filter_options(source: GameSource) -> GameFilterOptions:
    stages = summarise_stages(source.store)
    return GameFilterOptions(
        folder=source.path.as_posix(),
        kind=source.kind,
        game=game_name(source.game),
        game_count=sum(each.games for each in stages),
        stages=stages,
        players=list_players(source.store),
    )


def _exported_games(source: GameSource, filter: GameFilter) -> Iterator[ExportedGame]:
    for each in iterate_matching_games(source.store, filter):
        yield ExportedGame(
            f"{source.path.as_posix()}, iteration {each.iteration}, {each.stage}",
            each.number, each.first, each.second, move_names(source.game, each.actions),
            each.result, each.is_forfeited, each.given_plies,
        )  # fmt: skip


def _game_response(source: GameSource, game: FoundGame) -> GameResponse:
    return GameResponse(
        folder=source.path.as_posix(),
        iteration=game.iteration,
        stage=game.stage,
        number=game.number,
        first=game.first,
        second=game.second,
        result=WINNERS[game.result],
        is_forfeited=game.is_forfeited,
        plies=len(game.actions),
        given_plies=game.given_plies,
        game=game_name(source.game),
        moves=list(move_names(source.game, game.actions)),
    )
