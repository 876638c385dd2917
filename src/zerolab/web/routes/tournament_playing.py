"""Tournaments that pages start, stop and resume, in separate `zerolab tournament` processes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.play.pairings import check_opening_length
from zerolab.play.tournament import TOURNAMENT, Tournament, TournamentSettings
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.web.folders import Folders, is_running
from zerolab.web.laboratory import (
    Lab,
    begin_command,
    is_process_alive,
    last_lines,
    output_file,
    process_file,
    require_training_allowed,
    terminate_process,
)
from zerolab.web.live_search import find_agent
from zerolab.web.requests import MissingError, RequestModel
from zerolab.web.routes.tournaments import open_tournament, tournament_path

router = APIRouter(tags=["tournaments"], prefix="/tournaments")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
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
    games: int = Field(default=20, ge=2, le=_MAX_GAMES)
    """Games per pair, half with each colour."""
    openings: int = Field(default=0, ge=0, le=60)
    """Random opening plies."""
    seed: int = Field(default=0, ge=0, lt=1 << 32)


class TournamentRequest(RequestModel):
    """Request to stop or resume a tournament."""

    tournament: str = Field(min_length=1, max_length=400)
    """Tournament folder."""


class PlayingResponse(BaseModel):
    """State of the process that plays a tournament."""

    tournament: str
    """Tournament folder."""
    at_work: bool
    """True if a process is playing the tournament or is about to."""
    may_stop: bool
    """True if pages can stop the process, which is possible only if a server started it."""
    may_resume: bool
    """True if games remain to be played and the tournament is not part of a study."""
    output: list[str]
    """Last lines of the output of the process."""


@router.get("/playing")
def playing(
    lab: Lab, tournament: Annotated[str, Query(min_length=1, max_length=400)]
) -> PlayingResponse:
    """Return whether a tournament is being played, and the latest output of the process."""
    return _playing(lab.folders, tournament)


@router.post("/start")
def start(lab: Lab, request: NewTournament) -> PlayingResponse:
    """Check all players and settings of a new tournament, and play it in a separate process."""
    require_training_allowed(lab, "playing tournaments")
    path = _new_folder(lab.folders, request.name)
    game = parse_game(request.game)
    settings = validate(
        TournamentSettings,
        {"game": game_name(game), **request.model_dump(include={"games", "openings", "seed"})},
    )
    check_opening_length(game, settings.openings)
    _check_players(lab.folders, request.players, game)
    options = [("--game", settings.game), ("--games", settings.games)]
    options += [("--openings", settings.openings), ("--seed", settings.seed)]
    arguments = [str(each) for option in options for each in option]
    _begin(lab.folders, path, [*request.players, *arguments])
    return _playing(lab.folders, path.as_posix())


@router.post("/stop")
def stop(lab: Lab, request: TournamentRequest) -> PlayingResponse:
    """Terminate the process that plays a tournament; finished games are saved."""
    require_training_allowed(lab, "playing tournaments")
    path = tournament_path(lab.folders, request.tournament)
    if not terminate_process(process_file(path)):
        if is_running(path):
            raise UserError(
                f"{request.tournament} was not started from a page: stop it where it was started"
            )
        raise UserError(f"{request.tournament} is not being played")
    return _playing(lab.folders, path.as_posix())


@router.post("/resume")
def resume(lab: Lab, request: TournamentRequest) -> PlayingResponse:
    """Play the remaining games of a tournament that is not part of a study."""
    require_training_allowed(lab, "playing tournaments")
    lab.folders.served_path(Path(request.tournament), (lab.folders.tournaments,))
    tournament = open_tournament(lab.folders, request.tournament)
    settings = tournament.settings
    _check_players(lab.folders, list(settings.players), parse_game(settings.game))
    if not tournament.remaining_game_count():
        raise UserError(f"{request.tournament} is finished: start a new tournament")
    if is_running(tournament.path):
        raise UserError(f"{request.tournament} is in use by another process")
    _begin(lab.folders, tournament.path, [])
    return _playing(lab.folders, tournament.path.as_posix())


def _begin(folders: Folders, path: Path, arguments: Sequence[str]) -> None:
    command = ["tournament", *arguments, "--folder", str(path)]
    begin_command(path, command, (), "tournaments are already being played")


def _check_players(folders: Folders, players: Sequence[str], game: Game) -> None:
    """Raise UserError unless the players are at least two agents that pages may use."""
    names = {find_agent(player, game, folders).name for player in players}
    if len(names) < 2:
        raise UserError(f"{', '.join(names)}: expected at least two different players")


def _new_folder(folders: Folders, name: str) -> Path:
    """Return the folder of a new tournament; raise UserError if `name` is invalid or used."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"name = {quoted(name)}: expected letters, digits, dots, dashes and underscores, such"
            " as first"
        )
    if TOURNAMENT.matches(folders.tournaments):
        raise UserError(
            f"the server was started for the single tournament {quoted(folders.tournaments)}:"
            " start it with a folder of tournaments to play new ones"
        )
    path = folders.served_path(folders.tournaments / name, (folders.tournaments,))
    if path.exists():
        raise UserError(f"name = {quoted(name)}: {quoted(path)} already exists; use another name")
    return path


def _playing(folders: Folders, name: str) -> PlayingResponse:
    """Return the state of a tournament. The folder of a new one may not exist yet."""
    path = tournament_path(folders, name)
    if not TOURNAMENT.matches(path) and not output_file(path).exists():
        raise MissingError(
            f"{quoted(name)} is not a tournament: expected one listed on the Tournaments page"
        )
    started_here = is_process_alive(process_file(path))
    at_work = started_here or is_running(path)
    return PlayingResponse(
        tournament=path.as_posix(),
        at_work=at_work,
        may_stop=started_here,
        may_resume=not at_work and _may_resume(folders, path),
        output=last_lines(output_file(path)),
    )


def _may_resume(folders: Folders, path: Path) -> bool:
    try:
        folders.served_path(path, (folders.tournaments,))
        tournament = Tournament.load(path)
    except UserError:
        return False
    return tournament is not None and tournament.remaining_game_count() > 0
