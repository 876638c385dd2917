"""The network whose features a run's head learns: found, identified, and kept by the run.

A run names it by its path at first, and knows it by its digest once it has begun. From then on it
has a copy in its own folder, so that it goes on where the other run is gone or has gone on
(docs/decisions/0046).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.threads import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.features import FeatureReader
from zerolab.networks.heads.features import FeaturesHead
from zerolab.networks.threads import torch_threads
from zerolab.networks.weights import load_weights
from zerolab.rules.catalogue import parse_game
from zerolab.store.examples import Examples
from zerolab.store.networks import StoredNetwork, read_network
from zerolab.store.run_folder import RunFolder
from zerolab.training.facts import later_features
from zerolab.training.settings import TrainSettings
from zerolab.training.sources import named_network, require_digest

KEPT = "source.safetensors"
"""The name of the run's copy."""

_KEY = "network.heads.features"


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


def find_source(settings: TrainSettings, run: RunFolder | None = None) -> FeatureSource | None:
    """Return the network whose features a run learns; None where it learns none.

    Of a run that has begun that is its own copy. Raises UserError for a network that is not there,
    is not the one that the run began with, or has no features of the run's game.
    """
    head = features_head(settings)
    if head is None:
        return None
    if run is not None and head.digest and run.source_path(KEPT).is_file():
        path = run.source_path(KEPT)
    else:
        path = _named(head, run)
    stored = read_network(path)
    if stored.game != settings.game:
        raise UserError(
            f"{_KEY}.source = {quoted(head.source)} plays {stored.game}: expected a network of"
            f" {settings.game}"
        )
    require_digest(path, stored, head.digest)
    try:
        source = FeatureSource(stored, head.plies)
    except UserError as error:
        raise UserError(f"{_KEY}.source = {quoted(head.source)}: {error}") from None
    if head.width not in (0, source.width):
        raise UserError(
            f"{_KEY}.width = {head.width}: expected the {source.width} features of {path}"
        )
    return source


def feature_files(source: RunFolder) -> dict[str, bytes]:
    """Return what a run keeps of a finished one whose features it learns, by the names of files.

    Raises UserError where that is damaged.
    """
    return {KEPT: read_network(source.weights_path(source.progress.best)).content}


def _named(head: FeaturesHead, run: RunFolder | None) -> Path:
    """Return the file of the network that a head names."""
    if not head.source:
        raise UserError(
            f"{_KEY}.source is missing: expected a trained network of the same game, as in"
            f" {_KEY}.source=runs/small or {_KEY}.source=runs/small@12"
        )
    source, iteration = named_network(f"{_KEY}.source", head.source, run)
    return source.weights_path(iteration)


def identified(settings: TrainSettings, source: FeatureSource | None) -> TrainSettings:
    """Return the settings of a run that has begun: they say which network it learns from."""
    head = features_head(settings)
    if head is None or source is None:
        return settings
    found = head.model_copy(update={"digest": source.stored.digest, "width": source.width})
    heads = tuple(found if each is head else each for each in settings.network.heads)
    network = settings.network.model_copy(update={"heads": heads})
    return settings.model_copy(update={"network": network})
