"""Agents as files: brought by a page, and taken away."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from zerolab.agents.kinds.file import agent_file, save_upload
from zerolab.agents.kinds.run import find_network
from zerolab.agents.specs import own_game
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import game_name
from zerolab.web.clients import client_of
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["share"])

_MOST_KEPT = 200
"""Files that pages may bring, so that they do not fill a disk."""


class UploadedAgent(BaseModel):
    """An agent that a page has brought."""

    spec: str
    game: str


@router.post("/agents")
async def bring(request: Request, lab: Lab) -> UploadedAgent:
    """Take in a file that `zerolab export` has written: its content is the body."""
    with lab.uploads.one(client_of(request)):
        content = await request.body()
        return await run_in_threadpool(_keep, lab.folders.agents, content)


def _keep(folder: Path, content: bytes) -> UploadedAgent:
    if folder.is_dir() and sum(1 for _ in folder.iterdir()) >= _MOST_KEPT:
        raise UserError(f"{folder} has {_MOST_KEPT} agents: remove some before more are brought")
    path = save_upload(folder, content)
    game = own_game(path.as_posix())
    assert game is not None
    return UploadedAgent(spec=path.as_posix(), game=game_name(game))


@router.get("/agents/file", response_class=Response)
def take(network: str, lab: Lab) -> Response:
    """Return a run's network, RUN or RUN@N, as one file."""
    run, iteration = find_network(lab.folders.confined_network(network))
    name = f"{run.path.name}-{iteration}.zerolab"
    return Response(
        agent_file(run, iteration),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{_plain(name)}"'},
    )


def _plain(name: str) -> str:
    """Return a name of a file without what a header cannot hold."""
    return "".join(each if each.isascii() and each.isalnum() else "-" for each in name[:-8]) + (
        ".zerolab"
    )
