"""Agents to play against: suggestions, ratings, and agent files up and down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from zerolab.agents.kinds.file import agent_file, save_upload
from zerolab.agents.kinds.run import find_network
from zerolab.agents.specs import own_game
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_limited
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.arrays import AGENT_SUFFIX, MAX_AGENT_BYTES, AgentHeader, decode_agent
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import FileCache, Folders, list_runs, modified
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import find_agent
from zerolab.web.requests import client_of
from zerolab.web.routes.runs import saved_networks
from zerolab.web.routes.tournaments import list_tournaments, open_tournament, tournament_details

router = APIRouter(tags=["agents"])

_BASELINES = (
    ("random", "random moves"),
    ("mcts:100", "MCTS, 100 playouts"),
    ("mcts:1000", "MCTS, 1,000 playouts"),
    ("rave:100", "RAVE, 100 playouts"),
    ("rhea:100", "rolling horizon evolution, 100 playouts"),
    ("perfect", "the exact solver"),
)
_BASELINE_GROUP = "Without a network"
_UPLOAD_GROUP = "Uploaded files"
_MAX_UPLOADED = 200
"""Uploaded files that are kept, so that they cannot fill a disk."""
_HEADERS: FileCache[AgentHeader] = FileCache()

GameName = Annotated[str, Query(max_length=60)]


class SuggestedAgent(BaseModel):
    """An agent that can be chosen for a game."""

    spec: str
    """Its name in requests, such as runs/demo@12."""
    label: str
    group: str
    """Its heading in a menu."""
    run: str | None
    """The folder of the run that trained it."""
    iteration: int | None
    """The iteration that trained it; 0 is the untrained network."""
    elo: float | None
    """Training Elo, relative to the untrained network of its run; see docs/metrics.md."""


class RatedAgent(BaseModel):
    """An agent whose strength a tournament has measured."""

    spec: str
    elo: float
    """In the tournament, whose players have the mean 0."""


class UploadedAgent(BaseModel):
    """An agent from an uploaded file."""

    spec: str
    game: str


@router.get("/agents")
def agents(lab: Lab, game: GameName) -> list[SuggestedAgent]:
    """List agents of a game: the networks of each run, best first; then those without a network."""
    name = game_name(parse_game(game))
    found = [
        agent
        for each in list_runs(lab.folders)
        if each.game == name
        for agent in _run_agents(Path(each.path))
    ]
    found += _uploaded_agents(lab.folders, name)
    baselines = [
        SuggestedAgent(
            spec=spec, label=label, group=_BASELINE_GROUP, run=None, iteration=None, elo=None
        )
        for spec, label in _BASELINES
    ]
    return found + baselines


@router.get("/ratings")
def ratings(lab: Lab, game: GameName) -> list[RatedAgent]:
    """List the agents of a game's latest tournament that can play here, strongest first."""
    chosen = parse_game(game)
    tournaments = [each for each in list_tournaments(lab.folders) if each.game == game_name(chosen)]
    if not tournaments:
        return []
    latest = max(tournaments, key=lambda each: modified(Path(each.tournament)))
    found = []
    for each in tournament_details(open_tournament(lab.folders, latest.tournament)).ratings:
        with suppress(UserError):
            find_agent(each.player, chosen, lab.folders)
            found.append(RatedAgent(spec=each.player, elo=each.elo))
    return found


@router.post("/agents")
async def upload(request: Request, lab: Lab) -> UploadedAgent:
    """Check and keep an agent file written by `zerolab export`, sent as the request's body."""
    with lab.uploads.held(client_of(request)):
        content = await request.body()
        return await run_in_threadpool(_keep, lab.folders.agents, content)


@router.get("/agents/file", response_class=Response)
def download(network: str, lab: Lab) -> Response:
    """Return a run's network, RUN or RUN@N, as an agent file."""
    run, iteration = find_network(lab.folders.confined_network(network))
    stem = f"{run.path.name}-{iteration}"
    plain = "".join(each if each.isascii() and each.isalnum() else "-" for each in stem)
    return Response(
        agent_file(run, iteration),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{plain}{AGENT_SUFFIX}"'},
    )


def _keep(folder: Path, content: bytes) -> UploadedAgent:
    if folder.is_dir() and sum(1 for _ in folder.iterdir()) >= _MAX_UPLOADED:
        raise UserError(f"{folder} has {_MAX_UPLOADED} agents: remove some before the next upload")
    path = save_upload(folder, content)
    game = own_game(path.as_posix())
    assert game is not None
    return UploadedAgent(spec=path.as_posix(), game=game_name(game))


def _run_agents(path: Path) -> Iterator[SuggestedAgent]:
    """Yield the networks of a run; nothing if it is damaged."""
    try:
        networks = saved_networks(RunFolder.open(path))
    except UserError:
        return
    run = path.as_posix()
    best = [(run, f"best network, iteration {each.iteration}", each)
            for each in networks if each.is_best]  # fmt: skip
    every = [(f"{run}@{each.iteration}", f"iteration {each.iteration}", each)
             for each in reversed(networks)]  # fmt: skip
    for spec, label, each in best + every:
        yield SuggestedAgent(
            spec=spec, label=label, group=run, run=run, iteration=each.iteration, elo=each.elo
        )


def _uploaded_agents(folders: Folders, game: str) -> Iterator[SuggestedAgent]:
    """Yield the agents of a game among the uploaded files."""
    for path in sorted(folders.agents.glob(f"*{AGENT_SUFFIX}")):
        with suppress(UserError):
            header = _HEADERS.get(str(path), [path], partial(_header, path))
            if header.game == game:
                label = f"{header.origin.run} {path.stem[:8]}, iteration {header.origin.iteration}"
                yield SuggestedAgent(
                    spec=path.as_posix(), label=label, group=_UPLOAD_GROUP, run=None,
                    iteration=header.origin.iteration, elo=None,
                )  # fmt: skip


def _header(path: Path) -> AgentHeader:
    return decode_agent(read_limited(path, MAX_AGENT_BYTES), quoted(path)).header
