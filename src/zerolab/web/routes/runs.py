"""Runs: what there are, how they go, and in what they differ."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from zerolab.core.errors import UserError
from zerolab.training.curves import XAxis
from zerolab.web.archive.curves import Panel, panels_of
from zerolab.web.archive.run_views import (
    Difference,
    RunDetails,
    ShownRun,
    differences,
    run_details,
    shown_run,
)
from zerolab.web.archive.runs import list_runs, open_run, records_of
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["runs"], prefix="/runs")

MOST_AT_ONCE = 12
"""Runs that a request may name."""
RunName = Annotated[str, Query(min_length=1, max_length=400)]
RunNames = Annotated[list[str], Query(alias="run", min_length=1, max_length=MOST_AT_ONCE)]


@router.get("")
def runs(lab: Lab) -> list[ShownRun]:
    """List the runs of the folders that are served."""
    return [shown_run(each) for each in list_runs(lab.folders)]


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
