"""What travels to another process in place of an evaluator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.rules.catalogue import parse_game
from zerolab.search.interface import Evaluator

EvaluatorSpec = Callable[[], Evaluator]
"""Makes an evaluator wherever it is called; plain data, or a name, and never a closure."""


@dataclass(frozen=True)
class NetworkSpec:
    """A network as data; calling it makes its evaluator, on a GPU where there is one."""

    game: str
    network: dict[str, Any]
    """Its settings, of which `name` is the architecture."""
    weights: dict[str, NDArray[np.generic]]

    def __call__(self) -> Evaluator:
        """Build the network and load its weights."""
        from zerolab.networks.inference import NetworkEvaluator  # noqa: PLC0415  loads torch
        from zerolab.networks.weights import load_weights  # noqa: PLC0415

        game = parse_game(self.game)
        settings = NETWORKS[self.network["name"]].model_validate(self.network)
        network = build_network(settings, game, seed=0)  # whose weights are replaced
        load_weights(network, self.weights)
        return NetworkEvaluator(network, game)
