"""The network that a run starts from: found, identified, and made into the run's network 0.

Once a run has begun, its own folder has all that it goes on with: the other run may go.
"""

from __future__ import annotations

from typing import NamedTuple

from zerolab.core.errors import UserError, quoted
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import Arrays
from zerolab.store.networks import read_network
from zerolab.store.run_folder import RunFolder
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import named_network, require_digest, stored_settings
from zerolab.training.transfer.settings import START, StartSettings
from zerolab.training.transfer.weights import Side, Transferred, new_network, transferred


class Start(NamedTuple):
    """What a run starts with in place of an untrained network."""

    settings: StartSettings
    """Those of the run, with what has been found out."""
    taken: Transferred
    optimizer: Arrays
    """The state of the optimiser, where learning goes on as if it had never stopped; else empty."""

    def describe(self) -> str:
        """Return a line for people."""
        new = f"; new: {', '.join(self.taken.new)}" if self.taken.new else ""
        name = f"{self.settings.source.rpartition('@')[0] or self.settings.source}"
        optimizer = ", with the state of its optimiser" if self.optimizer else ""
        return (
            f"starts from {name}@{self.settings.iteration} of {self.settings.game}{optimizer}{new}"
        )


def find_start(settings: TrainSettings, run: RunFolder | None = None) -> Start | None:
    """Return what a run starts with; None where it starts untrained.

    Raises UserError for a network that is not there, is not the one that the run has begun with,
    or does not fit the run's network.
    """
    start = settings.start
    if start is None:
        return None
    source, iteration = named_network(START, start.source, run)
    path = source.weights_path(iteration)
    stored = read_network(path)
    require_digest(path, stored, start.digest)
    there = Side(parse_game(stored.game), stored_settings(stored), stored.weights)
    here = new_network(settings.network_of(0), parse_game(settings.game), settings.seed)
    try:
        taken = transferred(start.transfer, there, here)
    except UserError as error:
        raise UserError(f"{START} = {quoted(start.source)}: {error}") from None
    goes_on = start.transfer == "all" and (there.game, there.network) == (here.game, here.network)
    optimizer = _optimizer(settings, source, iteration) if goes_on else {}
    found = {"digest": stored.digest, "iteration": iteration, "game": stored.game}
    return Start(start.model_copy(update=found), taken, optimizer)


def _optimizer(settings: TrainSettings, source: RunFolder, iteration: int) -> Arrays:
    """Return the state of the optimiser that belongs to a network, if it is of the same kind."""
    learn = source.config.get("learn", {})
    former = learn.get("optimizer") if isinstance(learn, dict) else None
    same = former == settings.learn.optimizer.model_dump()
    return source.load_optimizer(iteration) if same and source.has_optimizer(iteration) else {}
