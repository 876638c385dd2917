"""Runs: list, details, curves and differing settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from zerolab.core.errors import UserError
from zerolab.core.flattening import flatten
from zerolab.store.games import network_name
from zerolab.store.listing import RunSummary
from zerolab.store.run_folder import RunFolder
from zerolab.store.state import read_environments
from zerolab.training.curves import XAxis
from zerolab.training.records import BaselineRecord, GateRecord
from zerolab.web.folders import list_runs, open_run, records_of, summary
from zerolab.web.laboratory import Lab
from zerolab.web.routes.curves import Panel, panels_of

router = APIRouter(tags=["runs"], prefix="/runs")

MAX_RUNS = 12
"""Runs per request."""
RunName = Annotated[str, Query(min_length=1, max_length=400)]
RunNames = Annotated[list[str], Query(alias="run", min_length=1, max_length=MAX_RUNS)]

Value = str | int | float | bool | None | list[Any] | dict[str, Any]
"""The value of a setting."""

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
    """The damage, or empty."""
    elo: float
    """Training Elo of the best network, relative to the untrained one."""
    source: str
    """The network that the run started from; empty for an untrained one."""


class NetworkResponse(BaseModel):
    """A network whose weights are saved."""

    iteration: int
    """The iteration that trained it; 0 is the untrained network."""
    elo: float | None
    """Training Elo; None if no gate has measured it."""
    is_best: bool
    agent: str
    """Its spec as an agent."""


class BaselineResponse(BaseModel):
    """The result of a run's best network against a baseline opponent after training."""

    model_config = ConfigDict(from_attributes=True)

    opponent: str
    wins: int
    draws: int
    losses: int
    score_rate: float
    low: float
    """Lower end of the 95 % interval of the score rate."""
    high: float


class EnvironmentResponse(BaseModel):
    """Hardware and versions that a run was trained with, from an iteration on."""

    model_config = ConfigDict(from_attributes=True)

    iteration: int
    device: str
    processor: str
    precision: str
    threads: int
    python: str
    zerolab: str
    torch: str


class RunDetails(BaseModel):
    """Everything about a run except its curves and games."""

    summary: RunResponse
    settings: dict[str, Value]
    """With dotted keys, such as search.simulations."""
    networks: list[NetworkResponse]
    """In training order."""
    baselines: list[BaselineResponse]
    environments: list[EnvironmentResponse]
    games: int
    """Number of stored games."""
    seconds: float
    """Total time of its finished stages."""


class Difference(BaseModel):
    """A setting in which runs differ."""

    key: str
    values: list[Value]
    """One per run, in the order of the request; None for a run without the setting."""


@router.get("")
def runs(lab: Lab) -> list[RunResponse]:
    """List the runs of the folders that are served."""
    return [run_response(each) for each in list_runs(lab.folders)]


@router.get("/one")
def one_run(lab: Lab, run: RunName) -> RunDetails:
    """Return progress, settings, networks and provenance of a run."""
    found = open_run(lab.folders, run)
    records = records_of(found)
    baselines = [each for each in records if isinstance(each, BaselineRecord)]
    return RunDetails(
        summary=run_response(summary(found.path)),
        settings=dict(flatten(found.config)),
        networks=saved_networks(found),
        baselines=[BaselineResponse.model_validate(each) for each in baselines],
        environments=[
            EnvironmentResponse.model_validate(each) for each in read_environments(found.path)
        ],
        games=found.games.count(),
        seconds=sum(each.wall_seconds for each in records),
    )


@router.get("/curves")
def curves(lab: Lab, names: RunNames, x: XAxis = "iterations") -> dict[str, list[Panel]]:
    """Return the curves of runs, over iterations, games of self-play or hours of training."""
    return {name: panels_of(records_of(open_run(lab.folders, name)), x) for name in names}


@router.get("/differences")
def differences(lab: Lab, names: RunNames) -> list[Difference]:
    """Return the settings in which runs differ, in the order of the first run's settings."""
    if len(set(names)) < len(names):
        raise UserError("a run is named twice: expected different ones")
    tables = [dict(flatten(open_run(lab.folders, name).config)) for name in names]
    if len(tables) < 2:
        raise UserError(f"{len(tables)} of at least two runs: expected more, to compare them")
    keys = dict.fromkeys(key for table in tables for key in table)
    found = [(key, [table.get(key) for table in tables]) for key in keys]
    return [
        Difference(key=key, values=values)
        for key, values in found
        if any(value != values[0] for value in values)
    ]


def run_response(found: RunSummary) -> RunResponse:
    """Return a run for a list."""
    word, _, problem = found.status.partition(": ")
    return RunResponse(
        run=found.path, game=found.game, preset=found.preset, iteration=found.iteration,
        iterations=found.iterations, stage=found.stage, status=word, problem=problem,
        elo=found.training_elo, source=found.source,
    )  # fmt: skip


def saved_networks(run: RunFolder) -> list[NetworkResponse]:
    """Return the networks of a run that can play, in training order."""
    elo: dict[int, float] = {}
    gates = [record for record in records_of(run) if isinstance(record, GateRecord)]
    if gates:
        elo[0] = 0.0
    elo.update((record.iteration, record.elo) for record in gates if record.accepted)
    return [
        NetworkResponse(
            iteration=each,
            elo=elo.get(each),
            is_best=each == run.progress.best,
            agent=network_name(run.path, each),
        )
        for each in run.networks()
    ]
