"""Inputs of a run, such as its game, solved positions and networks from other runs.

A run can start from another run's network, and can learn to predict the features of another run's
network. The settings name these networks by path. When the run starts, the digests of the networks
are added to the settings, and the networks are copied to the run folder, so that the other run may
be changed or deleted (docs/decisions/0046). A study puts the copies in the run folder in advance,
since its runs can be trained on machines that do not have the other run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.run_agents import find_run_and_iteration
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.evaluation.positions import SolvedPositions
from zerolab.networks.catalogue import NETWORKS, NetworkSettings, build_network
from zerolab.networks.heads import FeaturesHead
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.store.arrays import NamedArrays, NetworkFile, read_network_file, read_optimizer_state
from zerolab.store.checks import read_bytes
from zerolab.store.examples import Examples
from zerolab.store.games import relative_path_text, source_run_folder
from zerolab.store.run_folder import RunFolder
from zerolab.training.learn_settings import StartSettings
from zerolab.training.shorthands import START_SOURCE_KEY
from zerolab.training.train_settings import TrainSettings
from zerolab.training.transfer import (
    NetworkWithGame,
    TransferredWeights,
    transfer_weights,
    untrained_network,
)
from zerolab.training.window_facts import (
    SolvedPositionSplit,
    later_features,
    later_states,
    read_accuracy_positions,
    read_solved_split,
)


class RunInputs(NamedTuple):
    """Inputs of a run, most of them from outside its folder, read once."""

    game: Game
    accuracy_positions: SolvedPositions | None = None
    """Solved positions on which accuracy is measured, if any."""
    solved_split: SolvedPositionSplit | None = None
    """Solved positions to learn from; None if the run learns from its own games."""
    feature_network: FeatureNetwork | None = None
    """Network whose features the run learns to predict, if any."""
    initial_weights: InitialWeights | None = None
    """Weights of network 0; None if network 0 is untrained or already saved."""


def read_inputs(settings: TrainSettings, run: RunFolder | None = None) -> RunInputs:
    """Return the inputs of a run; raise UserError if one is missing or incompatible.

    A run that has started reads the copies in its folder and no longer needs its source network.
    """
    game = parse_game(settings.game)
    locate: Callable[[str], Path] = Path if run is None else run.solved_positions_path
    has_begun = run is not None and 0 in run.network_iterations()
    training_digest = "" if has_begun else settings.supervised.digest
    return RunInputs(
        game,
        read_accuracy_positions(settings.accuracy, training_digest, game, locate),
        read_solved_split(settings.supervised, game, locate),
        read_feature_network(settings, run),
        None if has_begun else read_initial_weights(settings, run),
    )


def find_source_network(key: str, name: str, run: RunFolder | None) -> tuple[RunFolder, int]:
    """Return the run and iteration of a network, named RUN or RUN@N by the setting `key`.

    Raises UserError if the network does not exist or belongs to `run` itself.
    """
    try:
        source, iteration = find_run_and_iteration(name)
    except UserError as error:
        raise UserError(f"{key} = {quoted(name)}: {error}") from None
    if run is not None and relative_path_text(source.path) == relative_path_text(run.path):
        raise UserError(
            f"{key} = {quoted(name)} is the run itself: expected a network from a different run"
        )
    return source, iteration


def require_network_digest(path: Path, network_file: NetworkFile, digest: str) -> None:
    """Raise UserError if a network's digest differs from a nonempty digest in the settings."""
    if digest not in ("", network_file.digest):
        raise UserError(
            f"{path} has the digest {network_file.digest}, not {digest}: expected the network with"
            " which this run started"
        )


def stored_network_settings(network_file: NetworkFile) -> NetworkSettings:
    """Return the settings of a network in a file; raise UserError for unknown architectures."""
    kind: type[NetworkSettings] = NETWORKS[network_file.network_settings["name"]]
    return validate(kind, network_file.network_settings)


