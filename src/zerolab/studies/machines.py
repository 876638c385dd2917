"""Machines in the provenance of results, in words."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from zerolab.core.processes import available_cores
from zerolab.networks.inference import default_device
from zerolab.store.state import Environment
from zerolab.training.context import processor_model


def gpu_name() -> str:
    """Return the name of the GPU that this process would use, or an empty string."""
    device = default_device()
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""


def describe_this_machine(gpu: str = "") -> str:
    """Describe the processor, number of cores and GPU of this machine."""
    return _joined(processor_model(), _cores(available_cores()), gpu)


def describe_machine(environment: Environment) -> str:
    """Describe the processor, device, precision and number of cores of an environment."""
    machine = _joined(environment.processor, environment.device, environment.precision)
    return f"{machine}, {_cores(environment.threads)} per run"


def _joined(*parts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, parts)))


def _cores(count: int) -> str:
    return f"{count} core" if count == 1 else f"{count} cores"


def join_distinct(texts: Iterable[str]) -> str:
    """Join distinct texts, as in ``2.12.0 and 2.13.0``."""
    return " and ".join(dict.fromkeys(texts))
