"""Agents to play against: suggestions, ratings and agent files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import read_limited
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.arrays import AGENT_SUFFIX, MAX_AGENT_BYTES, AgentHeader, decode_agent
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import FileCache, Folders, kept_networks, list_runs, modified
from zerolab.web.laboratory import Lab
from zerolab.web.live_search import find_player
from zerolab.web.routes.tournaments import list_tournaments, open_tournament, tournament_details

_WITHOUT_A_RUN = (
    ("random", "random moves"),
    ("mcts:100", "MCTS, 100 playouts"),
    ("mcts:1000", "MCTS, 1,000 playouts"),
    ("rave:100", "RAVE, 100 playouts"),
    ("rhea:100", "rolling horizon evolution, 100 playouts"),
    ("perfect", "the exact solver"),
)
_GROUP = "Without a network"
_FILES = "Brought as files"
_HEADERS: FileCache[AgentHeader] = FileCache()


class SuggestedAgent(BaseModel):
    """An agent that can be chosen for a game."""

    spec: str
    """What names it in requests, such as runs/demo@12."""
    label: str
    group: str
    """Under which heading a menu has it."""
    run: str | None
    """The folder of the run that trained it."""
    iteration: int | None
    """The iteration that trained it; 0 is the untrained network."""
    elo: float | None
    """Training Elo, relative to the untrained network of its run; see docs/metrics.md."""


def suggested_agents(folders: Folders, game: str) -> list[SuggestedAgent]:
    """Return agents of a game: for each run its best network first; then those without a network.

    Raises UserError for what is no game.
    """
    name = game_name(parse_game(game))
    found = [
        agent
        for each in list_runs(folders)
        if each.game == name
        for agent in _agents_of_run(Path(each.path))
    ]
    found += _agents_in_files(folders, name)
    others = [
        SuggestedAgent(spec=spec, label=label, group=_GROUP, run=None, iteration=None, elo=None)
        for spec, label in _WITHOUT_A_RUN
    ]
    return found + others


class RatedAgent(BaseModel):
    """An agent whose strength a tournament has measured."""

    spec: str
    elo: float
    """Of the tournament; its players have the mean 0."""


def rated_agents(folders: Folders, game: str) -> list[RatedAgent]:
    """Return the players of the latest tournament of a game that can be played against here.

    Raises UserError for what is no game.
    """
    chosen = parse_game(game)
    played = [each for each in list_tournaments(folders) if each.game == game_name(chosen)]
    if not played:
        return []
    latest = max(played, key=lambda each: modified(Path(each.tournament)))
    ratings = tournament_details(open_tournament(folders, latest.tournament)).ratings
    found = []
    for each in ratings:
        with suppress(UserError):
            find_player(each.player, chosen, folders)
            found.append(RatedAgent(spec=each.player, elo=each.elo))
    return found


def _agents_in_files(folders: Folders, game: str) -> Iterator[SuggestedAgent]:
    """Yield the agents of a game among the files that pages have brought."""
    for path in sorted(folders.agents.glob(f"*{AGENT_SUFFIX}")):
        with suppress(UserError):
            header = _HEADERS.get(str(path), [path], partial(_header, path))
            if header.game == game:
                label = f"{header.origin.run} {path.stem[:8]}, iteration {header.origin.iteration}"
                yield SuggestedAgent(
                    spec=path.as_posix(), label=label, group=_FILES, run=None,
                    iteration=header.origin.iteration, elo=None,
                )  # fmt: skip


def _header(path: Path) -> AgentHeader:
    return decode_agent(read_limited(path, MAX_AGENT_BYTES), quoted(path)).header


def _agents_of_run(path: Path) -> Iterator[SuggestedAgent]:
    """Yield the networks of a run; none of one that is damaged."""
    try:
        networks = kept_networks(RunFolder.open(path))
    except UserError:
        return
    run = path.as_posix()
    for each in networks:
        if each.is_best:
            label = f"best network, iteration {each.iteration}"
            yield _agent(run, run, label, each.iteration, each.elo)
    for each in reversed(networks):
        label = f"iteration {each.iteration}"
        yield _agent(run, f"{run}@{each.iteration}", label, each.iteration, each.elo)


def _agent(run: str, spec: str, label: str, iteration: int, elo: float | None) -> SuggestedAgent:
    return SuggestedAgent(spec=spec, label=label, group=run, run=run, iteration=iteration, elo=elo)


router = APIRouter(tags=["agents"])


@router.get("/agents")
def agents(lab: Lab, game: Annotated[str, Query(max_length=60)]) -> list[SuggestedAgent]:
    """List agents of a game: the networks of every run, and those that need none."""
    return suggested_agents(lab.folders, game)


@router.get("/ratings")
def ratings(lab: Lab, game: Annotated[str, Query(max_length=60)]) -> list[RatedAgent]:
    """List the players of a game's latest tournament with their Elo, the strongest first."""
    return rated_agents(lab.folders, game)