def source_network_settings(key: str, name: str) -> NetworkSettings:
    """Return the settings of the network named `name` by the setting `key`.

    Heads whose settings depend on their run are omitted, such as the head for another network's
    features.
    """
    source, iteration = find_source_network(key, name, None)
    settings = stored_network_settings(read_network_file(source.weights_path(iteration)))
    heads = tuple(head for head in settings.heads if not head.fields_set_by_run)
    return settings.model_copy(update={"heads": heads})


FEATURE_NETWORK_FILE_NAME = "source.safetensors"
"""File name of a run's copy of the network whose features it learns to predict."""

_FEATURES_KEY = "network.heads.features"


class FeatureNetwork:
    """Network whose features a run learns to predict, in the current position or later ones."""

    def __init__(self, network_file: NetworkFile, head: FeaturesHead) -> None:
        """Build the network; raise UserError if a head named by `head` has no convolutions."""
        from zerolab.networks.inference import FeatureExtractor  # slow: imports torch
        from zerolab.networks.network import set_weights

        game = parse_game(network_file.game_name)
        network = build_network(stored_network_settings(network_file), game, seed=0)
        set_weights(network, network_file.weights)
        self.network_file = network_file
        self._extractor = FeatureExtractor(network, game, heads=head.heads)
        self._plies = head.plies

    @property
    def feature_count(self) -> int:
        """Number of features per position."""
        return self._extractor.feature_count

    def features(self, states: NDArray[np.uint64]) -> NDArray[np.float16]:
        """Return the features of states uint64[N, words] as float16[N, feature_count]."""
        return self._extractor.extract(states).astype(np.float16)

    def feature_targets(
        self, examples: Examples, features: NDArray[np.float16]
    ) -> NDArray[np.float16]:
        """Return the targets of examples, float16[N, plies * feature_count].

        `features`, float16[N, feature_count], are those of the examples; see `later_features`.
        """
        return later_features(examples, features, self._plies)

    def solved_feature_targets(self, positions: SolvedPositions) -> NDArray[np.float16]:
        """Return the targets of solved positions, float16[N, plies * feature_count].

        Each row contains the features of the positions `plies` later in the same game; NaN after
        the game's last position in the file.
        """
        later = [later_states(positions, ply) for ply in self._plies]
        features = self.features(np.concatenate([states for _, states in later]))
        ends = np.cumsum([len(rows) for rows, _ in later])[:-1]
        shape = (len(positions), len(self._plies), self.feature_count)
        targets = np.full(shape, np.nan, np.float16)
        for column, ((rows, _), part) in enumerate(
            zip(later, np.split(features, ends), strict=True)
        ):
            targets[rows, column] = part
        return targets.reshape(len(positions), -1)


def features_head(settings: TrainSettings) -> FeaturesHead | None:
    """Return the features head of a run, if any."""
    heads = settings.network.heads
    return next((head for head in heads if isinstance(head, FeaturesHead)), None)


def read_feature_network(
    settings: TrainSettings, run: RunFolder | None = None
) -> FeatureNetwork | None:
    """Return the network whose features a run learns to predict, if any.

    A run that has started uses the copy in its folder. Raises UserError if the network does not
    exist, differs from the one with which the run started, or has no features for the run's game.
    """
    head = features_head(settings)
    if head is None:
        return None
    copy = None if run is None else run.path_of_copy_from_source_run(FEATURE_NETWORK_FILE_NAME)
    is_copied = copy is not None and head.digest and copy.is_file()
    path = copy if copy is not None and is_copied else _feature_network_path(head, run)
    network_file = read_network_file(path)
    if network_file.game_name != settings.game:
        raise UserError(
            f"{_FEATURES_KEY}.source = {quoted(head.source)} plays {network_file.game_name}:"
            f" expected a network for {settings.game}"
        )
    require_network_digest(path, network_file, head.digest)
    try:
        source = FeatureNetwork(network_file, head)
    except UserError as error:
        raise UserError(f"{_FEATURES_KEY}.source = {quoted(head.source)}: {error}") from None
    if head.width not in (0, source.feature_count):
        raise UserError(
            f"{_FEATURES_KEY}.width = {head.width}: expected the {source.feature_count} features"
            f" of {path}"
        )
    return source


