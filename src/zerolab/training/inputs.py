"""Inputs of a run, such as its game, solved positions and networks of other runs.

A run can start from a network of another run, and can learn the features of one. Its settings name
these networks by path. When the run begins, their digests are added to the settings and copies to
the run folder, so that the other run can change or disappear (docs/decisions/0046). Runs of a study
begin with such copies, since they can be trained on a machine without the other run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.kinds.run import find_network
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.evaluation.positions import Positions, read_positions
from zerolab.networks.catalogue import NETWORKS, NetworkSettings, build_network
from zerolab.networks.heads import FeaturesHead
from zerolab.networks.inference import FeatureReader, torch_threads
from zerolab.networks.network import load_weights
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.arrays import Arrays, StoredNetwork, read_network, read_optimizer
from zerolab.store.checks import read_bytes
from zerolab.store.examples import Examples
from zerolab.store.games import canonical_folder, source_folder
from zerolab.store.run_folder import RunFolder
from zerolab.training.facts import SolvedSplit, later_features, read_split
from zerolab.training.learn_settings import StartSettings
from zerolab.training.settings import AccuracySettings, TrainSettings
from zerolab.training.shorthands import START
from zerolab.training.transfer import Side, Transferred, new_network, transfer_weights


class RunInputs(NamedTuple):
    """External inputs of a run, read once."""

    game: Game
    solved: Positions | None = None
    """Solved positions for measuring accuracy, if any."""
    split: SolvedSplit | None = None
    """Solved positions to learn from; None if the run learns from its own games."""
    feature_source: FeatureSource | None = None
    """The network whose features are learnt, if any."""
    start: Start | None = None
    """Initial weights of network 0; None if it is untrained or already saved."""


def find_inputs(settings: TrainSettings, run: RunFolder | None = None) -> RunInputs:
    """Return the inputs of a run; raise UserError if one is missing or does not fit.

    A run that has begun reads the copies in its folder. The network that it started from is no
    longer required.
    """
    game = parse_game(settings.game)
    locate: Callable[[str], Path] = Path if run is None else run.positions_path
    is_begun = run is not None and 0 in run.networks()
    return RunInputs(
        game,
        _accuracy_positions(settings.accuracy, game, locate),
        read_split(settings.supervised, game, locate),
        find_feature_source(settings, run),
        None if is_begun else find_start(settings, run),
    )


def _accuracy_positions(
    settings: AccuracySettings, game: Game, locate: Callable[[str], Path]
) -> Positions | None:
    """Return the positions for measuring accuracy; None if it is not measured."""
    if not settings.every:
        return None
    positions, _ = read_positions(locate(settings.positions), game)
    if not len(positions):
        raise UserError(
            f"{settings.positions} has no positions: expected some to measure accuracy on"
        )
    return positions


def named_network(key: str, name: str, run: RunFolder | None) -> tuple[RunFolder, int]:
    """Return the run and iteration of a network given as RUN or RUN@N in the setting `key`.

    Raises UserError if the network does not exist, or if it belongs to `run` itself.
    """
    try:
        source, iteration = find_network(name)
    except UserError as error:
        raise UserError(f"{key} = {quoted(name)}: {error}") from None
    if run is not None and canonical_folder(source.path) == canonical_folder(run.path):
        raise UserError(
            f"{key} = {quoted(name)} is the run itself: expected a network of another run"
        )
    return source, iteration


def require_digest(path: Path, stored: StoredNetwork, digest: str) -> None:
    """Raise UserError if a network does not match the digest in the settings, unless it is ""."""
    if digest not in ("", stored.digest):
        raise UserError(
            f"{path} has the digest {stored.digest}, not {digest}: expected the network with which"
            " this run began"
        )


def stored_settings(stored: StoredNetwork) -> NetworkSettings:
    """Return the settings of a stored network; raise UserError for an unknown architecture."""
    kind: type[NetworkSettings] = NETWORKS[stored.settings["name"]]
    return validate(kind, stored.settings)


def source_network(key: str, name: str) -> NetworkSettings:
    """Return the settings of the network named in the setting `key`.

    Heads whose settings depend on their run, such as those for features of another network, are
    omitted.
    """
    source, iteration = named_network(key, name, None)
    settings = stored_settings(read_network(source.weights_path(iteration)))
    heads = tuple(head for head in settings.heads if not head.set_by_run)
    return settings.model_copy(update={"heads": heads})


FEATURES_COPY = "source.safetensors"
"""File name of a run's copy of the network whose features it learns."""

