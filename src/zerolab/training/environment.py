"""On what a run is trained: device, precision, threads and library versions.

Results are equal for one such environment; another one may change their last bits, and from there
everything that follows. A run remembers every environment that worked on it.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.files import write_text
from zerolab.core.threads import available_cores
from zerolab.networks.node_facts import current_versions
from zerolab.store.checks import check_schema, damaged, read_bytes, reading
from zerolab.store.run_folder import RunFolder
from zerolab.training.learner import Learner

SCHEMA = 1
_NAME = "environment.json"
_LARGEST = 1 << 20


class Environment(Settings):
    """What results may depend on beside settings."""

    iteration: int = Field(ge=1)
    """The first iteration that was trained, at least in part, in this environment."""
    device: str
    """The processor's architecture, or the name of the GPU."""
    processor: str = ""
    """The processor's model; empty in the files of earlier versions."""
    precision: str
    """In which layers compute: float32 or bfloat16."""
    threads: int
    """Cores that learning may use."""
    python: str
    zerolab: str
    torch: str
    numba: str
    numpy: str


def current_environment(iteration: int, learner: Learner) -> Environment:
    """Return the environment of this process."""
    device = platform.machine()
    if learner.device.type == "cuda":
        device = torch.cuda.get_device_name(learner.device)
    return Environment(
        iteration=iteration,
        device=device,
        processor=processor_model(),
        precision=str(learner.precision).removeprefix("torch."),
        threads=available_cores(),
        **current_versions(),
    )


def processor_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's model where Linux tells it, its architecture elsewhere."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, models), platform.machine())


def remember_environment(run: RunFolder, learner: Learner) -> str:
    """Note a run's environment if it is a new one.

    Returns a line for people that says what differs from the environment before, if anything does.
    Raises UserError where the file is damaged or cannot be written.
    """
    known = environments(run)
    now = current_environment(run.progress.iteration, learner)
    if known and not _differences(known[-1], now):
        return ""
    every = [each.model_dump() for each in (*known, now)]
    content = {"schema_version": SCHEMA, "environments": every}
    write_text(run.path / _NAME, json.dumps(content, indent=1) + "\n")
    return _message(known[-1], now) if known else ""


def environments(run: RunFolder) -> list[Environment]:
    """Return the environments that worked on a run, in order; raise UserError if damaged."""
    path = run.path / _NAME
    if not path.exists():
        return []
    content = read_bytes(path, _LARGEST)
    with reading(path):
        table: Any = json.loads(content.decode())
        schema, found = table["schema_version"], list(table["environments"])
    check_schema(path, schema, SCHEMA)
    if not all(isinstance(each, dict) for each in found):
        raise damaged(path, "an environment is a table")
    return [validate(Environment, each, source=str(path)) for each in found]


def _differences(former: Environment, now: Environment) -> list[str]:
    return [
        name
        for name in Environment.model_fields
        if name != "iteration" and getattr(former, name) not in ("", getattr(now, name))
    ]


def _message(former: Environment, now: Environment) -> str:
    changes = ", ".join(
        f"{name} {getattr(former, name)} -> {getattr(now, name)}"
        for name in _differences(former, now)
    )
    return (
        f"resumed in another environment, so results may differ from those of an uninterrupted run:"
        f" {changes}"
    )
