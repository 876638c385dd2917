"""Tournaments: list, ratings and cross tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from zerolab.core.errors import UserError, quoted
from zerolab.play.tournament import TOURNAMENT, Tournament
from zerolab.play.tournament_report import TournamentReport
from zerolab.store.folder import is_locked, may_be
from zerolab.web.folders import FileCache, Folders
from zerolab.web.laboratory import Lab
from zerolab.web.requests import MissingError

router = APIRouter(tags=["tournaments"], prefix="/tournaments")


class TournamentResponse(BaseModel):
    """A tournament in a list."""

    tournament: str
    """Its folder, which names it in requests."""
    game: str
    players: int
    games: int
    """Number of stored games."""
    games_planned: int
    running: bool
    problem: str
    """The damage, or empty."""


class RatingResponse(BaseModel):
    """The strength of a player; the mean of all players is 0."""

    model_config = ConfigDict(from_attributes=True)

    player: str
    elo: float
    low: float
    """Lower end of the 95 % interval."""
    high: float
    games: int
    distinct_games: int
    """The games that determine rating and interval."""
    score_rate: float
    draw_rate: float


class Meeting(BaseModel):
    """A cell of the cross table."""

    points: float
    """Points per game of the row's player."""
    games: int
    distinct_games: int
    low: float
    """Lower end of the 95 % interval of the points per game, from distinct games."""
    high: float


class TournamentDetails(BaseModel):
    """A tournament with its ratings."""

    summary: TournamentResponse
    games_per_pair: int
    openings: int
    seed: int
    ratings: list[RatingResponse]
    """Strongest first; empty if nothing can be rated yet, which `note` explains."""
    table: list[list[Meeting | None]]
    """[row][column] in the order of the ratings; None for players who have not met."""
    advantage: float | None
    """Advantage of moving first, in Elo."""
    note: str


_DETAILS: FileCache[TournamentDetails] = FileCache()
_COUNTS: FileCache[int] = FileCache()


@router.get("")
def tournaments(lab: Lab) -> list[TournamentResponse]:
    """List the tournaments, including those of studies."""
    return list_tournaments(lab.folders)


@router.get("/one")
def one_tournament(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> TournamentDetails:
    """Return ratings with intervals, and the cross table."""
    return tournament_details(open_tournament(lab.folders, tournament))


def list_tournaments(folders: Folders) -> list[TournamentResponse]:
    """Return the tournaments of the folder that is served, and those of studies."""
    return [_summary(path) for path in sorted(_find(folders))]


def open_tournament(folders: Folders, name: str) -> Tournament:
    """Return a tournament; raise UserError if the name is anything else."""
    path = folders.confined(Path(name), (folders.tournaments, folders.studies))
    found = Tournament.saved(path) if path.is_dir() else None
    if found is None:
        raise MissingError(
            f"{quoted(name)} is not a tournament: expected one of the page Tournaments"
        )
    return found


def tournament_details(tournament: Tournament) -> TournamentDetails:
    """Return ratings and cross table of the games stored so far."""
    path = tournament.path
    files = [tournament.store.path, path / TOURNAMENT.settings_file]
    details = _DETAILS.get(str(path), files, lambda: _rate(tournament))
    return details.model_copy(update={"summary": _summary(path)})  # it may be running by now


def _find(folders: Folders) -> Iterator[Path]:
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
    """Summarise a tournament; one that cannot be read is described as damaged."""
    try:
        tournament = Tournament.saved(path)
        assert tournament is not None
        store, settings = tournament.store, tournament.settings
        games = _COUNTS.get(str(path), [store.path], store.count)
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


def _rate(tournament: Tournament) -> TournamentDetails:
    settings = tournament.settings
    report, note = _report(tournament)
    return TournamentDetails(
        summary=_summary(tournament.path),
        games_per_pair=settings.games,
        openings=settings.openings,
        seed=settings.seed,
        ratings=[RatingResponse.model_validate(each) for each in report.ratings.players]
        if report
        else [],
        table=_cross_table(report) if report else [],
        advantage=report.ratings.advantage if report else None,
        note=note,
    )


def _report(tournament: Tournament) -> tuple[TournamentReport | None, str]:
    """Return the report of a tournament, or the reason why there is none yet."""
    if not tournament.store.count():
        return None, "No games are stored yet."
    try:
        return TournamentReport.of(tournament), ""
    except UserError as error:
        return None, f"Nothing can be rated yet: {error}"


def _cross_table(report: TournamentReport) -> list[list[Meeting | None]]:
    number = {name: i for i, name in enumerate(report.players)}
    table: list[list[Meeting | None]] = [[None] * len(number) for _ in number]
    for pair in report.pairs:
        (low, high), points = pair.interval, pair.score.score_rate
        counts = {"games": pair.score.games, "distinct_games": pair.distinct.games}
        i, j = number[pair.first], number[pair.second]
        table[i][j] = Meeting(points=points, low=low, high=high, **counts)
        table[j][i] = Meeting(points=1 - points, low=1 - high, high=1 - low, **counts)
    return table
