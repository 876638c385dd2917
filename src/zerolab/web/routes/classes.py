"""Class: pupils' agents, the teacher's tournament, and the standings on the wall display."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection

from zerolab.agents.file_agents import save_uploaded_agent
from zerolab.agents.specs import named_path
from zerolab.core.errors import UserError, quoted
from zerolab.play.pairings import check_opening_length
from zerolab.play.tournament import Tournament
from zerolab.play.tournament_report import TournamentReport
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.listing import latest_games
from zerolab.web.classroom import Classroom, ClassTournament, ClassTournamentProcess, TokenHolder
from zerolab.web.folders import FileCache, Folders, progress_files
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import find_agent
from zerolab.web.requests import ForbiddenError, NotFoundError, RequestModel, Role, client_of
from zerolab.web.routes.positions import WINNERS, Winner
from zerolab.web.routes.tournaments import RatingResponse
from zerolab.web.security import TOKEN_HOLDER_SCOPE_KEY

router = APIRouter(tags=["class"], prefix="/class")

MAX_PLAYOUTS = 1000
"""Maximum number of playouts or simulations per move in the tournament of a class."""
_DEFAULT_PLAYOUTS = 100
_LATEST = 12  # number of games shown on the wall

PupilAgentKind = Literal["random", "mcts", "rave", "rhea", "network"]


class AgentChoice(RequestModel):
    """Agent that a pupil enters."""

    kind: PupilAgentKind
    playouts: int = Field(default=_DEFAULT_PLAYOUTS, ge=1, le=MAX_PLAYOUTS)
    """Playouts or simulations per move; ignored for the `random` kind."""
    network: str = Field(default="", max_length=400)
    """Run or network of a run, such as runs/demo@12; only for the `network` kind."""


class ClassTournamentRequest(RequestModel):
    """Request to start a tournament with all agents that can play a game."""

    game: str = Field(max_length=60)
    games_per_pair: int = Field(default=2, ge=2, le=20, multiple_of=2)
    """Games per pair, half with each colour."""
    opening_plies: int = Field(default=2, ge=0, le=20)
    """Random plies at the start of a game."""


class GameChoiceRequest(RequestModel):
    """Game for which pupils enter agents."""

    game: str = Field(max_length=60)


class TournamentState(BaseModel):
    """State of the latest tournament of a class."""

    number: int
    folder: str
    """Folder of the tournament, which identifies the tournament on the Replay page."""
    game: str
    is_running: bool
    """True if a process is playing the tournament or is about to."""
    stored_games: int
    """Number of games stored so far."""
    planned_games: int
    """Number of games in the complete tournament."""
    problem: str
    """Reason why games are missing; empty if none are missing."""


class PupilView(BaseModel):
    """Pupil's view of the class. `max_playouts` is the maximum number of playouts per move."""

    name: str
    game: str
    """Game for which pupils enter agents."""
    agent: str
    """Spec of the pupil's agent; empty if there is none."""
    problem: str
    """Reason why the agent cannot play; empty if it can."""
    max_playouts: int
    tournament: TournamentState | None


class PupilResponse(BaseModel):
    """Pupil in the teacher's list."""

    name: str
    agent: str
    problem: str
    """Reason why the agent cannot play; empty if it can."""


class TeacherView(BaseModel):
    """Teacher's view of the class."""

    game: str
    pupils: list[PupilResponse]
    tournament: TournamentState | None


class FinishedGameResponse(BaseModel):
    """Finished game, identified by its iteration, stage and number."""

    iteration: int
    stage: str
    number: int
    first: str
    second: str
    result: Winner


class Standings(BaseModel):
    """Standings and latest games of the latest tournament."""

    pupil_count: int
    """Number of pupils in the class."""
    agent_count: int
    """Number of pupils with an agent."""
    tournament: TournamentState | None
    ratings: list[RatingResponse]
    """Ratings with 95 % intervals, strongest first; empty if none can be computed yet."""
    latest_games: list[FinishedGameResponse]
    """Most recently finished games, latest first."""


class _Check(NamedTuple):
    """Result of checking whether an agent can play a game."""

    name: str
    """Canonical spec, with the iteration of a run's network; empty if the agent cannot play."""
    problem: str
    """Reason why the agent cannot play; empty if it can."""


_CHECKS: FileCache[_Check] = FileCache()
_COUNTS: FileCache[int] = FileCache()
_RATINGS: FileCache[list[RatingResponse]] = FileCache()


def role_of(connection: HTTPConnection) -> Role:
    """Return the role of the person who sent a request."""
    if connection.app.state.laboratory.classroom is None:
        return "owner"
    return "pupil" if pupil_of(connection) else "teacher"


