"""Training that pages start, stop and resume: the command `zerolab train` in a process of its own.

The process does not need the server. Whether it trains is seen from the lock in the run's folder;
its output, and by what it is found again, are in the folder ``.server`` beside the runs.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from zerolab.agents.specs import named_path
from zerolab.core.config import parse_assignments
from zerolab.core.errors import UserError, nearest, quoted
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.configure import amend_settings, require_effects, resolve_settings
from zerolab.training.learn_settings import require_frozen, start_assignments
from zerolab.training.presets import TransferOption, preset_names, preset_title
from zerolab.training.trainer import check_new_run
from zerolab.web.archive import processes
from zerolab.web.errors import BusyError, ForbiddenError, MissingError
from zerolab.web.folders import Folders, is_at_work, list_runs, open_run
from zerolab.web.laboratory import Laboratory
from zerolab.web.positions import RequestModel

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SERVER = ".server"
_MOST_LINES = 40
_MOST_LINE = 400
_TAIL_BYTES = 1 << 15
_MOST_RUNNING = 4
_PATHS = ("positions", "source")
"""What settings are called that name a file or a run."""

_starting = threading.Lock()

Assignment = Annotated[str, Field(min_length=3, max_length=400)]


class TrainingRequest(RequestModel):
    """A run that is to be started."""

    name: str = Field(min_length=1, max_length=80)
    """Of its folder, within the first folder of runs."""
    game: str = Field(max_length=60)
    preset: str = Field(max_length=80)
    settings: list[Assignment] = Field(default=[], max_length=100)
    """Settings to change, such as search.simulations=50."""
    source: str = Field(default="", max_length=400)
    """A network to start from, such as runs/demo@12; empty for an untrained one."""
    transfer: TransferOption = "trunk"
    """What is taken of it."""


class RunRequest(RequestModel):
    """A run that is to be stopped or resumed."""

    run: str = Field(min_length=1, max_length=400)
    iterations: int | None = Field(default=None, ge=1)
    """When it is resumed: up to how many iterations; its own number by default."""


class Training(BaseModel):
    """What the server knows of a run's training."""

    run: str
    at_work: bool
    """Whether a process trains it, or is about to."""
    may_stop: bool
    """Whether this page may end that: processes that a server did not start are left alone."""
    output: list[str]
    """The last lines that it has printed."""


class PresetResponse(BaseModel):
    """Settings to start from."""

    name: str
    title: str


def presets() -> list[PresetResponse]:
    """Return the presets of the package."""
    return [PresetResponse(name=name, title=preset_title(name)) for name in preset_names()]


def training(folders: Folders, name: str) -> Training:
    """Return what is known of a run's training; it may have no folder yet."""
    path = folders.confined(Path(name))
    known, output = _known(path), _output(path)
    if not is_run(path) and not output.exists():
        raise MissingError(f"{quoted(name)} is not a run: expected one of the page Runs")
    is_ours = processes.is_alive(known)
    return Training(
        run=path.as_posix(),
        at_work=is_ours or is_at_work(path),
        may_stop=is_ours,
        output=_last_lines(output),
    )


def start(lab: Laboratory, asked: TrainingRequest) -> Training:
    """Start a run; raise UserError, having started nothing, for whatever is wrong with it."""
    require_allowed(lab)
    path = _new_folder(lab.folders, asked.name)
    if asked.preset not in (names := preset_names()):
        raise UserError(
            f"preset = {quoted(asked.preset)}: expected one of {', '.join(names)}"
            f"{nearest(asked.preset, names)}"
        )
    beginning = start_assignments(asked.source, asked.transfer) if asked.source else []
    assignments = [*beginning, *asked.settings]
    _require_inside(lab.folders, assignments)
    settings = resolve_settings(asked.game, asked.preset, assignments)
    if asked.source:
        require_frozen(asked.transfer, settings.learn.frozen)
    require_effects(settings, assignments)
    check_new_run(settings)
    command = ["train", asked.game, "--preset", asked.preset, "--run", str(path)]
    _begin(lab.folders, path, [*command, *_options(assignments)])
    return training(lab.folders, path.as_posix())


