"""A page's websocket that tells when runs have come further.

It is opened at ``/runs/live?run=runs/demo``, with one run or several, and sends a message for each
of them at once, and then whenever one changes; the page asks for curves again. What the page sends
is not looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter, WebSocket

from zerolab.core.errors import UserError
from zerolab.web.archive.runs import open_run
from zerolab.web.archive.watching import watch
from zerolab.web.errors import told
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Lab
from zerolab.web.routes.runs import MOST_AT_ONCE
from zerolab.web.sockets import Socket

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
        await socket.send({"error": told(error)})
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