def pupil_of(connection: HTTPConnection) -> str:
    """Return the name of the pupil who sent a request; empty for everyone else."""
    holder: TokenHolder | None = connection.scope.get(TOKEN_HOLDER_SCOPE_KEY)
    return "" if holder is None else holder.name


def _classroom(lab: Lab) -> Classroom:
    if lab.classroom is None:
        raise NotFoundError("no class: restart the server with zerolab serve --class NAMES.txt")
    return lab.classroom


def _class_process(lab: Lab) -> ClassTournamentProcess:
    _classroom(lab)
    assert lab.class_process is not None
    return lab.class_process


def _pupil(connection: Request) -> str:
    name = pupil_of(connection)
    if not name:
        raise ForbiddenError("only pupils can enter agents: open a pupil's link")
    return name


ClassroomParam = Annotated[Classroom, Depends(_classroom)]
ClassProcessParam = Annotated[ClassTournamentProcess, Depends(_class_process)]
PupilNameParam = Annotated[str, Depends(_pupil)]


@router.get("/mine")
def pupil_view(
    lab: Lab, classroom: ClassroomParam, process: ClassProcessParam, name: PupilNameParam
) -> PupilView:
    """Return the agent of the pupil who sent the request, and the state of the tournament."""
    game, agent = classroom.state.game, classroom.pupil(name).agent
    return PupilView(
        name=name, game=game, agent=agent,
        problem=_problem(lab.folders, agent, game),
        max_playouts=MAX_PLAYOUTS, tournament=_state(classroom, process),
    )  # fmt: skip


@router.post("/mine")
def enter_agent(
    lab: Lab, classroom: ClassroomParam, process: ClassProcessParam,
    name: PupilNameParam, request: AgentChoice,
) -> PupilView:  # fmt: skip
    """Check an agent and make it the agent of the pupil who sent the request."""
    game = parse_game(classroom.state.game)
    spec = request.kind if request.kind == "random" else f"{request.kind}:{request.playouts}"
    if request.kind == "network":
        network = lab.folders.require_served_network_path(request.network)
        if not request.network or re.search("[?#:]", network):
            raise UserError(f"network = {quoted(network)}: expected a run, such as runs/demo@12")
        spec = f"{network}?simulations={request.playouts}"
    find_agent(spec, game, lab.folders)
    classroom.set_agent(name, spec)
    return pupil_view(lab, classroom, process, name)


@router.post("/file")
async def enter_agent_file(
    lab: Lab, classroom: ClassroomParam, process: ClassProcessParam,
    name: PupilNameParam, connection: Request,
) -> PupilView:  # fmt: skip
    """Check an agent file, written by `zerolab export`, and make it the pupil's agent."""
    with lab.uploads.hold(client_of(connection)):
        content = await connection.body()
        await run_in_threadpool(_store_file, lab.folders, classroom, name, content)
    return await run_in_threadpool(pupil_view, lab, classroom, process, name)


def _store_file(folders: Folders, classroom: Classroom, name: str, content: bytes) -> None:
    with classroom.lock:  # otherwise another pupil's change would remove the unused file
        path = save_uploaded_agent(classroom.upload_folder, content)
        spec = f"{path.as_posix()}?simulations={_DEFAULT_PLAYOUTS}"
        try:
            find_agent(spec, parse_game(classroom.state.game), folders)
        except UserError:
            classroom.set_agent(name, classroom.pupil(name).agent)  # removes the unused file
            raise
        classroom.set_agent(name, spec)


@router.get("/standings")
def standings(classroom: ClassroomParam, process: ClassProcessParam) -> Standings:
    """Return the standings of the latest tournament and its most recently finished games."""
    class_state = classroom.state
    tournament_state = _state(classroom, process)
    tournament = _tournament(classroom)
    games = latest_games(tournament.store, _LATEST) if tournament is not None else []
    return Standings(
        pupil_count=len(class_state.pupils),
        agent_count=sum(bool(each.agent) for each in class_state.pupils),
        tournament=tournament_state,
        ratings=_ratings(tournament) if tournament is not None and games else [],
        latest_games=[
            FinishedGameResponse(
                iteration=each.iteration, stage=each.stage, number=each.number,
                first=each.first, second=each.second, result=WINNERS[each.result],
            )
            for each in games
        ],
    )  # fmt: skip


@router.get("/manage")
def teacher_view(lab: Lab, classroom: ClassroomParam, process: ClassProcessParam) -> TeacherView:
    """Return the pupils with their agents, and the state of the tournament."""
    game = classroom.state.game
    return TeacherView(
        game=game,
        pupils=[
            PupilResponse(
                name=each.name, agent=each.agent, problem=_problem(lab.folders, each.agent, game)
            )
            for each in classroom.state.pupils
        ],
        tournament=_state(classroom, process),
    )


