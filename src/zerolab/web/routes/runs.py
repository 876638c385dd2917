"""Runs: a list, details, curves, settings in which runs differ, and progress over a websocket.

The websocket ``/runs/live?run=runs/demo`` accepts one or more runs. It sends an update about each
run immediately and whenever the run changes, so that the page can reload the curves. Messages from
the page are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, WebSocket
from pydantic import BaseModel, ConfigDict, Field

from zerolab.core.errors import UserError
from zerolab.core.nested_tables import flatten
from zerolab.play.game_files import move_names
from zerolab.rules.position import Position
from zerolab.store.folder import read_environments
from zerolab.store.games import network_name
from zerolab.store.listing import RunSummary
from zerolab.store.run_folder import RunFolder
from zerolab.training.panels import Panel, Trend, XAxis, metric_panels
from zerolab.training.records import BaselineRecord, GateRecord
from zerolab.training.reporting import LiveGame, read_live_progress
from zerolab.web.folders import (
    RUNNING,
    FileCache,
    Folders,
    latest_progress_time,
    list_runs,
    open_run,
    progress_files,
    records_of,
    run_summary,
    run_trend,
)
from zerolab.web.laboratory import Lab
from zerolab.web.requests import JsonWebSocket, error_message
from zerolab.web.routes.positions import WINNERS, Winner

router = APIRouter(tags=["runs"], prefix="/runs")

MAX_RUNS_PER_REQUEST = 12
"""Maximum number of runs per request."""
RunName = Annotated[str, Query(min_length=1, max_length=400)]
RunNames = Annotated[list[str], Query(alias="run", min_length=1, max_length=MAX_RUNS_PER_REQUEST)]

SettingValue = str | int | float | bool | None | list[Any] | dict[str, Any]
"""Value of a setting."""

RunStatus = Literal["running", "stopped", "finished", "damaged"]


class RunResponse(BaseModel):
    """Run in a list."""

    run: str
    """Run folder, which identifies the run in requests."""
    game: str
    preset: str
    iteration: int
    """Current iteration; the last iteration in a finished run."""
    iterations: int
    """Total number of iterations in the settings."""
    next_stage: str
    """Next stage."""
    status: RunStatus
    problem: str
    """Description of the damage if the run is damaged; otherwise empty."""
    training_elo: float
    """Sum of the Elo gains of the networks over their predecessors; not comparable between runs."""
    final_score_rates: dict[str, float]
    """Points per game in the final evaluation against each opponent, such as mcts:100."""
    accuracy: float | None
    """Latest share of solved positions where the search chose a best move; None if unmeasured."""
    start_network: str
    """Network from which the run started; empty if it started from an untrained network."""
    latest_progress_time: float
    """Time of the most recent progress, in seconds since 1970."""
    trend: Trend
    """Curve of the accuracy or the loss."""


class NetworkResponse(BaseModel):
    """Saved network of a run."""

    iteration: int
    """Iteration that trained the network; 0 is the initial network."""
    training_elo: float | None
    """Training Elo; None if no gate has measured it."""
    is_best: bool
    agent: str
    """Agent spec, such as runs/demo@12."""


class BaselineResponse(BaseModel):
    """Result of a run's best network against a baseline opponent in the final evaluation."""

    model_config = ConfigDict(from_attributes=True)

    opponent: str
    wins: int
    draws: int
    losses: int
    score_rate: float
    """Points per game: 1 for a win, 0.5 for a draw."""
    low: float
    """Lower limit of the 95 % interval of the score rate."""
    high: float
    """Upper limit of the 95 % interval of the score rate."""


class EnvironmentResponse(BaseModel):
    """Hardware and software used to train a run, from `first_iteration` on."""

    model_config = ConfigDict(from_attributes=True)

    first_iteration: int = Field(validation_alias="iteration")
    """First iteration trained with this hardware and software."""
    device: str
    """Architecture of the processor, or name of the GPU."""
    processor: str
    """Model of the processor."""
    precision: str
    """Numerical precision of the layers: float32 or bfloat16."""
    threads: int
    """Number of cores available for training."""
    python: str
    """Version of Python."""
    zerolab: str
    """Version of zerolab."""
    torch: str
    """Version of PyTorch."""


