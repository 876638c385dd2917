"""Starting, stopping and resuming training from pages, in separate `zerolab train` processes.

The lock in the run folder shows whether the run is being trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from zerolab.agents.specs import named_path
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.nested_tables import parse_assignments
from zerolab.store.run_folder import is_run
from zerolab.training.configure import (
    require_effects,
    resolve_settings,
    resume_settings,
    saved_settings,
)
from zerolab.training.shorthands import (
    TransferOption,
    preset_names,
    preset_title,
    require_frozen_trunk,
    start_assignments,
)
from zerolab.web.folders import Folders, is_running, list_runs, new_folder_path, open_run
from zerolab.web.laboratory import (
    Lab,
    is_process_alive,
    last_lines,
    process_output_path,
    process_record_path,
    require_training_allowed,
    start_command_process,
    terminate_process,
)
from zerolab.web.requests import ForbiddenError, NotFoundError, RequestModel

router = APIRouter(tags=["training"], prefix="/training")

_PATH_KEYS = ("positions", "source")
"""Last parts of setting keys whose values are files or runs."""

Assignment = Annotated[str, Field(min_length=3, max_length=400)]


class TrainingRequest(RequestModel):
    """Request to start a run."""

    name: str = Field(min_length=1, max_length=80)
    """Name of the new run folder, which is created inside the first run folder served."""
    game: str = Field(max_length=60)
    """Game name, such as othello:6x6."""
    preset: str = Field(max_length=80)
    """Preset name."""
    settings: list[Assignment] = Field(default=[], max_length=100)
    """Settings to change, such as search.simulations=50."""
    start_network: str = Field(default="", max_length=400)
    """Network to start from, such as runs/demo@12; empty for an untrained network."""
    transfer: TransferOption = "trunk"
    """Weights to copy from that network."""


class RunActionRequest(RequestModel):
    """Request to stop or resume a run."""

    run: str = Field(min_length=1, max_length=400)
    """Run folder."""
    iterations: int | None = Field(default=None, ge=1, le=1_000_000)
    """New total number of iterations of a resumed run; unchanged by default."""


class TrainingProcessResponse(BaseModel):
    """State of a run's training."""

    run: str
    """Run folder."""
    is_running: bool
    """True if a process is training the run or is about to."""
    may_stop: bool
    """True if pages can stop the process, which is possible only if a server started it."""
    output: list[str]
    """Last lines of the output of the process."""


class PresetResponse(BaseModel):
    """Preset for a new run."""

    name: str
    title: str
    """One-line description."""


@router.get("/presets")
def presets() -> list[PresetResponse]:
    """List the presets for new runs."""
    return [PresetResponse(name=name, title=preset_title(name)) for name in preset_names()]


@router.get("/one")
def training_process(
    lab: Lab, run: Annotated[str, Query(min_length=1, max_length=400)]
) -> TrainingProcessResponse:
    """Return whether a run is being trained, and the latest output of the process."""
    return _training_process(lab.folders, run)


@router.post("/start")
def start(lab: Lab, request: TrainingRequest) -> TrainingProcessResponse:
    """Check all settings of a new run and start training in a separate process."""
    from zerolab.training.trainer import check_new_run  # slow: imports torch

    require_training_allowed(lab, "starting, stopping and resuming runs")
    path = _new_folder(lab.folders, request.name)
    if request.preset not in (names := preset_names()):
        raise UserError(
            f"preset = {quoted(request.preset)}: expected one of {', '.join(names)}"
            f"{did_you_mean(request.preset, names)}"
        )
    transfer = (
        start_assignments(request.start_network, request.transfer) if request.start_network else []
    )
    assignments = [*transfer, *request.settings]
    _require_served(lab.folders, assignments)
    settings = resolve_settings(request.game, request.preset, assignments)
    if request.start_network:
        require_frozen_trunk(request.transfer, settings.learn.frozen)
    require_effects(settings, assignments)
    check_new_run(settings)
    command = ["train", request.game, "--preset", request.preset, "--run", str(path)]
    _begin(lab.folders, path, [*command, *_options(assignments)])
    return _training_process(lab.folders, path.as_posix())