@router.post("/manage/game")
def choose_game(
    lab: Lab, classroom: ClassroomParam, process: ClassProcessParam, request: GameChoiceRequest
) -> TeacherView:
    """Choose the game for which pupils enter agents."""
    classroom.update_state(game=game_name(parse_game(request.game)))
    return teacher_view(lab, classroom, process)


@router.post("/manage/start")
def start(
    lab: Lab, classroom: ClassroomParam, process: ClassProcessParam, request: ClassTournamentRequest
) -> TeacherView:
    """Begin a new tournament with all agents that can play the game."""
    game = parse_game(request.game)
    check_opening_length(game, request.opening_plies)
    with classroom.lock:  # otherwise a pupil's change could remove the file of a player
        _begin(lab, classroom, process, request.model_copy(update={"game": game_name(game)}))
    return teacher_view(lab, classroom, process)


def _begin(
    lab: Lab, classroom: Classroom, process: ClassTournamentProcess, request: ClassTournamentRequest
) -> None:
    """Begin a tournament; a run is represented by its current best network."""
    names = {
        each.name: _check(lab.folders, each.agent, request.game).name
        for each in classroom.state.pupils
        if each.agent
    }
    agents = {pupil: name for pupil, name in names.items() if name}
    if len(agents) < 2:
        raise UserError(
            f"{len(agents)} of {len(classroom.state.pupils)} pupils"
            f" {'has' if len(agents) == 1 else 'have'} an agent for {request.game}:"
            " expected at least two"
        )
    process.play(ClassTournament(
        number=classroom.next_tournament_number(), game=request.game, agents=agents,
        games=request.games_per_pair, openings=request.opening_plies, is_playing=True,
    ))  # fmt: skip


@router.post("/manage/continue")
def resume(lab: Lab, classroom: ClassroomParam, process: ClassProcessParam) -> TeacherView:
    """Play the remaining games of the latest tournament."""
    if classroom.state.tournament is None:
        raise UserError("there is no tournament yet: start one")
    process.play(classroom.state.tournament)
    return teacher_view(lab, classroom, process)


@router.post("/manage/stop")
def stop(lab: Lab, classroom: ClassroomParam, process: ClassProcessParam) -> TeacherView:
    """Stop the tournament; the games stored so far are kept."""
    process.stop()
    return teacher_view(lab, classroom, process)


def _problem(folders: Folders, agent: str, game: str) -> str:
    """Return the reason why an agent cannot play a game, or an empty string."""
    return _check(folders, agent, game).problem if agent else ""


def _check(folders: Folders, agent: str, game: str) -> _Check:
    """Check whether an agent can play a game; its files are read again only if they change."""

    def check() -> _Check:
        try:
            return _Check(find_agent(agent, parse_game(game), folders).name, "")
        except UserError as error:
            return _Check("", str(error))

    head = named_path(agent) or ""
    paths = [Path(each) for each in (head, head.rpartition("@")[0]) if each]
    files = [file for path in paths for file in (path, *progress_files(path))]
    return _CHECKS.get(f"{folders} {game} {agent}", files, check)


def _tournament(classroom: Classroom) -> Tournament | None:
    """Return the latest tournament, or None until its folder exists."""
    latest = classroom.state.tournament
    path = None if latest is None else classroom.tournament_folder(latest.number)
    return Tournament.load(path) if path is not None and path.is_dir() else None


def _state(classroom: Classroom, process: ClassTournamentProcess) -> TournamentState | None:
    latest = classroom.state.tournament
    if latest is None:
        return None
    tournament = _tournament(classroom)
    store = None if tournament is None else tournament.store
    stored = 0 if store is None else _COUNTS.get(str(store.path), [store.path], store.game_count)
    return TournamentState(
        number=latest.number,
        folder=classroom.tournament_folder(latest.number).as_posix(),
        game=latest.game,
        is_running=latest.is_playing,
        stored_games=stored,
        planned_games=math.comb(len(latest.agents), 2) * latest.games,
        problem=process.problem,
    )


def _ratings(tournament: Tournament) -> list[RatingResponse]:
    """Return the ratings of a tournament, or an empty list if they cannot be computed yet."""

    def rate() -> list[RatingResponse]:
        try:
            players = TournamentReport.from_tournament(tournament).ratings.player_ratings
        except UserError:
            return []
        return [RatingResponse.model_validate(each.as_dict()) for each in players]

    path = tournament.store.path
    return _RATINGS.get(str(path), [path], rate)
