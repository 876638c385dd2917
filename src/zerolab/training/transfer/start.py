"""The network that a run starts from: found, identified, and made into the run's network 0.

Once a run has begun, its own folder has all that it goes on with: the other run may go. A run of a
study begins with copies of the files that it needs, as it may work where the other run is not.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.rules.catalogue import parse_game
from zerolab.store.agent_names import source_folder
from zerolab.store.arrays import Arrays
from zerolab.store.checks import read_bytes
from zerolab.store.networks import StoredNetwork, read_network, read_optimizer
from zerolab.store.run_folder import RunFolder
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import named_network, require_digest, stored_settings
from zerolab.training.transfer.settings import START, StartSettings
from zerolab.training.transfer.weights import Side, Transferred, new_network, transferred

KEPT = "start.safetensors"
"""The name of the run's copy of the network."""
KEPT_OPTIMIZER = "start.optimizer.safetensors"
"""The name of its copy of the optimiser's state, where learning is to go on."""

_LARGEST = 1 << 32


class Start(NamedTuple):
    """What a run starts with in place of an untrained network."""

    settings: StartSettings
    """Those of the run, with what has been found out."""
    taken: Transferred
    optimizer: Arrays
    """The state of the optimiser, where learning goes on as if it had never stopped; else empty."""
    is_trunk_frozen: bool = False

    def describe(self) -> str:
        """Return a line for people."""
        start, taken = self.settings, self.taken
        assert start.iteration is not None  # found out by `find_start`
        name = f"{source_folder(start.source, start.iteration)}@{start.iteration}"
        optimizer = ", with the state of its optimiser" if self.optimizer else ""
        new = f"; new: {', '.join(taken.new)}" if taken.new else ""
        if self.is_trunk_frozen and any(part.startswith("plane ") for part in taken.new):
            new += " (new planes stay without effect: the trunk is frozen)"
        left = f"; left behind: {', '.join(taken.left)}" if taken.left else ""
        return f"starts from {name} of {start.game}{optimizer}{new}{left}"


def find_start(settings: TrainSettings, run: RunFolder | None = None) -> Start | None:
    """Return what a run starts with; None where it starts untrained.

    Raises UserError for a network that is not there, is not the one that the run has begun with,
    or does not fit the run's network.
    """
    start = settings.start
    if start is None:
        return None
    files = _kept(run) or _named(settings, start, run)
    stored = read_network(files.network)
    require_digest(files.network, stored, start.digest)
    there = Side(parse_game(stored.game), stored_settings(stored), stored.weights)
    here = new_network(settings.network_of(0), parse_game(settings.game), settings.seed)
    try:
        taken = transferred(start.transfer, there, here)
    except UserError as error:
        raise UserError(f"{START} = {quoted(start.source)}: {error}") from None
    optimizer = read_optimizer(files.optimizer, stored) if files.optimizer else {}
    found = {"digest": stored.digest, "iteration": stored.iteration, "game": stored.game}
    is_frozen = settings.learn.frozen == "trunk"
    return Start(start.model_copy(update=found), taken, optimizer, is_frozen)


def start_files(settings: TrainSettings, source: RunFolder) -> dict[str, bytes]:
    """Return what a run keeps of a finished one that it starts from, by the names of files.

    Raises UserError where that is damaged.
    """
    files = _files(settings, source, source.progress.best)
    found = {KEPT: read_network(files.network).content}
    if files.optimizer is not None:
        found[KEPT_OPTIMIZER] = read_bytes(files.optimizer, _LARGEST)
    return found


class _Files(NamedTuple):
    network: Path
    optimizer: Path | None
    """Where learning goes on as if it had never stopped."""


def _kept(run: RunFolder | None) -> _Files | None:
    """Return the copies that a run has; None where it has none."""
    if run is None or not run.source_path(KEPT).is_file():
        return None
    optimizer = run.source_path(KEPT_OPTIMIZER)
    return _Files(run.source_path(KEPT), optimizer if optimizer.is_file() else None)


def _named(settings: TrainSettings, start: StartSettings, run: RunFolder | None) -> _Files:
    """Return the files of the network that settings name."""
    return _files(settings, *named_network(START, start.source, run))


def _files(settings: TrainSettings, source: RunFolder, iteration: int) -> _Files:
    """Return the files that a run needs of another one."""
    network, optimizer = source.weights_path(iteration), source.optimizer_path(iteration)
    goes_on = _goes_on(settings, source, read_network(network)) and optimizer.is_file()
    return _Files(network, optimizer if goes_on else None)


def _goes_on(settings: TrainSettings, source: RunFolder, stored: StoredNetwork) -> bool:
    """Return whether everything is taken of an equal network of the same game and optimiser."""
    start, learn = settings.start, source.config.get("learn", {})
    former = learn.get("optimizer") if isinstance(learn, dict) else None
    return (
        start is not None
        and start.transfer == "all"
        and stored.game == settings.game
        and stored_settings(stored) == settings.network_of(0)
        and former == settings.learn.optimizer.model_dump()
    )
