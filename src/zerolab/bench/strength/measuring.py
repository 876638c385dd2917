"""Accuracy of the networks of a run on solved positions, each measured once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from zerolab.agents.kinds.run import playable, run_agent
from zerolab.agents.options import NetworkOptions, parse_options
from zerolab.bench.strength.settings import StrengthSettings
from zerolab.bench.strength.training import Checkpoint
from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import read_text, write_text
from zerolab.evaluation.accuracy import agent_accuracy
from zerolab.evaluation.estimates import Estimate
from zerolab.evaluation.positions import Positions
from zerolab.play.engine import Progress
from zerolab.search.settings import SearchSettings
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
    due: float
    """The hours after which it is the first network."""
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


def search_at_test(trained: SearchSettings, settings: StrengthSettings) -> NetworkOptions:
    """Return the search at the test; raise UserError for wrong settings of it."""
    text = "&".join((f"simulations={settings.simulations}", *settings.test_search))
    return parse_options(NetworkOptions, text, trained)


def measure(
    run: RunFolder,
    checkpoint: Checkpoint,
    positions: Positions,
    settings: StrengthSettings,
    progress: Progress,
) -> dict[str, Share]:
    """Return the shares of `Measured` for one network of a run."""
    agent = run_agent(run, checkpoint.network, search_at_test(playable(run).search, settings))
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