class RunDetails(BaseModel):
    """Details of a run, without curves and games."""

    run: RunResponse
    settings: dict[str, SettingValue]
    """Settings by dotted key, such as search.simulations."""
    networks: list[NetworkResponse]
    """Saved networks in training order."""
    baselines: list[BaselineResponse]
    environments: list[EnvironmentResponse]
    game_count: int
    """Number of stored games."""
    seconds: float
    """Total time of the run's finished stages, in seconds."""


class SettingDifference(BaseModel):
    """Setting in which runs differ."""

    key: str
    values: list[SettingValue]
    """One value per run in request order; None if a run does not have the setting."""


@router.get("")
def runs(lab: Lab) -> list[RunResponse]:
    """List the runs in the served folders."""
    return [run_response(each) for each in list_runs(lab.folders)]


@router.get("/one")
def one_run(lab: Lab, run: RunName) -> RunDetails:
    """Return the progress, settings and networks of a run, and its hardware and software."""
    folder = open_run(lab.folders, run)
    records = records_of(folder)
    baselines = [each for each in records if isinstance(each, BaselineRecord)]
    return RunDetails(
        run=run_response(run_summary(folder.path)),
        settings=_settings(folder),
        networks=saved_networks(folder),
        baselines=[BaselineResponse.model_validate(each) for each in baselines],
        environments=[
            EnvironmentResponse.model_validate(each) for each in read_environments(folder.path)
        ],
        game_count=folder.games.game_count(),
        seconds=sum(each.wall_seconds for each in records),
    )


@router.get("/curves")
def curves(lab: Lab, names: RunNames, x: XAxis = "iterations") -> dict[str, list[Panel]]:
    """Return the curves of runs over iterations, self-play games or training hours."""
    return {name: metric_panels(records_of(open_run(lab.folders, name)), x) for name in names}


@router.get("/differences")
def setting_differences(lab: Lab, names: RunNames) -> list[SettingDifference]:
    """Return the settings in which runs differ, in the order of the first run's settings."""
    if len(set(names)) < len(names):
        raise UserError("the same run is listed twice: expected different runs")
    tables = [_settings(open_run(lab.folders, name)) for name in names]
    if len(tables) < 2:
        raise UserError("only one run to compare: expected at least two")
    keys = dict.fromkeys(key for table in tables for key in table)
    values_by_key = {key: [table.get(key) for table in tables] for key in keys}
    return [
        SettingDifference(key=key, values=values)
        for key, values in values_by_key.items()
        if any(value != values[0] for value in values)
    ]


def _settings(run: RunFolder) -> dict[str, SettingValue]:
    """Return a run's settings by dotted key; dates, which no setting has, become text."""
    known = (str, int, float, list, dict)
    values = flatten(run.config)
    return {key: value if isinstance(value, known) else str(value) for key, value in values}


def run_response(run: RunSummary) -> RunResponse:
    """Convert a run's summary to a response."""
    status, _, problem = run.status.partition(": ")
    return RunResponse(
        run=run.path, game=run.game, preset=run.preset, iteration=run.iteration,
        iterations=run.iterations, next_stage=run.next_stage, status=status, problem=problem,
        training_elo=run.training_elo, final_score_rates=dict(run.final_score_rates),
        accuracy=run.accuracy, start_network=run.start_network,
        latest_progress_time=latest_progress_time(run), trend=run_trend(Path(run.path)),
    )  # fmt: skip


def saved_networks(run: RunFolder) -> list[NetworkResponse]:
    """Return a run's saved networks in training order."""
    elo: dict[int, float] = {}
    gates = [record for record in records_of(run) if isinstance(record, GateRecord)]
    if gates:
        elo[0] = 0.0
    elo.update((record.iteration, record.elo) for record in gates if record.accepted)
    return [
        NetworkResponse(
            iteration=each,
            training_elo=elo.get(each),
            is_best=each == run.progress.best,
            agent=network_name(run.path, each),
        )
        for each in run.network_iterations()
    ]


socket_router = APIRouter()

_WATCH_SECONDS = 0.5
_RECORDS: FileCache[tuple[int, str]] = FileCache()


