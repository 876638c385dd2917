"""Networks of other runs that a run starts from or learns features of.

A run names it by its path at first, and knows it by its digest once it has begun. From then on it
has a copy in its own folder, so that it goes on where the other run is gone or has gone on
(docs/decisions/0046).

Once a run has begun, its own folder has all that it goes on with: the other run may go. A run of a
study begins with copies of the files that it needs, as it may work where the other run is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.kinds.run import find_network
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.networks.auxiliary_heads import FeaturesHead
from zerolab.networks.catalogue import NETWORKS, NetworkSettings, build_network
from zerolab.networks.inference import FeatureReader, torch_threads
from zerolab.networks.network import load_weights
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import Arrays, StoredNetwork, read_network, read_optimizer
from zerolab.store.checks import read_bytes
from zerolab.store.examples import Examples
from zerolab.store.games import canonical_folder, source_folder
from zerolab.store.run_folder import RunFolder
from zerolab.training.facts import later_features
from zerolab.training.learn_settings import START, StartSettings
from zerolab.training.settings import TrainSettings
from zerolab.training.transfer import Side, Transferred, new_network, transfer_weights


def named_network(key: str, name: str, run: RunFolder | None) -> tuple[RunFolder, int]:
    """Return the run and the iteration that a setting names as RUN or RUN@N.

    Raises UserError, with the setting's key, for one that is not there or is `run` itself.
    """
    try:
        source, iteration = find_network(name)
    except UserError as error:
        raise UserError(f"{key} = {quoted(name)}: {error}") from None
    if run is not None and canonical_folder(source.path) == canonical_folder(run.path):
        raise UserError(
            f"{key} = {quoted(name)} is the run itself: expected a network that was trained before"
        )
    return source, iteration


def require_digest(path: Path, stored: StoredNetwork, digest: str) -> None:
    """Raise UserError unless a network is the one that a run has begun with, if it has begun."""
    if digest not in ("", stored.digest):
        raise UserError(
            f"{path} has the digest {stored.digest}, not {digest}: expected the network that this"
            " run has begun with"
        )


def stored_settings(stored: StoredNetwork) -> NetworkSettings:
    """Return the settings of a network in a file; raise UserError for unknown ones."""
    kind: type[NetworkSettings] = NETWORKS[stored.settings["name"]]
    return validate(kind, stored.settings)


def source_network(key: str, name: str) -> NetworkSettings:
    """Return the settings of the network that a setting names, without heads that are fed.

    Heads that learn what was found out when a run began, such as features of another network, are
    for that run only.
    """
    source, iteration = named_network(key, name, None)
    settings = stored_settings(read_network(source.weights_path(iteration)))
    heads = tuple(head for head in settings.heads if not head.found)
    return settings.model_copy(update={"heads": heads})


FEATURES_COPY = "source.safetensors"
"""The name of the run's copy."""

_FEATURES_KEY = "network.heads.features"


class FeatureSource:
    """A network whose features are learnt, and at which plies."""

    def __init__(self, stored: StoredNetwork, plies: Sequence[int]) -> None:
        """Build it; raise UserError where its heads have no convolutions."""
        game = parse_game(stored.game)
        settings = validate(NETWORKS[stored.settings["name"]], stored.settings)
        network = build_network(settings, game, seed=0)  # whose weights are replaced
        load_weights(network, stored.weights)
        self.stored = stored
        self._reader = FeatureReader(network, game)
        self._plies = plies

    @property
    def width(self) -> int:
        """How many features a position has."""
        return self._reader.width

    def features(self, states: NDArray[np.uint64]) -> NDArray[np.float16]:
        """Return the features of uint64[N, words] states, as examples keep them: [N, width]."""
        with torch_threads(available_cores()):
            return self._reader.read(states).astype(np.float16)

    def targets(self, examples: Examples, features: NDArray[np.float16]) -> NDArray[np.float16]:
        """Return what is to be learnt of examples with these features; see `later_features`."""
        return later_features(examples, features, self._plies)


