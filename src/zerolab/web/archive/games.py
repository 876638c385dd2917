"""Stored games: those of runs and tournaments, found, shown and exported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

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
    count_games,
    every_game,
    find_games,
    players_of_games,
    stages_of_games,
)
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.web.errors import MissingError
from zerolab.web.folders import FileCache, Folders
from zerolab.web.positions import Winner

Kind = Literal["run", "tournament"]
Format = Literal["pgn", "text"]

_WINNERS: dict[int, Winner] = {1: "first", -1: "second", 0: "draw"}


class Source(NamedTuple):
    """A folder with games."""

    path: Path
    kind: Kind
    game: Game
    store: GameStore


class GameResponse(BaseModel):
    """A stored game."""

    source: str
    """The folder of the run or tournament."""
    iteration: int
    """Of the run; of a tournament, which twenty games of a pair it belongs to."""
    stage: str
    """Such as selfplay or gate; of a tournament, the pair."""
    number: int
    first: str
    second: str
    result: Winner
    forfeit: bool
    """Whether the player to move at its end gave up."""
    plies: int
    game: str
    moves: list[str]


class GamePage(BaseModel):
    """Some of the games that a filter lets through."""

    total: int
    """How many it lets through in all."""
    offset: int
    games: list[GameResponse]


class StageResponse(BaseModel):
    """Games that are stored under one name."""

    stage: str
    first_iteration: int
    last_iteration: int
    games: int


class GameFacets(BaseModel):
    """What games of a folder can be asked for by."""

    source: str
    kind: Kind
    game: str
    games: int
    stages: list[StageResponse]
    players: list[str]


_FACETS: FileCache[GameFacets] = FileCache()
_COUNTS: FileCache[int] = FileCache()


def open_source(folders: Folders, name: str) -> Source:
    """Return a folder with games that a page names; raise UserError for any other."""
    places = (*folders.runs, folders.tournaments, folders.studies)
    path = folders.confined(Path(name), places)
    if is_run(path):
        run = RunFolder.open(path)
        return Source(path, "run", parse_game(str(run.config.get("game", ""))), run.games)
    if path.is_dir() and TOURNAMENT.is_in(path):
        tournament = Tournament.saved(path)
        assert tournament is not None
        return Source(path, "tournament", parse_game(tournament.settings.game), tournament.store)
    raise MissingError(f"{quoted(name)} has no games: expected a run or a tournament")


def facets(source: Source) -> GameFacets:
    """Return what there is to choose from in a folder; raise UserError where it is damaged."""
    return _FACETS.get(str(source.path), [source.store.path], lambda: _facets(source))


def _facets(source: Source) -> GameFacets:
    stages = stages_of_games(source.store)
    return GameFacets(
        source=source.path.as_posix(),
        kind=source.kind,
        game=game_name(source.game),
        games=sum(each.games for each in stages),
        stages=[StageResponse(**each._asdict()) for each in stages],
        players=players_of_games(source.store),
    )


def opening_of(source: Source, moves: Sequence[str]) -> tuple[int, ...]:
    """Return the actions of moves by name; raise UserError for those that are not legal."""
    at = Position.start(source.game)
    for move in moves:
        at = at.play(move)
    return at.history


def page_of(source: Source, wanted: GameFilter, offset: int, limit: int) -> GamePage:
    """Return some of the games that a filter lets through, by iteration, stage and number."""
    key = f"{source.path} {wanted}"
    total = _COUNTS.get(key, [source.store.path], lambda: count_games(source.store, wanted))
    found = find_games(source.store, wanted, offset, limit) if offset < total else []
    return GamePage(total=total, offset=offset, games=[_shown(source, each) for each in found])


def one_game(source: Source, iteration: int, stage: str, number: int) -> GameResponse:
    """Return a game by its place; raise MissingError where there is none."""
    wanted = GameFilter(iteration=iteration, stage=stage, number=number)
    found = find_games(source.store, wanted, limit=1)
    if not found:
        raise MissingError(
            f"there is no game {number} of iteration {iteration}, {quoted(stage)}:"
            f" expected one of {source.path.as_posix()}"
        )
    return _shown(source, found[0])


def exported(source: Source, wanted: GameFilter, form: Format) -> Iterator[str]:
    """Return all games that a filter lets through, as the parts of a file."""
    write = as_pgn if form == "pgn" else as_lines
    return write(source.game, _played(source, wanted))


def _played(source: Source, wanted: GameFilter) -> Iterator[PlayedGame]:
    for each in every_game(source.store, wanted):
        yield PlayedGame(
            f"{source.path.as_posix()}, iteration {each.iteration}, {each.stage}",
            each.number, each.first, each.second, move_names(source.game, each.actions),
            each.result, each.forfeit,
        )  # fmt: skip


def _shown(source: Source, found: FoundGame) -> GameResponse:
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