class LiveGameResponse(BaseModel):
    """Finished game of self-play."""

    iteration: int
    number: int
    """Number of the game in its iteration."""
    moves: list[str]
    result: Winner


class StageProgress(BaseModel):
    """Progress of the current stage, or of a part of it."""

    iteration: int
    task: str
    """Name of the stage or of a part of it."""
    done: int
    """Number of finished units."""
    total: int
    """Number of units of the task."""
    unit: str
    """Unit of `done` and `total`, such as games."""
    note: str
    """Speed, or the agents for which the task is waiting."""
    seconds_left: float | None
    """Estimated time left for the task; None before its first unit is finished."""
    run_seconds_left: float | None
    """Estimated time left for the run; None if unknown, for example in the first iteration of
    training if there is no time limit."""
    latest_game: LiveGameResponse | None
    """Latest finished game of self-play in this iteration; None if there is none."""


class RunUpdate(BaseModel):
    """Progress of a run."""

    run: RunResponse
    record_count: int
    """Number of records of finished stages. When it increases, the curves have new points."""
    latest_record_summary: str
    """One-line summary of the latest record; empty if there is none."""
    stage_progress: StageProgress | None
    """Progress of the current stage; None unless the run is being trained."""


@socket_router.websocket("/runs/live")
async def runs_socket(websocket: WebSocket, lab: Lab) -> None:
    """Send updates about runs to one page until the page closes."""
    socket = JsonWebSocket(websocket)
    await socket.accept()
    names = list(dict.fromkeys(websocket.query_params.getlist("run")))
    try:
        if not 1 <= len(names) <= MAX_RUNS_PER_REQUEST:
            raise UserError(
                f"{len(names)} runs: expected 1 to {MAX_RUNS_PER_REQUEST}, as in ?run=runs/demo"
            )
        paths = await asyncio.to_thread(_paths, lab.folders, names)
    except UserError as error:
        await socket.send({"error": error_message(error)})
        paths = []

    async def send_updates() -> None:
        if paths:
            async for update in watch_runs(paths):
                await socket.send(update)

    sending = asyncio.create_task(send_updates())
    try:
        async for _ in socket.messages():
            pass
    finally:
        sending.cancel()


async def watch_runs(runs: Sequence[Path]) -> AsyncIterator[RunUpdate]:
    """Yield an update about every run immediately, and about each run whenever it changes."""
    previous: dict[Path, RunUpdate] = {}
    while True:
        for path in runs:
            update = await asyncio.to_thread(_update, path)
            if previous.get(path) != update:
                previous[path] = update
                yield update
        await asyncio.sleep(_WATCH_SECONDS)


def _paths(folders: Folders, names: Sequence[str]) -> list[Path]:
    return [open_run(folders, name).path for name in names]


def _update(path: Path) -> RunUpdate:
    count, summary = _RECORDS.get(str(path), progress_files(path), lambda: _latest_record(path))
    run = run_response(run_summary(path))
    return RunUpdate(
        run=run,
        record_count=count,
        latest_record_summary=summary,
        stage_progress=_stage_progress(path) if run.status == RUNNING else None,
    )


def _stage_progress(path: Path) -> StageProgress | None:
    """Return the progress within the stage of a run, or None if it is unknown."""
    live = read_live_progress(path)
    if live is None:
        return None
    return StageProgress(
        **live.model_dump(exclude={"latest_game"}, exclude_none=False),
        latest_game=live.latest_game and _game_response(path, live.iteration, live.latest_game),
    )


def _game_response(path: Path, iteration: int, game: LiveGame) -> LiveGameResponse | None:
    """Return a game with the names of its moves, or None if they are not moves of the game."""
    try:
        position = Position.start(str(RunFolder.open(path).config.get("game", "")))
        for action in game.actions:
            position = position.play(action)
    except UserError:
        return None
    moves = list(move_names(position.game, game.actions))
    result = WINNERS[game.result]
    return LiveGameResponse(iteration=iteration, number=game.number, moves=moves, result=result)


def _latest_record(path: Path) -> tuple[int, str]:
    """Return the number of a run's records and the latest summary, or 0 and "" if damaged."""
    try:
        records = records_of(RunFolder.open(path))
    except UserError:
        return 0, ""
    return len(records), " ".join(records[-1].summary().split()) if records else ""