def resume(lab: Laboratory, asked: RunRequest) -> Training:
    """Go on with a run that was stopped, or train a finished one further."""
    require_allowed(lab)
    run = open_run(lab.folders, asked.run)
    more = [] if asked.iterations is None else [f"iterations={asked.iterations}"]
    _require_inside(lab.folders, _named_in(run))
    settings = amend_settings(run, more)
    if run.progress.finished and settings.iterations <= run.config["iterations"]:
        raise UserError(
            f"{asked.run} is finished: expected more than its {settings.iterations} iterations"
        )
    if is_at_work(run.path):
        raise UserError(f"{asked.run} is in use: another process is at work on it")
    _begin(lab.folders, run.path, ["train", "--run", str(run.path), *_options(more)])
    return training(lab.folders, run.path.as_posix())


def stop(lab: Laboratory, asked: RunRequest) -> Training:
    """Tell the process that trains a run to end; finished stages are saved."""
    require_allowed(lab)
    path = lab.folders.confined(Path(asked.run))
    if not processes.stop(_known(path)):
        raise UserError(
            f"{asked.run} is not trained by a process that a page has started: stop it where it"
            " was started"
            if is_at_work(path)
            else f"{asked.run} is not being trained"
        )
    return training(lab.folders, path.as_posix())


def require_allowed(lab: Laboratory) -> None:
    """Raise ForbiddenError unless the server lets pages train."""
    if not lab.allow_training:
        raise ForbiddenError(
            "pages may not start, stop or resume runs: zerolab serve --allow-training lets them"
        )


def _begin(folders: Folders, path: Path, arguments: list[str]) -> None:
    """Begin the command, unless it is under way already or too many are."""
    with _starting:
        known = _known(path)
        if processes.is_alive(known):
            raise UserError(f"{path.as_posix()} is being trained already")
        others = (_known(Path(each.path)) for each in list_runs(folders))
        if sum(map(processes.is_alive, {*others, *known.parent.glob("*.json")})) >= _MOST_RUNNING:
            raise BusyError(f"{_MOST_RUNNING} runs are being trained: stop one before another")
        processes.begin([sys.executable, "-m", "zerolab", *arguments], _output(path), known)


def _new_folder(folders: Folders, name: str) -> Path:
    """Return where a new run goes; raise UserError for a name that is taken or no name."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"name = {quoted(name)}: expected letters, digits, dots, dashes and underscores, such"
            " as demo-2"
        )
    place = folders.runs[0]
    if is_run(place):
        raise UserError(
            f"the server serves the run {quoted(place)}: expected a folder of runs, in which there"
            " is room for another"
        )
    path = folders.confined(place / name)
    if path.exists():
        raise UserError(f"name = {quoted(name)}: {quoted(path)} is there already; choose another")
    return path


def _options(assignments: list[str]) -> list[str]:
    return [each for setting in assignments for each in ("--set", setting)]


def _require_inside(folders: Folders, assignments: list[str]) -> None:
    """Raise UserError for settings that name a program, or a file that is not served."""
    for path, value in parse_assignments(assignments):
        key = ".".join(path)
        for name, text in _texts(value, path[-1]):
            if name in _PATHS and text:
                folders.confined(Path(text.partition("@")[0]))
            elif name == "baselines" or ":" in text or "/" in text or "\\" in text:
                _require_harmless(folders, key, text)


def _require_harmless(folders: Folders, key: str, text: str) -> None:
    """Check a text that may name an agent: neither a program, nor a run from elsewhere."""
    if text.startswith("@") or key == "game":
        return
    try:
        named = named_path(text)
    except UserError as error:
        raise ForbiddenError(f"{key}: {error}") from None
    if named is not None:
        folders.confined(Path(named.partition("@")[0]))


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield all texts in a setting, with the last part of what each is called."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, name)


def _named_in(run: RunFolder) -> list[str]:
    """Return the settings of a run that decide what a process does which resumes it."""
    baselines = run.config.get("final_evaluation", {}).get("baselines", [])
    return [f"final_evaluation.baselines={list(baselines)!r}"] if baselines else []


def _known(path: Path) -> Path:
    return path.parent / _SERVER / f"{path.name}.json"


def _output(path: Path) -> Path:
    return path.parent / _SERVER / f"{path.name}.log"


def _last_lines(path: Path) -> list[str]:
    """Return the last lines of a file, none of one that is not there."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            text = file.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return []
    return [line[:_MOST_LINE] for line in deque(text.splitlines(), maxlen=_MOST_LINES)]