@router.post("/stop")
def stop(lab: Lab, request: RunActionRequest) -> TrainingProcessResponse:
    """Terminate the training process of a run; finished stages are saved."""
    require_training_allowed(lab, "starting, stopping and resuming runs")
    path = lab.folders.require_served_path(Path(request.run))
    if not terminate_process(process_record_path(path)):
        if is_running(path):
            raise UserError(
                f"training of {request.run} was not started from a page: stop it where it was"
                " started"
            )
        raise UserError(f"{request.run} is not being trained")
    return _training_process(lab.folders, path.as_posix())


@router.post("/resume")
def resume(lab: Lab, request: RunActionRequest) -> TrainingProcessResponse:
    """Resume an interrupted run, or train a finished one for more iterations."""
    require_training_allowed(lab, "starting, stopping and resuming runs")
    run = open_run(lab.folders, request.run)
    changes = [] if request.iterations is None else [f"iterations={request.iterations}"]
    settings = resume_settings(run, changes)
    if baselines := settings.final_evaluation.baselines:
        _require_served(lab.folders, [f"final_evaluation.baselines={list(baselines)!r}"])
    saved_count = saved_settings(run).iterations
    if run.progress.finished and settings.iterations <= saved_count:
        raise UserError(f"{request.run} is finished: expected more than {saved_count} iterations")
    if is_running(run.path):
        raise UserError(f"{request.run} is in use by another process")
    _begin(lab.folders, run.path, ["train", "--run", str(run.path), *_options(changes)])
    return _training_process(lab.folders, run.path.as_posix())


def _training_process(folders: Folders, name: str) -> TrainingProcessResponse:
    """Return the state of a run's training. The folder of a new run may not exist yet."""
    path = folders.require_served_path(Path(name))
    if not is_run(path) and not process_output_path(path).exists():
        raise NotFoundError(f"{quoted(name)} is not a run: expected one listed on the Runs page")
    started_here = is_process_alive(process_record_path(path))
    return TrainingProcessResponse(
        run=path.as_posix(),
        is_running=started_here or is_running(path),
        may_stop=started_here,
        output=last_lines(process_output_path(path)),
    )


def _begin(folders: Folders, path: Path, arguments: list[str]) -> None:
    """Start a training command for a run.

    Raises UserError if the run is already being trained, or if too many other runs are.
    """
    others = {process_record_path(Path(each.path)) for each in list_runs(folders)}
    start_command_process(path, arguments, others, "runs are already being trained")


def _new_folder(folders: Folders, name: str) -> Path:
    """Return the folder of a new run; raise UserError if `name` is invalid or already used."""
    parent = folders.runs[0]
    if is_run(parent):
        raise UserError(
            f"the server was started for the single run {quoted(parent)}: start it with a folder"
            " of runs to train new ones"
        )
    path = new_folder_path(folders, name, parent, "demo-2")
    if path in (folders.agents, folders.puzzles):
        raise UserError(
            f"name = {quoted(name)} is reserved for a folder of the server: use another name"
        )
    return path


def _options(assignments: list[str]) -> list[str]:
    return [each for setting in assignments for each in ("--set", setting)]


def _require_served(folders: Folders, assignments: list[str]) -> None:
    """Raise UserError if a setting refers to a program, or to a file that is not served."""
    for path, value in parse_assignments(assignments):
        key = ".".join(path)
        for name, text in _texts(value, path[-1]):
            if name in _PATH_KEYS and text:
                folders.require_served_network_path(text)
            elif name == "baselines" or ":" in text or "/" in text or "\\" in text:
                _require_served_agent(folders, key, text)


def _require_served_agent(folders: Folders, key: str, text: str) -> None:
    """Raise UserError if `text` refers to a program, or to a run that is not served."""
    if text.startswith("@") or key in ("game", "device"):
        return
    try:
        path = named_path(text)
    except UserError as error:
        raise ForbiddenError(f"{key}: {error}") from None
    if path is not None:
        folders.require_served_network_path(path)


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield every string in the value of a setting, with the last part of its key."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, name)
