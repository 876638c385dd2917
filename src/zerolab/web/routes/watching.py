"""Progress of runs, over a websocket.

It is opened at ``/runs/live?run=runs/demo``, with one run or several, and sends a message for each
of them at once, and then whenever one changes; the page asks for curves again. What the page sends
is not looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel

from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.web.errors import error_message
from zerolab.web.folders import FileCache, Folders, open_run, records_of, summary, watched
from zerolab.web.laboratory import Lab
from zerolab.web.routes.runs import MOST_AT_ONCE, RunResponse, run_response
from zerolab.web.sockets import Socket

_LOOK_SECONDS = 0.5
_RECORDS: FileCache[tuple[int, str]] = FileCache()


class RunNews(BaseModel):
    """How far a run has come."""

    run: RunResponse
    records: int
    """Records of finished stages; where there are more than before, curves have grown."""
    latest: str
    """What the latest one says, in one line."""


async def watch(runs: Sequence[Path]) -> AsyncIterator[RunNews]:
    """Yield news of every run at once, and whenever it changes, as long as it is iterated."""
    former: dict[Path, RunNews] = {}
    while True:
        for path in runs:
            news = await asyncio.to_thread(_news, path)
            if former.get(path) != news:
                former[path] = news
                yield news
        await asyncio.sleep(_LOOK_SECONDS)


def _news(path: Path) -> RunNews:
    count, latest = _RECORDS.get(str(path), watched(path), lambda: _recorded(path))
    return RunNews(run=run_response(summary(path)), records=count, latest=latest)


def _recorded(path: Path) -> tuple[int, str]:
    """Return how many records a run has, and what the latest says; a damaged run has none."""
    try:
        records = records_of(RunFolder.open(path))
    except UserError:
        return 0, ""
    return len(records), " ".join(records[-1].summary().split()) if records else ""


router = APIRouter()


@router.websocket("/runs/live")
async def live(websocket: WebSocket, lab: Lab) -> None:
    """Tell one page about runs until it leaves."""
    socket = Socket(websocket)
    await socket.accept()
    names = list(dict.fromkeys(websocket.query_params.getlist("run")))
    try:
        if not 1 <= len(names) <= MOST_AT_ONCE:
            raise UserError(
                f"{len(names)} runs: expected 1 to {MOST_AT_ONCE}, as in ?run=runs/demo"
            )
        paths = await asyncio.to_thread(_paths, lab.folders, names)
    except UserError as error:
        await socket.send({"error": error_message(error)})
        paths = []

    async def tell() -> None:
        if paths:
            async for news in watch(paths):
                await socket.send(news)

    telling = asyncio.create_task(tell())
    try:
        async for _ in socket.messages():
            pass
    finally:
        telling.cancel()


def _paths(folders: Folders, names: Sequence[str]) -> list[Path]:
    return [open_run(folders, name).path for name in names]