_FEATURES_KEY = "network.heads.features"


class FeatureSource:
    """A network whose features are learnt, for this position and positions some plies later."""

    def __init__(self, stored: StoredNetwork, plies: Sequence[int]) -> None:
        """Build the network; raise UserError if its heads have no convolutions."""
        game = parse_game(stored.game)
        settings = validate(NETWORKS[stored.settings["name"]], stored.settings)
        network = build_network(settings, game, seed=0)
        load_weights(network, stored.weights)
        self.stored = stored
        self._reader = FeatureReader(network, game)
        self._plies = plies

    @property
    def feature_count(self) -> int:
        """Number of features per position."""
        return self._reader.feature_count

    def features(self, states: NDArray[np.uint64]) -> NDArray[np.float16]:
        """Return the features of states uint64[N, words] as float16[N, feature_count]."""
        with torch_threads(available_cores()):
            return self._reader.read(states).astype(np.float16)

    def targets(self, examples: Examples, features: NDArray[np.float16]) -> NDArray[np.float16]:
        """Return the training targets of examples, given their features (`later_features`)."""
        return later_features(examples, features, self._plies)


def count_features(settings: TrainSettings) -> int:
    """Return the number of features per position of a run's last network.

    Raises UserError if its heads have no convolutions.
    """
    game = parse_game(settings.game)
    network = build_network(settings.network_of(settings.iterations), game, settings.seed)
    return FeatureReader(network, game).feature_count


def features_head(settings: TrainSettings) -> FeaturesHead | None:
    """Return the features head of a run, if any."""
    heads = settings.network.heads
    return next((head for head in heads if isinstance(head, FeaturesHead)), None)


def find_feature_source(
    settings: TrainSettings, run: RunFolder | None = None
) -> FeatureSource | None:
    """Return the network whose features a run learns; None if there is none.

    A run that has begun uses its own copy. Raises UserError if the network does not exist, differs
    from the one with which the run began, or has no features for the run's game.
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
    if head.width not in (0, source.feature_count):
        raise UserError(
            f"{_FEATURES_KEY}.width = {head.width}: expected the {source.feature_count} features"
            f" of {path}"
        )
    return source


def read_feature_files(source: RunFolder) -> dict[str, bytes]:
    """Return the contents of the files, by name, needed to learn the features of a finished run.

    Raises UserError if a file is damaged.
    """
    return {FEATURES_COPY: read_network(source.weights_path(source.progress.best)).content}


def _feature_network(head: FeaturesHead, run: RunFolder | None) -> Path:
    """Return the path of the source network of a head."""
    if not head.source:
        raise UserError(
            f"{_FEATURES_KEY}.source is missing: expected a trained network for the same game, such"
            f" as {_FEATURES_KEY}.source=runs/small or {_FEATURES_KEY}.source=runs/small@12"
        )
    source, iteration = named_network(f"{_FEATURES_KEY}.source", head.source, run)
    return source.weights_path(iteration)


def with_feature_source(settings: TrainSettings, source: FeatureSource | None) -> TrainSettings:
    """Return settings completed with the digest and feature count of the source network."""
    head = features_head(settings)
    if head is None or source is None:
        return settings
    completed = head.model_copy(
        update={"digest": source.stored.digest, "width": source.feature_count}
    )
    heads = tuple(completed if each is head else each for each in settings.network.heads)
    network = settings.network.model_copy(update={"heads": heads})
    return settings.model_copy(update={"network": network})


START_COPY = "start.safetensors"
"""File name of a run's copy of the network that it starts from."""
START_OPTIMIZER_COPY = "start.optimizer.safetensors"
"""File name of a run's copy of the initial optimiser state, if training continues with it."""

