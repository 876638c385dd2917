"""Tournaments: a list, ratings, cross tables, and tournaments that pages start, stop and resume."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_text
from zerolab.play.pairings import check_opening_length
from zerolab.play.tournament import TOURNAMENT_FOLDER_KIND, Tournament, TournamentSettings
from zerolab.play.tournament_report import RATINGS_FILE_NAME, TournamentReport
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.store.folder import matches_or_is_unreadable
from zerolab.web.folders import FileCache, Folders, is_running, modification_time, new_folder_path
from zerolab.web.laboratory import (
    Lab,
    is_process_alive,
    last_lines,
    process_output_path,
    process_record_path,
    require_training_allowed,
    start_command_process,
    terminate_process,
)
from zerolab.web.live_search import find_agent
from zerolab.web.requests import NotFoundError, RequestModel

router = APIRouter(tags=["tournaments"], prefix="/tournaments")


class TournamentResponse(BaseModel):
    """Tournament in a list."""

    tournament: str
    """Tournament folder, which identifies the tournament in requests."""
    game: str
    player_count: int
    """Number of players."""
    stored_games: int
    """Number of stored games."""
    planned_games: int
    """Number of games in the complete tournament."""
    is_running: bool
    """True if a process is playing the tournament."""
    problem: str
    """Description of the damage if the tournament is damaged; otherwise empty."""
    latest_progress_time: float
    """Time of the latest stored game, in seconds since 1970."""
    winner: str
    """Player with the highest rating; empty unless the tournament is finished and rated."""


class RatingResponse(BaseModel):
    """Rating of a player; the mean rating of all players is 0."""

    player: str
    elo: float
    low: float
    """Lower limit of the 95 % interval of the rating."""
    high: float
    """Upper limit of the 95 % interval of the rating."""
    games: int
    """Number of games."""
    effective_games: float
    """Number of independent games with the same information, which determines the interval."""
    score_rate: float
    """Points per game: 1 for a win, 0.5 for a draw."""
    draw_rate: float
    """Fraction of games that were drawn."""


class PairResponse(BaseModel):
    """Cell of the cross table: result of the row's player against the column's player."""

    score_rate: float
    """Points per game of the row's player."""
    games: int
    """Number of games."""
    effective_games: float
    """Number of independent games with the same information."""
    low: float
    """Lower limit of the 95 % interval of points per game, computed from effective games."""
    high: float
    """Upper limit of this interval."""


class TournamentDetails(BaseModel):
    """Tournament with ratings and a cross table."""

    tournament: TournamentResponse
    games_per_pair: int
    opening_plies: int
    """Number of random opening plies."""
    seed: int
    ratings: list[RatingResponse]
    """Ratings, strongest player first; empty if no ratings can be computed yet."""
    cross_table: list[list[PairResponse | None]]
    """Cross table, [row][column] in the order of ratings; None for players who have not met."""
    first_move_advantage: float | None
    """First-move advantage in Elo; None if no ratings can be computed yet."""
    unrated_reason: str
    """Reason why no ratings can be computed yet; empty if there are ratings."""


_DETAILS: FileCache[TournamentDetails] = FileCache()
_COUNTS: FileCache[int] = FileCache()
_WINNERS: FileCache[str] = FileCache()
_MAX_RATINGS_FILE = 1 << 22


@router.get("")
def tournaments(lab: Lab) -> list[TournamentResponse]:
    """List the tournaments, including those of studies."""
    return list_tournaments(lab.folders)


