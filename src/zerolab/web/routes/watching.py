"""Progress of runs over a websocket.

The websocket ``/runs/live?run=runs/demo`` accepts one or more runs. It sends an update about each
run immediately and whenever the run changes, so that the page can reload the curves. Messages from
the page are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel

from zerolab.core.errors import UserError
from zerolab.play.game_files import move_names
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.training.live import LiveGame, read_live_progress
from zerolab.web.folders import (
    RUNNING,
    FileCache,
    Folders,
    open_run,
    progress_files,
    records_of,
    run_summary,
)
from zerolab.web.laboratory import Lab
from zerolab.web.requests import error_message
from zerolab.web.routes.positions import WINNERS, Winner
from zerolab.web.routes.runs import MAX_RUNS, RunResponse, run_response
from zerolab.web.sockets import JsonWebSocket

router = APIRouter()

_WATCH_SECONDS = 0.5
_RECORDS: FileCache[tuple[int, str]] = FileCache()


class LiveGameResponse(BaseModel):
    """Finished game of self-play."""

    iteration: int
    number: int
    """Number of the game in its iteration."""
    moves: list[str]
    result: Winner


class StageResponse(BaseModel):
    """Progress of the stage in progress."""

    iteration: int
    task: str
    """Stage, or part of a stage."""
    done: int
    """Number of finished units."""
    total: int
    """Number of units of the task."""
    unit: str
    """Unit of the work, such as games."""
    note: str
    """Speed, or the agents for which the task is waiting."""
    seconds_left: float | None
    """Estimate for the task; None before its first unit is finished."""
    run_seconds_left: float | None
    """Estimate for the run; None in the first iteration since training began."""
    latest_game: LiveGameResponse | None
    """Latest finished game of self-play in this iteration; None if there is none."""


class RunUpdate(BaseModel):
    """Progress of a run."""

    run: RunResponse
    records: int
    """Number of records of finished stages. When it increases, the curves have new points."""
    latest: str
    """One-line summary of the latest record; empty if there is none."""
    live: StageResponse | None
    """Progress of the stage in progress; None unless the run is being trained."""


@router.websocket("/runs/live")
async def live_runs(websocket: WebSocket, lab: Lab) -> None:
    """Send updates about runs to one page until the page closes."""
    socket = JsonWebSocket(websocket)
    await socket.accept()
    names = list(dict.fromkeys(websocket.query_params.getlist("run")))
    try:
        if not 1 <= len(names) <= MAX_RUNS:
            raise UserError(f"{len(names)} runs: expected 1 to {MAX_RUNS}, as in ?run=runs/demo")
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
    count, latest = _RECORDS.get(str(path), progress_files(path), lambda: _latest_record(path))
    run = run_response(run_summary(path))
    live = _stage_response(path) if run.status == RUNNING else None
    return RunUpdate(run=run, records=count, latest=latest, live=live)


def _stage_response(path: Path) -> StageResponse | None:
    """Return the progress within the stage of a run, or None if it is unknown."""
    live = read_live_progress(path)
    if live is None:
        return None
    return StageResponse(
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
    """Return a run's number of records and the summary of the latest, or 0 and "" if damaged."""
    try:
        records = records_of(RunFolder.open(path))
    except UserError:
        return 0, ""
    return len(records), " ".join(records[-1].summary().split()) if records else ""
