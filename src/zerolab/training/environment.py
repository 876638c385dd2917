"""On what a run is trained: device, precision, threads and library versions.

Results are equal for one such environment; another one may change their last bits, and from there
everything that follows. A run remembers every environment that worked on it.
"""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from zerolab.core.threads import available_cores
from zerolab.networks.node_facts import current_versions
from zerolab.store.environments import Environment, read_environments, write_environments
from zerolab.store.run_folder import RunFolder
from zerolab.training.learner import Learner


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
    known = read_environments(run.path)
    now = current_environment(run.progress.iteration, learner)
    if known and not _differences(known[-1], now):
        return ""
    write_environments(run.path, [*known, now])
    return _message(known[-1], now) if known else ""


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
