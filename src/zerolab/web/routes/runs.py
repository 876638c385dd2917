"""Runs: list, details, curves and differing settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from zerolab.core.config import flatten
from zerolab.core.errors import UserError
from zerolab.store.games import network_name
from zerolab.store.listing import RunSummary
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import read_environments
from zerolab.training.curves import XAxis
from zerolab.training.records import BaselineRecord
from zerolab.web.archive.curves import Panel, panels_of
from zerolab.web.folders import kept_networks, list_runs, open_run, records_of, summary
from zerolab.web.laboratory import Lab

Value = str | int | float | bool | None | list[Any] | dict[str, Any]
"""Of a setting."""

Status = Literal["running", "stopped", "finished", "damaged"]


class RunResponse(BaseModel):
    """A run in a list."""

    run: str
    """Its folder, which names it in requests."""
    game: str
    preset: str
    iteration: int
    iterations: int
    stage: str
    """The next stage."""
    status: Status
    problem: str
    """What is damaged; empty where nothing is."""
    elo: float
    """Training Elo of the best network, relative to the untrained one."""
    source: str
    """The network that it started from; empty for an untrained one."""


class NetworkResponse(BaseModel):
    """A network whose weights are kept."""

    iteration: int
    """Which trained it; 0 is the untrained one."""
    elo: float | None
    """Training Elo; None where no gate has said it."""
    is_best: bool
    agent: str
    """The spec that names it as a player."""


class BaselineResponse(BaseModel):
    """What a run's best network did against an opponent, once training was over."""

    opponent: str
    wins: int
    draws: int
    losses: int
    score_rate: float
    low: float
    """Lower end of the 95 % interval of the score rate."""
    high: float


class EnvironmentResponse(BaseModel):
    """On what a run was trained, from an iteration on."""

    iteration: int
    device: str
    processor: str
    precision: str
    threads: int
    python: str
    zerolab: str
    torch: str


class RunDetails(BaseModel):
    """Everything about a run but its curves and games."""

    summary: RunResponse
    settings: dict[str, Value]
    """With dotted keys, such as search.simulations."""
    networks: list[NetworkResponse]
    """In the order of their training."""
    baselines: list[BaselineResponse]
    environments: list[EnvironmentResponse]
    games: int
    """How many games are stored."""
    seconds: float
    """How long its finished stages took."""


class Difference(BaseModel):
    """A setting in which runs differ."""

    key: str
    values: list[Value]
    """Of each run, in the order in which they were asked for; None where it has no such setting."""


def run_response(found: RunSummary) -> RunResponse:
    """Return a run for a list."""
    word, _, problem = found.status.partition(": ")
    return RunResponse(
        run=found.path, game=found.game, preset=found.preset, iteration=found.iteration,
        iterations=found.iterations, stage=found.stage, status=word, problem=problem,
        elo=found.training_elo, source=found.source,
    )  # fmt: skip


def run_details(run: RunFolder) -> RunDetails:
    """Return what a page about one run shows; raise UserError where it is damaged."""
    records = records_of(run)
    return RunDetails(
        summary=run_response(summary(run.path)),
        settings=dict(flatten(run.config)),
        networks=[
            NetworkResponse(**each._asdict(), agent=network_name(run.path, each.iteration))
            for each in kept_networks(run)
        ],
        baselines=[
            BaselineResponse(**each.model_dump(include=set(BaselineResponse.model_fields)))
            for each in records
            if isinstance(each, BaselineRecord)
        ],
        environments=[
            EnvironmentResponse(**each.model_dump(include=set(EnvironmentResponse.model_fields)))
            for each in read_environments(run.path)
        ],
        games=run.games.count(),
        seconds=sum(each.wall_seconds for each in records),
    )


def differences(runs: Sequence[RunFolder]) -> list[Difference]:
    """Return the settings that are not equal in all runs, in the order of the first one's."""
    if len(runs) < 2:
        raise UserError(f"{len(runs)} of at least two runs: expected more, to compare them")
    tables = [dict(flatten(run.config)) for run in runs]
    keys = dict.fromkeys(key for table in tables for key in table)
    found = [(key, [table.get(key) for table in tables]) for key in keys]
    return [
        Difference(key=key, values=values)
        for key, values in found
        if any(value != values[0] for value in values)
    ]


router = APIRouter(tags=["runs"], prefix="/runs")

MOST_AT_ONCE = 12
"""Runs that a request may name."""
RunName = Annotated[str, Query(min_length=1, max_length=400)]
RunNames = Annotated[list[str], Query(alias="run", min_length=1, max_length=MOST_AT_ONCE)]


@router.get("")
def runs(lab: Lab) -> list[RunResponse]:
    """List the runs of the folders that are served."""
    return [run_response(each) for each in list_runs(lab.folders)]


@router.get("/one")
def one_run(lab: Lab, run: RunName) -> RunDetails:
    """Return progress, settings, networks and provenance of a run."""
    return run_details(open_run(lab.folders, run))


@router.get("/curves")
def curves(lab: Lab, names: RunNames, x: XAxis = "iterations") -> dict[str, list[Panel]]:
    """Return the curves of runs, over iterations, games of self-play or hours of training."""
    return {name: panels_of(records_of(open_run(lab.folders, name)), x) for name in names}


@router.get("/differences")
def different_settings(lab: Lab, names: RunNames) -> list[Difference]:
    """Return the settings in which runs differ."""
    if len(set(names)) < len(names):
        raise UserError("a run is named twice: expected different ones")
    return differences([open_run(lab.folders, name) for name in names])
