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
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import (
    FileCache,
    Folders,
    open_run,
    progress_files,
    records_of,
    run_summary,
)
from zerolab.web.laboratory import Lab
from zerolab.web.requests import error_message
from zerolab.web.routes.runs import MAX_RUNS, RunResponse, run_response
from zerolab.web.sockets import JsonWebSocket

router = APIRouter()

_WATCH_SECONDS = 0.5
_RECORDS: FileCache[tuple[int, str]] = FileCache()


class RunUpdate(BaseModel):
    """Progress of a run."""

    run: RunResponse
    records: int
    """Number of records of finished stages. When it increases, the curves have new points."""
    latest: str
    """One-line summary of the latest record; empty if there is none."""


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
    return RunUpdate(run=run_response(run_summary(path)), records=count, latest=latest)


def _latest_record(path: Path) -> tuple[int, str]:
    """Return a run's number of records and the summary of the latest, or 0 and "" if damaged."""
    try:
        records = records_of(RunFolder.open(path))
    except UserError:
        return 0, ""
    return len(records), " ".join(records[-1].summary().split()) if records else ""
