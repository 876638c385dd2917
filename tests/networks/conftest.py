"""Small networks, untrained and trained, for the tests of networks."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.network import Network
from zerolab.networks.objectives import POLICY_HEAD, VALUE_HEAD, cross_entropy, squared_error
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.testing.random_games import ongoing_sample_positions

SMALL = {
    "conv": NETWORKS["conv"](channels=16, hidden=(32, 16)),
    "resnet": NETWORKS["resnet"](blocks=2, filters=16, hidden=16),
    "fully_convolutional": NETWORKS["fully_convolutional"](blocks=2, filters=16, hidden=16),
    "gated": NETWORKS["resnet"](
        blocks=2,
        filters=16,
        hidden=16,
        squeeze_excite=4,
        stem_filters=24,
        planes=("ones", "landing", "row_parity"),
    ),
}


@pytest.fixture(autouse=True)
def one_core() -> None:
    """Use one thread, because parallel test processes share the cores."""
    torch.set_num_threads(1)


@pytest.fixture
def game() -> Game:
    return parse_game("connect_four:6x7")


@pytest.fixture
def states(game: Game) -> NDArray[np.uint64]:
    """Return about 150 distinct positions of random games, uint64[N, words]."""
    return np.unique([sample.state for sample in ongoing_sample_positions(game)], axis=0)


@pytest.fixture(params=SMALL)
def trained(request: pytest.FixtureRequest, game: Game) -> Network:
    """Return a network trained on noise, so that no layer has its initial weights."""
    return copy.deepcopy(_trained(request.param, game))


@cache
def _trained(architecture: str, game: Game) -> Network:
    network = build_network(SMALL[architecture], game, seed=1)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    torch.manual_seed(2)
    for _ in range(60):
        planes = torch.randint(-1, 2, (32, 1, 6, 7)).float()
        outputs = network(planes)
        top = planes[:, 0, 0]
        loss = cross_entropy(outputs[POLICY_HEAD], torch.softmax(4 * top, dim=1)).mean()
        loss = loss + squared_error(outputs[VALUE_HEAD], top[:, 3]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network
