"""Supervised learning of game results, from the labels of [ClausenCode] or from right ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import torch_threads
from zerolab.oracles.solver import oracle_for
from zerolab.rules import python
from zerolab.rules.catalogue import parse_game
from zerolab.training.published_bugs import losses_as_draws

_BATCH = 64
_TEST_SHARE = 0.2
_CLASSES = {1: 0, 0: 1, -1: 2}  # win, draw, loss: the outputs of the head


class _Data(NamedTuple):
    planes: torch.Tensor
    """float32[N, planes, rows, columns]"""
    outcomes: NDArray[np.int8]
    """int8[N]: the mover's result under perfect play."""
    labels: NDArray[np.int8]
    """int8[N]: the label learned in its place."""

    def rows(self, chosen: slice) -> _Data:
        """Return some of the positions."""
        return _Data(self.planes[chosen], self.outcomes[chosen], self.labels[chosen])


def learn_outcomes(
    *, game: str, positions: int, epochs: int, bug: bool, seed: int
) -> dict[str, float]:
    """Train a small network to predict win, draw or loss; return shares of held-out positions.

    Half of the plies that lead to the positions are perfect and half random, as in [Clausen2021].
    `on_labels` is the share in which the network predicts the label, `on_outcomes` the true
    outcome; `ceiling` is the share whose label is the true outcome, the score of a perfect network.
    `held_out` counts the held-out positions, `distinct` the different ones among them, and
    `true_labels` those of the latter whose label is the true outcome.
    """
    data = _data(game, positions, bug, seed)
    held_out = round(_TEST_SHARE * len(data.outcomes))
    test, train = data.rows(slice(held_out)), data.rows(slice(held_out, None))
    with torch_threads(1):
        predicted = _predictions(game, train, test, epochs, seed)
    return {
        "positions": float(len(data.outcomes)),
        "on_labels": float((predicted == _classes(test.labels)).mean()),
        "on_outcomes": float((predicted == _classes(test.outcomes)).mean()),
        "ceiling": float((test.labels == test.outcomes).mean()),
        "held_out": float(held_out),
        **_distinct(test),
    }


def _distinct(test: _Data) -> dict[str, float]:
    """Count different positions: repeated ones are no further evidence about the labels."""
    planes = test.planes.numpy().reshape(len(test.outcomes), -1)
    first = np.unique(planes, axis=0, return_index=True)[1]
    is_true = (test.labels == test.outcomes)[first]
    return {"distinct": float(len(first)), "true_labels": float(is_true.sum())}


def _data(name: str, count: int, bug: bool, seed: int) -> _Data:
    """Collect solved positions in random order, so that games are mixed."""
    game = parse_game(name)
    found = collect_in_memory(game, count, DatasetSettings(seed=seed), oracle_for(game)).positions
    found = found.take(np.random.default_rng(seed).permutation(len(found)))
    outcomes = np.sign(found.best).astype(np.int8)
    labels = losses_as_draws(outcomes, found.plies % 2 == 0) if bug else outcomes
    return _Data(torch.from_numpy(python.encode_batch(game, found.states)), outcomes, labels)


def _classes(labels: NDArray[np.int8]) -> NDArray[np.int64]:
    return np.array([_CLASSES[label] for label in labels.tolist()])


def _predictions(game: str, train: _Data, test: _Data, epochs: int, seed: int) -> NDArray[np.int64]:
    """Train on the labels; return the class of every test position, int64[N]."""
    settings = NETWORKS["conv"].model_validate(
        {"channels": 16, "hidden": [64, 32], "dropout": 0.1, "heads": ["policy", "outcome"]}
    )
    network = build_network(settings, parse_game(game), seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    targets = torch.from_numpy(_classes(train.labels))
    torch.manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(len(targets))
        for rows in torch.split(order, _BATCH):
            if len(rows) < _BATCH:
                continue
            error = cross_entropy(
                network(train.planes[rows], ["outcome"])["outcome"], targets[rows]
            )
            optimizer.zero_grad()
            error.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    network.eval()
    with torch.no_grad():
        outputs = network(test.planes, ["outcome"])["outcome"]
    predicted: NDArray[np.int64] = outputs.argmax(dim=1).numpy()
    return predicted