def read_feature_network_files(source: RunFolder) -> dict[str, bytes]:
    """Return the contents, by file name, of the files needed to predict a finished run's features.

    Raises UserError if a file is damaged.
    """
    path = source.weights_path(source.progress.best)
    return {FEATURE_NETWORK_FILE_NAME: read_network_file(path).content}


def _feature_network_path(head: FeaturesHead, run: RunFolder | None) -> Path:
    """Return the path of the network whose features a head learns to predict."""
    if not head.source:
        raise UserError(
            f"{_FEATURES_KEY}.source is missing: expected a trained network for the same game, such"
            f" as {_FEATURES_KEY}.source=runs/small or {_FEATURES_KEY}.source=runs/small@12"
        )
    source, iteration = find_source_network(f"{_FEATURES_KEY}.source", head.source, run)
    return source.weights_path(iteration)


def with_feature_network(settings: TrainSettings, source: FeatureNetwork | None) -> TrainSettings:
    """Return settings completed with the digest and feature count of the feature network."""
    head = features_head(settings)
    if head is None or source is None:
        return settings
    return _complete_head(
        settings, head, digest=source.network_file.digest, width=source.feature_count
    )


def with_planned_features(settings: TrainSettings, source: TrainSettings) -> TrainSettings:
    """Return settings completed with the feature count of the network whose features are predicted.

    This network is the last one of the planned run with the settings `source`. Raises UserError if
    the heads whose features are to be predicted have no convolutions.
    """
    from zerolab.networks.inference import FeatureExtractor  # slow: imports torch

    head = features_head(settings)
    assert head is not None
    game = parse_game(source.game)
    network = build_network(source.network_settings_at(source.iterations), game, source.seed)
    width = FeatureExtractor(network, game, heads=head.heads).feature_count
    return _complete_head(settings, head, width=width)


def _complete_head(settings: TrainSettings, head: FeaturesHead, **fields: Any) -> TrainSettings:
    completed = head.model_copy(update=fields)
    heads = tuple(completed if each is head else each for each in settings.network.heads)
    network = settings.network.model_copy(update={"heads": heads})
    return settings.model_copy(update={"network": network})


START_NETWORK_FILE_NAME = "start.safetensors"
"""File name of a run's copy of the network from which the run starts."""
START_OPTIMIZER_FILE_NAME = "start.optimizer.safetensors"
"""File name of a run's copy of the initial optimiser state, if training continues with it."""

_MAX_BYTES = 1 << 32


class InitialWeights(NamedTuple):
    """Initial weights and optimiser state of a run, taken from another run."""

    start_settings: StartSettings
    """The run's `start` settings, completed with the digest, iteration and game of the source."""
    transferred_weights: TransferredWeights
    optimizer_state: NamedArrays
    """Optimiser state of the source; empty if the run starts with a new optimiser."""
    is_trunk_frozen: bool = False

    def describe(self) -> str:
        """Return one line that says where the run starts and what was not transferred."""
        start, transferred = self.start_settings, self.transferred_weights
        assert start.iteration is not None  # set by `read_initial_weights`
        name = f"{source_run_folder(start.source, start.iteration)}@{start.iteration}"
        optimizer = ", with its optimiser state" if self.optimizer_state else ""
        new = (
            f"; new: {', '.join(transferred.untrained_parts)}"
            if transferred.untrained_parts
            else ""
        )
        if self.is_trunk_frozen and any(
            part.startswith("plane ") for part in transferred.untrained_parts
        ):
            new += " (new planes have no effect because the trunk is frozen)"
        parts = ", ".join(transferred.unused_parts)
        unused = f"; unused: {parts}" if parts else ""
        return f"starts from {name}, trained on {start.game}{optimizer}{new}{unused}"


