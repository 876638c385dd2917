"""Features of positions: what the convolutions before a network's heads say [Clausen2021]."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from zerolab.networks.inference import best_device
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network
from zerolab.rules import host
from zerolab.rules.interface import Game

_BATCH = 1024


class FeatureReader:
    """A snapshot of a network that gives the activations of the convolutions before its heads.

    It computes in float32 (TF32 where torch allows graphics cards to), never in bfloat16: features
    are learnt, not played with.
    """

    def __init__(self, network: Network, game: Game, device: torch.device | None = None) -> None:
        """Get ready; raise UserError for a network whose heads have no convolutions."""
        self._game = game
        self._device = device or best_device()
        folded = folded_copy(network).to(self._device)
        self._network = folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.width: int = self._read(host.start(game)[None]).shape[1]
        """How many features a position has."""

    def read(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the features of uint64[N, words] states, float32[N, width], head by head.

        Equal states are computed once. In float32 the last bits depend on the batch.
        """
        distinct, places = np.unique(states, axis=0, return_inverse=True)
        found = np.empty((len(distinct), self.width), np.float32)
        for begin in range(0, len(distinct), _BATCH):
            batch = slice(begin, begin + _BATCH)
            found[batch] = self._read(distinct[batch])
        return found[places.reshape(-1)]

    def _read(self, states: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Return the features of a batch of states."""
        planes = torch.from_numpy(host.encode_batch(self._game, states)).to(self._device)
        with torch.inference_mode():
            features = self._network.features(planes.contiguous(memory_format=torch.channels_last))
        found: NDArray[np.float32] = features.cpu().numpy()
        return found
