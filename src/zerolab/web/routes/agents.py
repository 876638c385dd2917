"""Suggested agents, and uploads and downloads of agent files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from zerolab.agents.file_agents import default_opponent_spec, save_uploaded_agent, shipped_agents
from zerolab.agents.run_agents import find_run_and_iteration
from zerolab.agents.specs import fixed_game
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_file
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.arrays import AGENT_SUFFIX, MAX_AGENT_BYTES, AgentHeader, decode_agent
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import FileCache, Folders, latest_progress_time, list_runs
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import find_agent
from zerolab.web.requests import client_of
from zerolab.web.routes.runs import saved_networks

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
_SHIPPED_GROUP = "Included with zerolab"
_MAX_UPLOADED = 200
"""Maximum number of stored uploads, so that they cannot fill the disk."""
_HEADERS: FileCache[AgentHeader] = FileCache()
_USABLE: FileCache[bool] = FileCache()

GameName = Annotated[str, Query(max_length=60)]


class SuggestedAgent(BaseModel):
    """Suggested agent for a game."""

    spec: str
    """Agent spec for requests, such as runs/demo@12."""
    name: str
    """Name to show beside the board, such as "demo, iteration 12"."""
    label: str
    """Menu entry."""
    group: str
    """Menu heading."""
    run: str | None
    """Folder of the run that trained the agent; None if no served run did."""
    iteration: int | None
    """Iteration that trained the agent's network; 0 is the untrained network."""
    is_default: bool = False
    """True for the one agent that pages select by default."""


class UploadedAgent(BaseModel):
    """Agent in an uploaded file."""

    spec: str
    game: str


@router.get("/agents")
def suggested_agents(lab: Lab, game: GameName) -> list[SuggestedAgent]:
    """List a game's agents: networks of runs (latest run first), shipped ones, uploads, baselines.

    One of them is the default: the best network of the latest run that is not damaged and whose
    best network is trained, or else an agent included with zerolab, or else MCTS.
    """
    parsed_game = parse_game(game)
    name = game_name(parsed_game)
    runs = [each for each in list_runs(lab.folders) if each.game == name]
    runs.sort(key=latest_progress_time, reverse=True)
    agents = [agent for each in runs for agent in _run_agents(Path(each.path))]
    usable = (each.spec for each in agents if _is_usable_run(each, lab.folders))
    default = next(usable, None) or default_opponent_spec(parsed_game)
    agents += [
        SuggestedAgent(
            spec=each.spec, name=each.name, label=each.name, group=_SHIPPED_GROUP, run=None,
            iteration=each.header.origin.iteration,
        )
        for each in shipped_agents(parsed_game)
    ]  # fmt: skip
    agents += _uploaded_agents(lab.folders, name)
    agents += [
        SuggestedAgent(
            spec=spec, name=label, label=label, group=_BASELINE_GROUP, run=None, iteration=None
        )
        for spec, label in _BASELINES
    ]
    return [each.model_copy(update={"is_default": each.spec == default}) for each in agents]


@router.post("/agents")
async def upload_agent(request: Request, lab: Lab) -> UploadedAgent:
    """Check and store the agent file in the request body, written by `zerolab export`."""
    with lab.uploads.hold(client_of(request)):
        content = await request.body()
        return await run_in_threadpool(_store, lab.folders.agents, content)


@router.get("/agents/file", response_class=Response)
def download_agent(network: str, lab: Lab) -> Response:
    """Return a run's network, RUN or RUN@N, as an agent file."""
    from zerolab.agents.exporting import encode_agent_of_run  # slow: imports torch

    run, iteration = find_run_and_iteration(lab.folders.require_served_network_path(network))
    stem = f"{run.path.name}-{iteration}"
    ascii_stem = "".join(each if each.isascii() and each.isalnum() else "-" for each in stem)
    return Response(
        encode_agent_of_run(run, iteration),
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{ascii_stem}{AGENT_SUFFIX}"'},
    )


def _store(folder: Path, content: bytes) -> UploadedAgent:
    if folder.is_dir() and sum(1 for _ in folder.iterdir()) >= _MAX_UPLOADED:
        raise UserError(f"{folder} has {_MAX_UPLOADED} agents: delete some before the next upload")
    path = save_uploaded_agent(folder, content)
    game = fixed_game(path.as_posix())
    assert game is not None
    return UploadedAgent(spec=path.as_posix(), game=game_name(game))


def _run_agents(path: Path) -> Iterator[SuggestedAgent]:
    """Yield a run's networks as agents, or nothing if the run is damaged."""
    try:
        networks = saved_networks(RunFolder.open(path))
    except UserError:
        return
    run = path.as_posix()
    best = [(run, " (best network)", each) for each in networks if each.is_best]
    every = [(f"{run}@{each.iteration}", "", each) for each in reversed(networks)]
    for spec, note, each in best + every:
        name = f"{path.name}, iteration {each.iteration}"
        yield SuggestedAgent(
            spec=spec, name=name, label=name + note, group=run, run=run, iteration=each.iteration
        )


def _is_usable_run(agent: SuggestedAgent, folders: Folders) -> bool:
    """Return whether an agent is the best network of a run and is both trained and undamaged."""
    if agent.spec != agent.run or not agent.iteration:
        return False
    try:
        run = RunFolder.open(Path(agent.run))
    except UserError:
        return False
    files = [run.path / "config.toml", run.weights_path(agent.iteration)]
    can_play = partial(_can_play, run, agent.iteration, folders)
    return _USABLE.get(f"{agent.spec}@{agent.iteration}", files, can_play)


def _can_play(run: RunFolder, iteration: int, folders: Folders) -> bool:
    """Return whether a run's network is allowed on pages and its weights are readable."""
    try:
        game = parse_game(str(run.config.get("game", "")))
        find_agent(f"{run.path.as_posix()}@{iteration}", game, folders)
        run.load_weights(iteration)
    except UserError:
        return False
    return True


def _uploaded_agents(folders: Folders, game: str) -> Iterator[SuggestedAgent]:
    """Yield uploaded agents for a game."""
    for path in filter(folders.may_list, sorted(folders.agents.glob(f"*{AGENT_SUFFIX}"))):
        with suppress(UserError):
            header = _HEADERS.get(str(path), [path], partial(_read_header, path))
            if header.game == game:
                label = f"{header.origin.run} {path.stem[:8]}, iteration {header.origin.iteration}"
                yield SuggestedAgent(
                    spec=path.as_posix(), name=label, label=label, group=_UPLOAD_GROUP, run=None,
                    iteration=header.origin.iteration,
                )  # fmt: skip


def _read_header(path: Path) -> AgentHeader:
    return decode_agent(read_file(path, MAX_AGENT_BYTES), quoted(path)).header
