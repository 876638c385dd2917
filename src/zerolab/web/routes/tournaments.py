"""Tournaments: list, ratings and cross tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel

from zerolab.core.errors import UserError, quoted
from zerolab.play.tournament import TOURNAMENT, Tournament
from zerolab.play.tournament_report import TournamentReport
from zerolab.store.folder import is_locked, may_be
from zerolab.web.errors import MissingError
from zerolab.web.folders import FileCache, Folders
from zerolab.web.laboratory import Lab


class TournamentResponse(BaseModel):
    """A tournament in a list."""

    tournament: str
    """Its folder, which names it in requests."""
    game: str
    players: int
    games: int
    """How many are stored."""
    games_planned: int
    running: bool
    problem: str
    """What is damaged; empty where nothing is."""


class RatingResponse(BaseModel):
    """How strong a player is; all players together have the mean 0."""

    player: str
    elo: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    games: int
    distinct_games: int
    """Those that rating and interval are made from."""
    score_rate: float
    draw_rate: float


class Meeting(BaseModel):
    """A cell of the cross table."""

    points: float
    """Per game, of the row's player."""
    games: int
    distinct_games: int
    low: float
    """Lower end of the 95 % interval of the points per game, from distinct games."""
    high: float


class TournamentDetails(BaseModel):
    """A tournament and what its games say."""

    summary: TournamentResponse
    games_per_pair: int
    openings: int
    seed: int
    ratings: list[RatingResponse]
    """The strongest first; empty where there is nothing to rate yet, which `note` explains."""
    table: list[list[Meeting | None]]
    """[row][column] in the order of the ratings; None where two have not met."""
    advantage: float | None
    """What moving first is worth, in Elo."""
    note: str


class _Judged(NamedTuple):
    """What is made from the games alone."""

    ratings: list[RatingResponse]
    table: list[list[Meeting | None]]
    advantage: float | None
    note: str


_JUDGED: FileCache[_Judged] = FileCache()
_COUNTED: FileCache[int] = FileCache()


def list_tournaments(folders: Folders) -> list[TournamentResponse]:
    """Return the tournaments of the folder that is served, and those of studies."""
    return [_summary(path) for path in sorted(_found(folders))]


def open_tournament(folders: Folders, name: str) -> Tournament:
    """Return a tournament that a page names; raise UserError for anything else."""
    path = folders.confined(Path(name), (folders.tournaments, folders.studies))
    found = Tournament.saved(path) if path.is_dir() else None
    if found is None:
        raise MissingError(f"{quoted(name)} is not a tournament: expected one of the page")
    return found


def tournament_details(tournament: Tournament) -> TournamentDetails:
    """Return ratings and cross table of the games that are stored."""
    path, settings = tournament.path, tournament.settings
    files = [tournament.store.path, path / TOURNAMENT.settings_file]
    judged = _JUDGED.get(str(path), files, lambda: _judge(tournament))
    return TournamentDetails(
        summary=_summary(path),
        games_per_pair=settings.games,
        openings=settings.openings,
        seed=settings.seed,
        **judged._asdict(),
    )


def _found(folders: Folders) -> Iterator[Path]:
    """Yield the folders of tournaments."""
    if folders.tournaments.is_dir():
        if TOURNAMENT.is_in(folders.tournaments):
            yield folders.tournaments
        inside = folders.tournaments.iterdir()
        yield from (each for each in inside if may_be(TOURNAMENT.is_in, each))
    if folders.studies.is_dir():
        played = folders.studies.glob(f"*/tournaments/*/{TOURNAMENT.settings_file}")
        yield from (each.parent for each in played)


def _summary(path: Path) -> TournamentResponse:
    """Describe a tournament; one that cannot be read is described as damaged."""
    try:
        tournament = Tournament.saved(path)
        assert tournament is not None
        store, settings = tournament.store, tournament.settings
        games = _COUNTED.get(str(path), [store.path], store.count)
    except UserError as error:
        return TournamentResponse(
            tournament=path.as_posix(), game="", players=0, games=0, games_planned=0,
            running=False, problem=str(error),
        )  # fmt: skip
    return TournamentResponse(
        tournament=path.as_posix(),
        game=settings.game,
        players=len(settings.players),
        games=games,
        games_planned=math.comb(len(settings.players), 2) * settings.games,
        running=is_locked(path),
        problem="",
    )


def _judge(tournament: Tournament) -> _Judged:
    if not tournament.store.count():
        return _Judged([], [], None, "No games are stored yet.")
    try:
        report = TournamentReport.of(tournament)
    except UserError as error:
        return _Judged([], [], None, f"There is nothing to rate yet: {error}")
    ratings = [
        RatingResponse(**{name: getattr(each, name) for name in RatingResponse.model_fields})
        for each in report.ratings.players
    ]
    return _Judged(ratings, _table(report), report.ratings.advantage, "")


def _table(report: TournamentReport) -> list[list[Meeting | None]]:
    number = {name: i for i, name in enumerate(report.players)}
    table: list[list[Meeting | None]] = [[None] * len(number) for _ in number]
    for pair in report.pairs:
        (low, high), points = pair.interval, pair.score.score_rate
        counts = {"games": pair.score.games, "distinct_games": pair.distinct.games}
        i, j = number[pair.first], number[pair.second]
        table[i][j] = Meeting(points=points, low=low, high=high, **counts)
        table[j][i] = Meeting(points=1 - points, low=1 - high, high=1 - low, **counts)
    return table


router = APIRouter(tags=["tournaments"], prefix="/tournaments")


@router.get("")
def tournaments(lab: Lab) -> list[TournamentResponse]:
    """List the tournaments, those of studies included."""
    return list_tournaments(lab.folders)


@router.get("/one")
def one_tournament(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> TournamentDetails:
    """Return ratings with intervals, and the cross table."""
    return tournament_details(open_tournament(lab.folders, tournament))
