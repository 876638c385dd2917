"""Net2WiderNet [Chen2016, Section 2.2] for residual networks: wider, and the same function.

A wider layer has copies of the units of the former one, and what reads them divides each weight
among the copies. All layers that the skip connections add to each other have the same copies, or
the sums would be of different units.

[Chen2016] divides equally and adds noise, without which copies of a unit would stay equal forever.
Here copies get unequal shares at random, so that they learn different things from the first step
and the function is nevertheless the same, up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]
Copies = NDArray[np.int64]
"""[wide]: of which former unit each unit is a copy."""

_STEM = "trunk.0"
_ADAPTER = "trunk.2"
"""Behind the stem and its ReLU, in networks that have one: there the stem keeps its width."""
_LEAST, _MOST = 0.5, 1.5
"""Bounds of the random numbers that are in proportion to the shares."""


def widened_residual(fresh: Arrays, former: Arrays, random: np.random.Generator) -> Arrays:
    """Return the weights of a residual network as wide as `fresh` that computes what `former` does.

    Both are weights of networks with the trunk of `networks.residual`, by name; all but filters has
    to be equal.
    """
    wide = _Widening(fresh, former, random)
    first = _ADAPTER if f"{_ADAPTER}.conv.weight" in former else _STEM
    trunk = wide.copies(f"{first}.conv.weight")
    wide.layer(first, None, trunk)
    for block in _owners(former, ".first.conv.weight"):
        inner = wide.copies(f"{block}.first.conv.weight")
        wide.layer(f"{block}.first", trunk, inner)
        wide.layer(f"{block}.second", inner, trunk)
        if f"{block}.gate.squeeze.weight" in former:
            squeezed = wide.copies(f"{block}.gate.squeeze.weight")
            wide.layer(f"{block}.gate.squeeze", trunk, squeezed)
            wide.layer(f"{block}.gate.excite", squeezed, trunk)
    for head in _owners(former, ".reduce.conv.weight"):
        wide.layer(f"{head}.reduce", trunk, None)
    return wide.weights


def _owners(weights: Arrays, name: str) -> list[str]:
    """Return what has weights of a name, in order."""
    return [each.removesuffix(name) for each in weights if each.endswith(name)]


class _Widening:
    """The weights of a network, widened layer by layer."""

    def __init__(self, fresh: Arrays, former: Arrays, random: np.random.Generator) -> None:
        self.weights = dict(former)
        self._fresh, self._former, self._random = fresh, former, random

    def copies(self, name: str) -> Copies:
        """Return which outputs of a wider layer are copies of which.

        All units are there equally often, or once more; first of all, each at its former place.
        """
        narrow, wide = len(self._former[name]), len(self._fresh[name])
        rounds = -(-wide // narrow)
        further = [self._random.permutation(narrow) for _ in range(rounds - 1)]
        return np.concatenate([np.arange(narrow), *further])[:wide]

    def layer(self, layer: str, inputs: Copies | None, outputs: Copies | None) -> None:
        """Widen all arrays of a layer, [outputs, inputs, ...] or [outputs], batch norm included.

        None for inputs or outputs that stay as they are.
        """
        for name, array in self._former.items():
            if name.startswith(f"{layer}."):
                wide = array[outputs] if outputs is not None and array.ndim else array
                if inputs is not None and array.ndim > 1:
                    wide = self._divided(wide, inputs)
                self.weights[name] = wide

    def _divided(self, array: NDArray[Any], inputs: Copies) -> NDArray[Any]:
        """Return weights [outputs, inputs, ...] of copied inputs, divided among the copies."""
        parts = self._random.uniform(_LEAST, _MOST, (len(array), len(inputs)))
        totals = parts @ (inputs[:, None] == np.arange(array.shape[1]))
        shares = parts / totals[:, inputs]
        shaped = shares.reshape(*shares.shape, *(1,) * (array.ndim - 2))
        divided: NDArray[Any] = (array[:, inputs] * shaped).astype(array.dtype)
        return divided