_MAX_BYTES = 1 << 32


class Start(NamedTuple):
    """Initial weights and optimiser state of a run, taken from another run."""

    settings: StartSettings
    """Settings of the run, completed with the digest, iteration and game of the source."""
    transferred: Transferred
    optimizer: Arrays
    """The optimiser state to continue with; empty for a new optimiser."""
    is_trunk_frozen: bool = False

    def describe(self) -> str:
        """Return a message for the user."""
        start, transferred = self.settings, self.transferred
        assert start.iteration is not None  # set by `find_start`
        name = f"{source_folder(start.source, start.iteration)}@{start.iteration}"
        optimizer = ", with its optimiser state" if self.optimizer else ""
        new = f"; new: {', '.join(transferred.new)}" if transferred.new else ""
        if self.is_trunk_frozen and any(part.startswith("plane ") for part in transferred.new):
            new += " (new planes have no effect because the trunk is frozen)"
        unused = f"; unused: {', '.join(transferred.unused)}" if transferred.unused else ""
        return f"starts from {name}, trained on {start.game}{optimizer}{new}{unused}"


def find_start(settings: TrainSettings, run: RunFolder | None = None) -> Start | None:
    """Return the initial weights of a run; None if it starts untrained.

    Raises UserError if the source network does not exist, differs from the one with which the run
    began, or does not fit the run's network.
    """
    start = settings.start
    if start is None:
        return None
    files = _copied_files(run) or _source_files(settings, *named_network(START, start.source, run))
    stored = read_network(files.network)
    require_digest(files.network, stored, start.digest)
    source = Side(parse_game(stored.game), stored_settings(stored), stored.weights)
    target = new_network(settings.network_of(0), parse_game(settings.game), settings.seed)
    try:
        transferred = transfer_weights(start.transfer, source, target)
    except UserError as error:
        raise UserError(f"{START} = {quoted(start.source)}: {error}") from None
    optimizer = read_optimizer(files.optimizer, stored) if files.optimizer else {}
    origin = {"digest": stored.digest, "iteration": stored.iteration, "game": stored.game}
    is_frozen = settings.learn.frozen == "trunk"
    return Start(start.model_copy(update=origin), transferred, optimizer, is_frozen)


def start_files(settings: TrainSettings, source: RunFolder) -> dict[str, bytes]:
    """Return the contents of the files, by name, needed to start from a finished run.

    Raises UserError if a file is damaged.
    """
    files = _source_files(settings, source, source.progress.best)
    contents = {START_COPY: read_network(files.network).content}
    if files.optimizer is not None:
        contents[START_OPTIMIZER_COPY] = read_bytes(files.optimizer, _MAX_BYTES)
    return contents


class _Files(NamedTuple):
    network: Path
    optimizer: Path | None
    """None if training starts with a new optimiser."""


def _copied_files(run: RunFolder | None) -> _Files | None:
    """Return the copies in a run folder, if any."""
    if run is None or not run.source_path(START_COPY).is_file():
        return None
    optimizer = run.source_path(START_OPTIMIZER_COPY)
    return _Files(run.source_path(START_COPY), optimizer if optimizer.is_file() else None)


def _source_files(settings: TrainSettings, source: RunFolder, iteration: int) -> _Files:
    """Return the files of another run to start from."""
    network, optimizer = source.weights_path(iteration), source.optimizer_path(iteration)
    stored = read_network(network)
    keeps_optimizer = _can_keep_optimizer(settings, source, stored) and optimizer.is_file()
    return _Files(network, optimizer if keeps_optimizer else None)


def _can_keep_optimizer(settings: TrainSettings, source: RunFolder, stored: StoredNetwork) -> bool:
    """Return True if game, network and optimiser are equal and all weights are transferred."""
    start, learn = settings.start, source.config.get("learn", {})
    source_optimizer = learn.get("optimizer") if isinstance(learn, dict) else None
    return (
        start is not None
        and start.transfer == "all"
        and stored.game == settings.game
        and stored_settings(stored) == settings.network_of(0)
        and source_optimizer == settings.learn.optimizer.model_dump()
    )
