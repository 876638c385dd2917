"""Training from pages, where the server allows it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from zerolab.web.archive import training as trainings
from zerolab.web.archive.training import PresetResponse, RunRequest, Training, TrainingRequest
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["training"], prefix="/training")


@router.get("/presets")
def presets() -> list[PresetResponse]:
    """List the settings that a run may start from."""
    return trainings.presets()


@router.get("/one")
def one(lab: Lab, run: Annotated[str, Query(min_length=1, max_length=400)]) -> Training:
    """Return whether a run is being trained, and what its process has printed last."""
    return trainings.training(lab.folders, run)


@router.post("/start")
def start(lab: Lab, asked: TrainingRequest) -> Training:
    """Start a run in a process of its own."""
    return trainings.start(lab, asked)


@router.post("/stop")
def stop(lab: Lab, asked: RunRequest) -> Training:
    """Tell the process that trains a run to end; finished stages are saved."""
    return trainings.stop(lab, asked)


@router.post("/resume")
def resume(lab: Lab, asked: RunRequest) -> Training:
    """Go on with a run that was stopped, or train a finished one further."""
    return trainings.resume(lab, asked)