@router.get("/one")
def one_tournament(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> TournamentDetails:
    """Return the ratings and the cross table of a tournament, with intervals."""
    return tournament_details(open_tournament(lab.folders, tournament))


def list_tournaments(folders: Folders) -> list[TournamentResponse]:
    """Return the tournaments in the tournament folder and in studies."""
    listed = (each for each in _find(folders) if folders.may_list(each, folders.tournament_sources))
    return [_summary(path) for path in sorted(listed)]


def open_tournament(folders: Folders, name: str) -> Tournament:
    """Return a tournament; raise UserError if `name` is not one."""
    path = tournament_path(folders, name)
    tournament = Tournament.load(path) if path.is_dir() else None
    if tournament is None:
        raise NotFoundError(
            f"{quoted(name)} is not a tournament: expected one listed on the Tournaments page"
        )
    return tournament


def tournament_path(folders: Folders, name: str) -> Path:
    """Return the folder named `name`; raise ForbiddenError if it is not a source of tournaments."""
    return folders.require_served_path(Path(name), folders.tournament_sources)


def tournament_details(tournament: Tournament) -> TournamentDetails:
    """Return the ratings and the cross table from the games stored so far."""
    path = tournament.path
    files = [tournament.store.path, path / TOURNAMENT_FOLDER_KIND.settings_file]
    details = _DETAILS.get(str(path), files, lambda: _rate(tournament))
    # The cached summary can be outdated, because starting play changes none of these files.
    return details.model_copy(update={"tournament": _summary(path)})


def _find(folders: Folders) -> Iterator[Path]:
    """Yield all tournament folders."""
    if folders.tournaments.is_dir():
        matches = TOURNAMENT_FOLDER_KIND.matches
        if matches(folders.tournaments):
            yield folders.tournaments
        entries = folders.tournaments.iterdir()
        yield from (each for each in entries if matches_or_is_unreadable(matches, each))
    if folders.studies.is_dir():
        pattern = f"*/tournaments/*/{TOURNAMENT_FOLDER_KIND.settings_file}"
        yield from (each.parent for each in folders.studies.glob(pattern))


def _summary(path: Path) -> TournamentResponse:
    """Return the summary of a tournament, with a problem if the tournament is unreadable."""
    try:
        tournament = Tournament.load(path)
        assert tournament is not None
        store, settings = tournament.store, tournament.settings
        games = _COUNTS.get(str(path), [store.path], store.game_count)
    except UserError as error:
        return TournamentResponse(
            tournament=path.as_posix(), game="", player_count=0, stored_games=0, planned_games=0,
            is_running=False, problem=str(error), latest_progress_time=0.0, winner="",
        )  # fmt: skip
    planned = math.comb(len(settings.players), 2) * settings.games
    return TournamentResponse(
        tournament=path.as_posix(),
        game=settings.game,
        player_count=len(settings.players),
        stored_games=games,
        planned_games=planned,
        is_running=is_running(path),
        problem="",
        latest_progress_time=modification_time(store.path),
        winner=_winner(path) if games >= planned else "",
    )


def _winner(path: Path) -> str:
    """Return the best player according to the saved ratings, or "" if they are unreadable."""
    file = path / RATINGS_FILE_NAME
    return _WINNERS.get(str(path), [file], lambda: _best_rated(file))


def _best_rated(file: Path) -> str:
    try:
        players = json.loads(read_text(file, _MAX_RATINGS_FILE))["players"]
        return str(max(players, key=lambda each: float(each["elo"]))["player"])
    except (UserError, ValueError, LookupError, TypeError, RecursionError):
        return ""


def _rate(tournament: Tournament) -> TournamentDetails:
    settings = tournament.settings
    report, note = _report(tournament)
    players = report.ratings.player_ratings if report else []
    return TournamentDetails(
        tournament=_summary(tournament.path),
        games_per_pair=settings.games,
        opening_plies=settings.openings,
        seed=settings.seed,
        ratings=[RatingResponse.model_validate(each.as_dict()) for each in players],
        cross_table=_cross_table(report) if report else [],
        first_move_advantage=report.ratings.first_move_advantage if report else None,
        unrated_reason=note,
    )


def _report(tournament: Tournament) -> tuple[TournamentReport | None, str]:
    """Return a tournament's report, or the reason why there is none yet."""
    if not tournament.store.game_count():
        return None, "No games have been played yet."
    try:
        return TournamentReport.from_tournament(tournament), ""
    except UserError as error:
        return None, f"Ratings are not available yet: {error}"


def _cross_table(report: TournamentReport) -> list[list[PairResponse | None]]:
    number = {name: i for i, name in enumerate(report.players)}
    table: list[list[PairResponse | None]] = [[None] * len(number) for _ in number]
    for pair in report.pairs:
        score_rate, low, high = pair.interval
        counts = {"games": pair.score.game_count, "effective_games": pair.effective_games}
        i, j = number[pair.first], number[pair.second]
        table[i][j] = PairResponse(score_rate=score_rate, low=low, high=high, **counts)
        table[j][i] = PairResponse(score_rate=1 - score_rate, low=1 - high, high=1 - low, **counts)
    return table


_MAX_PLAYERS = 24
_MAX_GAMES = 1000

PlayerSpec = Annotated[str, Field(min_length=1, max_length=400)]


class NewTournament(RequestModel):
    """Request to start a tournament."""

    name: str = Field(min_length=1, max_length=80)
    """Name of the new folder, which is created inside the folder of tournaments."""
    game: str = Field(max_length=60)
    """Game name, such as othello:6x6."""
    players: list[PlayerSpec] = Field(min_length=2, max_length=_MAX_PLAYERS)
    """Agent specs, such as runs/demo@12 and mcts:100."""
    games_per_pair: int = Field(default=20, ge=2, le=_MAX_GAMES)
    """Games per pair, half with each colour."""
    opening_plies: int = Field(default=0, ge=0, le=60)
    """Random opening plies."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)


class TournamentActionRequest(RequestModel):
    """Request to stop or resume a tournament."""

    tournament: str = Field(min_length=1, max_length=400)
    """Tournament folder."""


class TournamentProcessResponse(BaseModel):
    """State of the process that plays a tournament."""

    tournament: str
    """Tournament folder."""
    is_running: bool
    """True if a process is playing the tournament or is about to."""
    may_stop: bool
    """True if pages can stop the process, which is possible only if a server started it."""
    may_resume: bool
    """True if games remain to be played and the tournament is not part of a study."""
    output: list[str]
    """Last lines of the output of the process."""


@router.get("/playing")
def tournament_process(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> TournamentProcessResponse:
    """Return whether a tournament is being played, and the latest output of the process."""
    return _tournament_process(lab.folders, tournament)


@router.post("/start")
def start(lab: Lab, request: NewTournament) -> TournamentProcessResponse:
    """Check all players and settings of a new tournament, and play it in a separate process."""
    require_training_allowed(lab, "playing tournaments")
    parent = lab.folders.tournaments
    if TOURNAMENT_FOLDER_KIND.matches(parent):
        raise UserError(
            f"the server was started for the single tournament {quoted(parent)}: start it with a"
            " folder of tournaments to play new ones"
        )
    path = new_folder_path(lab.folders, request.name, parent, "first")
    game = parse_game(request.game)
    settings = validate(
        TournamentSettings,
        {
            "game": game_name(game), "games": request.games_per_pair,
            "openings": request.opening_plies, "seed": request.seed,
        },
    )  # fmt: skip
    check_opening_length(game, settings.openings)
    _check_players(lab.folders, request.players, game)
    options = [("--game", settings.game), ("--games", settings.games)]
    options += [("--openings", settings.openings), ("--seed", settings.seed)]
    arguments = [str(each) for option in options for each in option]
    _begin(lab.folders, path, [*request.players, *arguments])
    return _tournament_process(lab.folders, path.as_posix())


@router.post("/stop")
def stop(lab: Lab, request: TournamentActionRequest) -> TournamentProcessResponse:
    """Terminate the process that plays a tournament; finished blocks of games are saved."""
    require_training_allowed(lab, "playing tournaments")
    path = tournament_path(lab.folders, request.tournament)
    if not terminate_process(process_record_path(path)):
        if is_running(path):
            raise UserError(
                f"{request.tournament} was not started from a page: stop it where it was started"
            )
        raise UserError(f"{request.tournament} is not being played")
    return _tournament_process(lab.folders, path.as_posix())


@router.post("/resume")
def resume(lab: Lab, request: TournamentActionRequest) -> TournamentProcessResponse:
    """Play the remaining games of a tournament that is not part of a study."""
    require_training_allowed(lab, "playing tournaments")
    lab.folders.require_served_path(Path(request.tournament), (lab.folders.tournaments,))
    tournament = open_tournament(lab.folders, request.tournament)
    settings = tournament.settings
    _check_players(lab.folders, list(settings.players), parse_game(settings.game))
    if not tournament.remaining_game_count():
        raise UserError(f"{request.tournament} is finished: start a new tournament")
    if is_running(tournament.path):
        raise UserError(f"{request.tournament} is in use by another process")
    _begin(lab.folders, tournament.path, [])
    return _tournament_process(lab.folders, tournament.path.as_posix())


def _begin(folders: Folders, path: Path, arguments: Sequence[str]) -> None:
    command = ["tournament", *arguments, "--folder", str(path)]
    start_command_process(path, command, (), "tournaments are already being played")


def _check_players(folders: Folders, players: Sequence[str], game: Game) -> None:
    """Raise UserError unless the players are at least two agents that pages may use."""
    names = {find_agent(player, game, folders).name for player in players}
    if len(names) < 2:
        raise UserError(f"{', '.join(names)}: expected at least two different players")


def _tournament_process(folders: Folders, name: str) -> TournamentProcessResponse:
    """Return the state of a tournament. The folder of a new tournament may not exist yet."""
    path = tournament_path(folders, name)
    if not TOURNAMENT_FOLDER_KIND.matches(path) and not process_output_path(path).exists():
        raise NotFoundError(
            f"{quoted(name)} is not a tournament: expected one listed on the Tournaments page"
        )
    started_here = is_process_alive(process_record_path(path))
    is_at_work = started_here or is_running(path)
    return TournamentProcessResponse(
        tournament=path.as_posix(), is_running=is_at_work, may_stop=started_here,
        may_resume=not is_at_work and _may_resume(folders, path),
        output=last_lines(process_output_path(path)),
    )  # fmt: skip


def _may_resume(folders: Folders, path: Path) -> bool:
    try:
        folders.require_served_path(path, (folders.tournaments,))
        tournament = Tournament.load(path)
    except UserError:
        return False
    return tournament is not None and tournament.remaining_game_count() > 0