def read_initial_weights(
    settings: TrainSettings, run: RunFolder | None = None
) -> InitialWeights | None:
    """Return the initial weights of a run; None if it starts with an untrained network.

    Raises UserError if the source network does not exist, differs from the one with which the run
    began, or is incompatible with the run's network.
    """
    start = settings.start
    if start is None:
        return None
    files = _copied_files(run) or _source_files(
        settings, *find_source_network(START_SOURCE_KEY, start.source, run)
    )
    network_file = read_network_file(files.network)
    require_network_digest(files.network, network_file, start.digest)
    game = parse_game(network_file.game_name)
    source = NetworkWithGame(game, stored_network_settings(network_file), network_file.weights)
    own_game = parse_game(settings.game)
    target = untrained_network(settings.network_settings_at(0), own_game, settings.seed)
    try:
        transferred = transfer_weights(start.transfer, source, target)
    except UserError as error:
        raise UserError(f"{START_SOURCE_KEY} = {quoted(start.source)}: {error}") from None
    optimizer_state = read_optimizer_state(files.optimizer, network_file) if files.optimizer else {}
    origin = {
        "digest": network_file.digest,
        "iteration": network_file.iteration,
        "game": network_file.game_name,
    }
    is_frozen = settings.learn.frozen == "trunk"
    return InitialWeights(start.model_copy(update=origin), transferred, optimizer_state, is_frozen)


def read_initial_weights_files(settings: TrainSettings, source: RunFolder) -> dict[str, bytes]:
    """Return the contents, by file name, of the files needed to start from a finished run.

    Raises UserError if a file is damaged.
    """
    files = _source_files(settings, source, source.progress.best)
    contents = {START_NETWORK_FILE_NAME: read_network_file(files.network).content}
    if files.optimizer is not None:
        contents[START_OPTIMIZER_FILE_NAME] = read_bytes(files.optimizer, _MAX_BYTES)
    return contents


class _Files(NamedTuple):
    network: Path
    optimizer: Path | None
    """None if training starts with a new optimiser."""


def _copied_files(run: RunFolder | None) -> _Files | None:
    """Return the copies in a run folder, if any, from which the run starts."""
    network = None if run is None else run.path_of_copy_from_source_run(START_NETWORK_FILE_NAME)
    if run is None or network is None or not network.is_file():
        return None
    optimizer = run.path_of_copy_from_source_run(START_OPTIMIZER_FILE_NAME)
    return _Files(network, optimizer if optimizer.is_file() else None)


def _source_files(settings: TrainSettings, source: RunFolder, iteration: int) -> _Files:
    """Return the files of another run from which the run starts."""
    network, optimizer = source.weights_path(iteration), source.optimizer_path(iteration)
    network_file = read_network_file(network)
    keeps_optimizer = _can_keep_optimizer(settings, source, network_file) and optimizer.is_file()
    return _Files(network, optimizer if keeps_optimizer else None)


def _can_keep_optimizer(
    settings: TrainSettings, source: RunFolder, network_file: NetworkFile
) -> bool:
    """Return True if all weights are transferred between equal games, networks and optimisers.

    A frozen trunk keeps the transferred weights. With weight averaging, these are the source's
    average, while its optimiser state contains other, latest weights.
    """
    start, learn = settings.start, source.config.get("learn", {})
    source_optimizer = learn.get("optimizer") if isinstance(learn, dict) else None
    return (
        start is not None
        and start.transfer == "all"
        and network_file.game_name == settings.game
        and stored_network_settings(network_file) == settings.network_settings_at(0)
        and source_optimizer == settings.learn.optimizer.model_dump()
        and not (settings.learn.frozen == "trunk" and settings.learn.ema_decay)
    )
