"""Growing networks: new weights, or Net2WiderNet [Chen2016, Section 2.2].

A run's setting `growth` is one of the types in `GROWTHS`; `Growth.network` alone decides the size
of each network of a run. Another package adds a type by registering it in a module named by the
entry point ``zerolab.networks``.

In a layer widened by Net2WiderNet, units are copies of the former ones, and the readers of a unit
divide each weight among its copies. All layers that the skip connections add to each other have the
same copies, or the sums would be of different units. [Chen2016] divides equally and adds noise,
without which copies of a unit would stay equal forever. Here copies get unequal shares at random,
so that they learn different things from the first step and the function is nevertheless the same,
up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from zerolab.core.config import Variant
from zerolab.core.registry import Registry
from zerolab.networks.network_settings import NetworkSettings

WeightArrays = Mapping[str, NDArray[Any]]
Copies = NDArray[np.int64]
"""[wide]: the former unit that each unit copies."""

_STEM = "trunk.0"
_ADAPTER = "trunk.2"
"""Follows the stem and its ReLU in networks that have one: there the stem keeps its width."""
_LEAST, _MOST = 0.5, 1.5
"""Bounds of the random numbers to which the shares are proportional."""


def widened_residual(
    fresh: WeightArrays, former: WeightArrays, random: np.random.Generator
) -> WeightArrays:
    """Return the weights of a network as wide as `fresh` that computes what `former` does.

    Both are weights by name, of networks with residual trunks that differ in their filters alone.
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


def _owners(weights: WeightArrays, name: str) -> list[str]:
    """Return the prefixes of the weights whose name ends with `name`, in order."""
    return [each.removesuffix(name) for each in weights if each.endswith(name)]


class _Widening:
    """The weights of a network, widened layer by layer."""

    def __init__(
        self, fresh: WeightArrays, former: WeightArrays, random: np.random.Generator
    ) -> None:
        self.weights = dict(former)
        self._fresh, self._former, self._random = fresh, former, random

    def copies(self, name: str) -> Copies:
        """Return the former unit that each output of a wider layer copies.

        Every unit has equally many copies, or one more; the first ones are the units in place.
        """
        narrow, wide = len(self._former[name]), len(self._fresh[name])
        rounds = -(-wide // narrow)
        further = [self._random.permutation(narrow) for _ in range(rounds - 1)]
        return np.concatenate([np.arange(narrow), *further])[:wide]

    def layer(self, layer: str, inputs: Copies | None, outputs: Copies | None) -> None:
        """Widen all arrays of a layer, [outputs, inputs, ...] or [outputs], batch norm included.

        None for inputs or outputs that keep their width.
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


class Growth(Variant):
    """Base of ways to grow. Network k of a run is learnt in iteration k; network 0 is untrained.

    Learning begins with the best network. Where that is smaller than the iteration's network has to
    be, it grows first (docs/decisions/0045).
    """

    @property
    def last(self) -> int | None:
        """The iteration after which the network grows for the last time; None for never."""
        return None

    @property
    def epochs_when_new(self) -> int | None:
        """Passes over the window in which a grown network learns; None for the usual number."""
        return None

    def network(self, first: NetworkSettings, iteration: int) -> NetworkSettings:
        """Return the settings of a network of a run whose network 0 has those of `first`.

        Raises UserError for an architecture that does not grow, or not so far.
        """
        return first

    def weights(
        self,
        larger: NetworkSettings,
        fresh: WeightArrays,
        former: WeightArrays,
        random: np.random.Generator,
    ) -> WeightArrays:
        """Return the initial weights of a larger network.

        `fresh` are new random ones, `former` those of the network that grows.
        """
        return fresh


class GrowthByFilters(Growth):
    """Base of types that multiply the filters after some iterations."""

    after: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(4, 8, 16, 32), min_length=1, max_length=12
    )
    """The iterations after which the network grows, in order. [Clausen2021]: 4, 8, 16, 32."""

    factor: int = Field(default=2, ge=2, le=64)
    """Factor of the number of filters each time. [Clausen2021]: 2."""

    @field_validator("after")
    @classmethod
    def _in_order(cls, after: tuple[int, ...]) -> tuple[int, ...]:
        for former, following in pairwise(after):
            if following <= former:
                raise ValueError(
                    f"{following} after {former}: expected iterations in increasing order"
                )
        return after

    @property
    def last(self) -> int:
        return self.after[-1]

    def network(self, first: NetworkSettings, iteration: int) -> NetworkSettings:
        steps = sum(iteration > each for each in self.after)
        return first.grown(self.factor**steps) if steps else first


GROWTHS: Registry[type[Growth]] = Registry("growth")


class Net2Net(GrowthByFilters):
    """More filters, copies of the existing ones: the function stays the same [Chen2016]."""

    name: Literal["net2net"] = "net2net"

    def weights(
        self,
        larger: NetworkSettings,
        fresh: WeightArrays,
        former: WeightArrays,
        random: np.random.Generator,
    ) -> WeightArrays:
        return larger.widened(fresh, former, random)


GROWTHS.add("net2net", Net2Net)


class NoGrowth(Growth):
    """All networks of a run have the same size."""

    name: Literal["none"] = "none"


GROWTHS.add("none", NoGrowth)


class Reinitialise(GrowthByFilters):
    """More filters and new random weights, which learn from the window [Clausen2021]."""

    name: Literal["reinitialise"] = "reinitialise"

    epochs: int | None = Field(default=None, ge=1, le=1000)
    """Passes over the window of an iteration that begins with new weights; unset for the usual
    number, from `learn.epochs` or `learn.replay_ratio`. That suits a network that has learnt
    before: small windows ask for more."""

    @property
    def epochs_when_new(self) -> int | None:
        return self.epochs


GROWTHS.add("reinitialise", Reinitialise)
