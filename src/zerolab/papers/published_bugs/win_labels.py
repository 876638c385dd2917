"""Supervised learning of game outcomes from the labels of [ClausenCode] or from correct labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.position_statistics import independent_trials
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import limit_torch_threads
from zerolab.oracles.solver import oracle_for
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.training.published_bugs import label_losses_as_draws

_BATCH = 64
_TEST_SHARE = 0.2
_CLASSES = {1: 0, 0: 1, -1: 2}  # outputs of the head: win, draw, loss


class _LabelledPositions(NamedTuple):
    """Encoded positions with true outcomes and training labels."""

    planes: torch.Tensor
    """Encoded positions, float32[N, planes, rows, columns]."""
    outcomes: NDArray[np.int8]
    """Results for the side to move under perfect play, int8[N]."""
    labels: NDArray[np.int8]
    """Training labels, int8[N]."""
    game_numbers: NDArray[np.int64]
    """Number of the game that contains the position, int64[N]."""

    def rows(self, rows: slice) -> _LabelledPositions:
        """Return a slice of the positions."""
        return _LabelledPositions(
            self.planes[rows], self.outcomes[rows], self.labels[rows], self.game_numbers[rows]
        )


def learn_outcomes(
    *, game: str, positions: int, epochs: int, bug: bool, seed: int
) -> dict[str, float]:
    """Train a small network to predict win, draw or loss, and return its held-out accuracy.

    Positions are reached by an even mix of perfect and random plies, as in [Clausen2021]. The
    returned shares and counts refer to held-out positions, except `positions`:

    - `positions`: number of all positions, including those for training.
    - `on_labels`: share for which the network predicts the label.
    - `on_outcomes`: share for which the network predicts the true outcome.
    - `ceiling`: share whose label is the true outcome, a perfect network's accuracy on the labels.
    - `held_out`: number of held-out positions.
    - `distinct`: number of distinct held-out positions.
    - `true_labels`: number of distinct held-out positions whose label is the true outcome.
    - `on_labels_trials`, `on_outcomes_trials`, `ceiling_trials`, `true_labels_trials`: effective
      number of positions behind each number, smaller because positions of a game are similar.
    """
    positions_with_labels = _collect(game, positions, bug, seed)
    held_out = round(_TEST_SHARE * len(positions_with_labels.outcomes))
    test, train = (
        positions_with_labels.rows(slice(held_out)),
        positions_with_labels.rows(slice(held_out, None)),
    )
    with limit_torch_threads(1):
        predicted = _predictions(game, train, test, epochs, seed)
    hits = {
        "on_labels": predicted == _classes(test.labels),
        "on_outcomes": predicted == _classes(test.outcomes),
        "ceiling": test.labels == test.outcomes,
    }
    return {
        "positions": float(len(positions_with_labels.outcomes)),
        "held_out": float(held_out),
        **{name: float(each.mean()) for name, each in hits.items()},
        **{
            f"{name}_trials": independent_trials(each, test.game_numbers)
            for name, each in hits.items()
        },
        **_distinct_counts(test),
    }


def _distinct_counts(test: _LabelledPositions) -> dict[str, float]:
    """Count distinct positions; repetitions add no evidence about the labels."""
    planes = test.planes.numpy().reshape(len(test.outcomes), -1)
    first = np.unique(planes, axis=0, return_index=True)[1]
    is_true = (test.labels == test.outcomes)[first]
    return {
        "distinct": float(len(first)),
        "true_labels": float(is_true.sum()),
        "true_labels_trials": float(independent_trials(is_true, test.game_numbers[first])),
    }


def _collect(name: str, count: int, bug: bool, seed: int) -> _LabelledPositions:
    """Collect solved positions and shuffle them so that games are mixed."""
    game = parse_game(name)
    ordered = collect_in_memory(game, count, DatasetSettings(seed=seed), oracle_for(game)).positions
    shuffled = ordered.take(np.random.default_rng(seed).permutation(len(ordered)))
    outcomes = np.sign(shuffled.position_values).astype(np.int8)
    labels = label_losses_as_draws(outcomes, shuffled.plies % 2 == 0) if bug else outcomes
    return _LabelledPositions(
        torch.from_numpy(compiled_rules.encode_batch(game, shuffled.states)),
        outcomes,
        labels,
        shuffled.game_numbers,
    )


def _classes(labels: NDArray[np.int8]) -> NDArray[np.int64]:
    return np.array([_CLASSES[label] for label in labels.tolist()])


def _predictions(
    game: str, train: _LabelledPositions, test: _LabelledPositions, epochs: int, seed: int
) -> NDArray[np.int64]:
    """Train on the labels and return the predicted class of each test position, int64[N]."""
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
            loss = cross_entropy(network(train.planes[rows], ["outcome"])["outcome"], targets[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    network.eval()
    with torch.no_grad():
        outputs = network(test.planes, ["outcome"])["outcome"]
    predicted: NDArray[np.int64] = outputs.argmax(dim=1).numpy()
    return predicted
