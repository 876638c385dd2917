"""Accuracy of the networks of a run on solved positions, each measured once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from zerolab.agents.kinds.run import run_agent
from zerolab.agents.options import NetworkOptions
from zerolab.bench.strength.training import Checkpoint
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import read_text, write_text
from zerolab.evaluation.accuracy import agent_accuracy
from zerolab.evaluation.estimates import Estimate
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import Progress
from zerolab.store.run_folder import RunFolder

_LARGEST = 1 << 26
_SEED = 0  # equal random numbers for all networks, so that measurements differ by these alone


class Share(Settings):
    """A share of moves with its 95 % interval."""

    mean: float
    low: float
    high: float


class Measured(Settings):
    """One network's accuracy, with its search and alone."""

    variant: str
    seed: int
    network: int
    hours: float
    """Of self-play, learning and gates until it was finished."""
    strong: Share
    """Moves of the search that are best ones."""
    weak: Share
    """Moves of the search that keep the result."""
    network_strong: Share
    network_weak: Share


class Measurements:
    """The measurements of a benchmark, kept in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = list(self._read()) if path.exists() else []

    def _read(self) -> Iterator[Measured]:
        for line in read_text(self._path, _LARGEST).splitlines():
            try:
                table = json.loads(line)
            except ValueError:
                raise UserError(f"{self._path} is damaged: expected JSON lines") from None
            yield validate(Measured, table, source=str(self._path))

    def has(self, variant: str, seed: int, network: int) -> bool:
        """Return whether a network has been measured."""
        return any((m.variant, m.seed, m.network) == (variant, seed, network) for m in self.all)

    def add(self, measured: Measured) -> None:
        """Keep a measurement; the file is replaced in one step."""
        self.all.append(measured)
        lines = [json.dumps(each.model_dump()) for each in self.all]
        write_text(self._path, "\n".join([*lines, ""]))


def measure(
    run: RunFolder,
    checkpoint: Checkpoint,
    positions: Positions,
    simulations: int,
    progress: Progress,
) -> dict[str, Share]:
    """Return the shares of `Measured` for one network of a run."""
    search = {**run.config["search"], "simulations": simulations}
    agent = run_agent(run, checkpoint.network, NetworkOptions.model_validate(search))
    alone, searched, _ = agent_accuracy(agent, positions, _SEED, progress)
    return {
        "strong": _share(searched.all.strong),
        "weak": _share(searched.all.weak),
        "network_strong": _share(alone.all.strong),
        "network_weak": _share(alone.all.weak),
    }


def _share(estimate: Estimate | None) -> Share:
    assert estimate is not None  # there are positions
    return Share(mean=estimate.mean, low=estimate.low, high=estimate.high)
