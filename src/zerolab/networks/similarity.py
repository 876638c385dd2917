"""How alike two networks see positions: linear CKA of their activations [Kornblith2019]."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from zerolab.core.errors import UserError
from zerolab.networks.inference import best_device
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import Network
from zerolab.networks.trunks import ResidualBlock
from zerolab.rules import host
from zerolab.rules.interface import Game

_BATCH = 1024
_FEWEST = 4
"""Positions for which the unbiased estimator is defined."""


def trunk_activations(
    network: Network, game: Game, states: NDArray[np.uint64], device: torch.device | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return what the layers of a residual trunk make of uint64[N, words] states, in order.

    float32[N, filters * rows * columns] by ``stem``, ``adapter`` where there is one, ``block 1``
    and so on, each after its ReLU. The board need not have the size that the network was trained
    on. Raises UserError for a trunk without residual blocks.
    """
    if not isinstance(network.trunk, nn.Sequential):
        raise UserError(
            'its network has no residual blocks to compare: expected one such as "resnet"'
        )
    device = device or best_device()
    trunk = folded_copy(network).trunk.to(device)
    found: dict[str, list[NDArray[np.float32]]] = {}
    for begin in range(0, len(states), _BATCH):
        planes = torch.from_numpy(host.encode_batch(game, states[begin : begin + _BATCH]))
        with torch.inference_mode():
            activations = planes.to(device)
            for name, layers in _stages(trunk).items():
                activations = layers(activations)
                found.setdefault(name, []).append(activations.flatten(1).cpu().numpy())
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _stages(trunk: nn.Module) -> dict[str, nn.Sequential]:
    """Return the layers of a residual trunk up to each ReLU that the next one reads."""
    stages: dict[str, nn.Sequential] = {}
    gathered: list[nn.Module] = []
    blocks = 0
    for module in trunk.children():
        gathered.append(module)
        if isinstance(module, ResidualBlock):
            blocks += 1
            stages[f"block {blocks}"] = nn.Sequential(*gathered)
        elif isinstance(module, nn.ReLU):
            stages["adapter" if stages else "stem"] = nn.Sequential(*gathered)
        else:
            continue
        gathered = []
    return stages


class Gram:
    """The inner products of centred activations, from which linear CKA follows.

    The unbiased estimator of HSIC of [Song2012], as [Nguyen2021] takes it for CKA: the usual
    estimator finds networks alike where they have more features than there are positions, whatever
    they are. It may be slightly below 0.
    """

    def __init__(self, activations: ArrayLike) -> None:
        """Take [N, features] activations; raise ValueError for fewer than four positions."""
        features = np.asarray(activations, np.float64)
        if len(features) < _FEWEST:
            raise ValueError(f"{len(features)} positions: expected at least {_FEWEST}")
        features = features - features.mean(axis=0)
        products = features @ features.T
        np.fill_diagonal(products, 0.0)
        self._products = products.astype(np.float32)
        self._sums: NDArray[np.float64] = products.sum(axis=1)
        self._norm = self._independence(self)

    def _independence(self, other: Gram) -> float:
        """Return the unbiased HSIC, up to the factor n (n - 3), which CKA divides out."""
        count = len(self._sums)
        # The entries are float32 to save memory; their products are summed up in float64.
        together = float(np.einsum("ij,ij->", self._products, other._products, dtype=np.float64))
        totals = float(self._sums.sum() * other._sums.sum())
        mixed = float(self._sums @ other._sums)
        return together + totals / ((count - 1) * (count - 2)) - 2.0 * mixed / (count - 2)

    def cka(self, other: Gram) -> float:
        """Return linear CKA with other activations on the same positions, at most 1.

        NaN where one of both does not tell positions apart.
        """
        if len(self._sums) != len(other._sums):
            raise ValueError(f"{len(self._sums)} and {len(other._sums)} positions")
        if self._norm <= 0.0 or other._norm <= 0.0:
            return float("nan")
        return self._independence(other) / float(np.sqrt(self._norm * other._norm))


def linear_cka(one: ArrayLike, other: ArrayLike) -> float:
    """Return how alike [N, features] activations of two layers are on the same N positions.

    1 where they are equal up to an orthogonal map and a factor, about 0 where they have nothing in
    common; the numbers of features may differ. See `Gram`.
    """
    return Gram(one).cka(Gram(other))