def features_width(settings: TrainSettings) -> int:
    """Return how many features a position has with the last network of a run.

    Raises UserError where its heads have no convolutions.
    """
    game = parse_game(settings.game)
    network = build_network(settings.network_of(settings.iterations), game, settings.seed)
    return FeatureReader(network, game).width


def features_head(settings: TrainSettings) -> FeaturesHead | None:
    """Return the head of a run that learns features, if it has one."""
    heads = settings.network.heads
    return next((head for head in heads if isinstance(head, FeaturesHead)), None)


def find_feature_source(
    settings: TrainSettings, run: RunFolder | None = None
) -> FeatureSource | None:
    """Return the network whose features a run learns; None where it learns none.

    Of a run that has begun that is its own copy. Raises UserError for a network that is not there,
    is not the one that the run began with, or has no features of the run's game.
    """
    head = features_head(settings)
    if head is None:
        return None
    if run is not None and head.digest and run.source_path(FEATURES_COPY).is_file():
        path = run.source_path(FEATURES_COPY)
    else:
        path = _feature_network(head, run)
    stored = read_network(path)
    if stored.game != settings.game:
        raise UserError(
            f"{_FEATURES_KEY}.source = {quoted(head.source)} plays {stored.game}: expected a"
            f" network of {settings.game}"
        )
    require_digest(path, stored, head.digest)
    try:
        source = FeatureSource(stored, head.plies)
    except UserError as error:
        raise UserError(f"{_FEATURES_KEY}.source = {quoted(head.source)}: {error}") from None
    if head.width not in (0, source.width):
        raise UserError(
            f"{_FEATURES_KEY}.width = {head.width}: expected the {source.width} features of {path}"
        )
    return source


def feature_files(source: RunFolder) -> dict[str, bytes]:
    """Return what a run keeps of a finished one whose features it learns, by the names of files.

    Raises UserError where that is damaged.
    """
    return {FEATURES_COPY: read_network(source.weights_path(source.progress.best)).content}


def _feature_network(head: FeaturesHead, run: RunFolder | None) -> Path:
    """Return the file of the network that a head names."""
    if not head.source:
        raise UserError(
            f"{_FEATURES_KEY}.source is missing: expected a trained network of the same game, as in"
            f" {_FEATURES_KEY}.source=runs/small or {_FEATURES_KEY}.source=runs/small@12"
        )
    source, iteration = named_network(f"{_FEATURES_KEY}.source", head.source, run)
    return source.weights_path(iteration)


def with_feature_source(settings: TrainSettings, source: FeatureSource | None) -> TrainSettings:
    """Return the settings of a run that has begun: they say which network it learns from."""
    head = features_head(settings)
    if head is None or source is None:
        return settings
    found = head.model_copy(update={"digest": source.stored.digest, "width": source.width})
    heads = tuple(found if each is head else each for each in settings.network.heads)
    network = settings.network.model_copy(update={"heads": heads})
    return settings.model_copy(update={"network": network})


START_COPY = "start.safetensors"
"""The name of the run's copy of the network."""
START_OPTIMIZER_COPY = "start.optimizer.safetensors"
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
    files = _kept_files(run) or _named_files(settings, start, run)
    stored = read_network(files.network)
    require_digest(files.network, stored, start.digest)
    there = Side(parse_game(stored.game), stored_settings(stored), stored.weights)
    here = new_network(settings.network_of(0), parse_game(settings.game), settings.seed)
    try:
        taken = transfer_weights(start.transfer, there, here)
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
    found = {START_COPY: read_network(files.network).content}
    if files.optimizer is not None:
        found[START_OPTIMIZER_COPY] = read_bytes(files.optimizer, _LARGEST)
    return found


class _Files(NamedTuple):
    network: Path
    optimizer: Path | None
    """Where learning goes on as if it had never stopped."""


def _kept_files(run: RunFolder | None) -> _Files | None:
    """Return the copies that a run has; None where it has none."""
    if run is None or not run.source_path(START_COPY).is_file():
        return None
    optimizer = run.source_path(START_OPTIMIZER_COPY)
    return _Files(run.source_path(START_COPY), optimizer if optimizer.is_file() else None)


def _named_files(settings: TrainSettings, start: StartSettings, run: RunFolder | None) -> _Files:
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
