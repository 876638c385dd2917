"""Base class of network settings, and the rules by which networks grow during a run.

Settings do not import torch, so help texts and settings errors appear without delay. Only
methods that build or run layers, such as `new_network`, import torch.

A run's `growth` setting selects one of the types in `GROWTHS`. `Growth.network_settings` alone
determines the size of every network in the run. Other packages can add a type by registering it in
a module named by the ``zerolab.networks`` entry point.

A new block at the end of the trunk changes nothing while its last batch norm multiplies by 0
[Goyal2017]: it then adds 0 to its input, which has already passed through a ReLU.

Net2WiderNet widens a layer with copies of its units. In the next layer, each weight is divided
among the copies of its input. Layers joined by skip connections must use the same copies, since
their outputs are added unit by unit. [Chen2016] divides the weights equally and adds noise, because
identical copies would otherwise receive identical gradients forever. Here the shares are random and
unequal. The copies therefore diverge from the first training step, while the initial function is
unchanged up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from zerolab.core.config import VariantSettings, variant_list_annotation
from zerolab.core.errors import UserError, quoted
from zerolab.core.registry import Registry
from zerolab.networks.objectives import HEADS, EvaluatorOutputName, Head, missing_output_message
from zerolab.rules import encoding
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from torch import Tensor

    from zerolab.networks.network import Network

import_module("zerolab.networks.heads")

_REQUIRED_OUTPUTS: tuple[EvaluatorOutputName, ...] = ("priors", "values")


class InputPlane(VariantSettings):
    """Base class of planes that a network computes from the pieces and adds to its input.

    The encoding of a game is unaffected, as is all code that passes positions to networks.
    Symmetries act on the encoding, so a plane always describes the board as the network sees it.
    """

    def compute(self, pieces: Tensor) -> Tensor:
        """Return the plane [N, 1, rows, columns] for boards of the same shape.

        `pieces` are 1 for the mover's pieces, -1 for the opponent's and 0 for empty cells.
        """
        raise NotImplementedError


INPUT_PLANES: Registry[type[InputPlane]] = Registry("input plane")


class NetworkSettings(VariantSettings):
    """Settings of a network; `name` selects the architecture."""

    fits_any_board: ClassVar[bool] = False
    """True if the same weights fit boards of all sizes."""

    heads: variant_list_annotation(HEADS) = ("policy", "value")  # type: ignore[valid-type]
    """The network's predictions, for example ["policy", {name = "outcome", weight = 0.01}]. To
    change a setting of a head, use its name, as in network.heads.outcome.weight=0.01. Searches take
    priors from the policy head and values from the first head that predicts them. [Wang2019],
    [Wang2020a], [Wang2020b]: policy and value; [Clausen2021]: policy and outcome, extended: also
    reply."""

    planes: variant_list_annotation(INPUT_PLANES) = ()  # type: ignore[valid-type]
    """Planes that the network adds to those of the game, for example ["ones", "landing"].
    [Wang2019], [Wang2020a], [Wang2020b], [Clausen2021]: none."""

    @field_validator("heads", "planes")
    @classmethod
    def _reject_duplicates(cls, variants: tuple[VariantSettings, ...]) -> Any:
        names = [each.name for each in variants]
        if duplicates := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{quoted(duplicates[0])} is listed twice: expected it at most once")
        return variants

    @field_validator("heads")
    @classmethod
    def _require_search_outputs(cls, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """Reject lists of heads that provide no priors or no values."""
        for output in _REQUIRED_OUTPUTS:
            if not any(output in head.evaluator_outputs for head in heads):
                raise ValueError(missing_output_message(output, heads))
        return heads

    @model_serializer(mode="wrap")
    def _without_empty_planes(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the settings as a table; `planes` is omitted if empty, as in earlier versions."""
        table: dict[str, Any] = serialize(self)
        if not self.planes:
            table.pop("planes", None)
        return table

    def new_network(self, game: Game) -> Network:
        """Return a new network for a game, with weights drawn from torch's generator."""
        raise NotImplementedError

    def input_count(self, game: Game) -> int:
        """Return the number of planes that the first layer reads; the game's planes come first."""
        return encoding.plane_count(game) + len(self.planes)

    def grown_settings(self, factor: int, blocks: int = 0) -> NetworkSettings:
        """Return the settings with `factor` times the filters and `blocks` additional blocks.

        Raises UserError if the architecture cannot grow, or cannot become that large.
        """
        growing = [
            name
            for name, kind in NETWORKS.items()
            if kind.grown_settings is not NetworkSettings.grown_settings
        ]
        raise UserError(
            f"network = {quoted(self.name)} cannot grow: expected"
            f" {' or '.join(map(quoted, growing))}"
        )

    def enlarged_weights(
        self,
        new_weights: Mapping[str, NDArray[Any]],
        old_weights: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """Return weights, by name, that make this network compute the function of a smaller one.

        `old_weights` are the weights of the smaller network, `new_weights` any weights of this one.
        Only architectures that can grow implement this method.
        """
        raise NotImplementedError


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")


WeightArrays = Mapping[str, NDArray[Any]]
_CopiedUnitIndices = NDArray[np.int64]
"""int64[wide]: for each unit of the wide layer, the index of the copied unit."""

_STEM = "trunk.0"
_ADAPTER = "trunk.2"
"""Position of the adapter after the stem and its ReLU. A stem with an adapter keeps its width."""
_BLOCK = ".first.conv.weight"
"""End of the name of an array that every block has."""
_SMALLEST_SHARE, _LARGEST_SHARE = 0.5, 1.5
"""Bounds of the random shares before normalisation."""


def enlarge_residual_weights(
    new_weights: WeightArrays, old_weights: WeightArrays, random: np.random.Generator
) -> WeightArrays:
    """Return weights with the shapes of `new_weights` and the function of `old_weights`.

    Both map names to weights of residual networks that differ only in their numbers of filters and
    blocks. The last blocks of the larger network are new.
    """
    widened = _widen_residual_weights(new_weights, old_weights, random)
    weights = {name: widened.get(name, new_weights[name]) for name in new_weights}
    for block in _prefixes(new_weights, _BLOCK):
        if f"{block}{_BLOCK}" not in old_weights:
            for name in (f"{block}.second.norm.weight", f"{block}.second.norm.bias"):
                weights[name] = np.zeros_like(weights[name])
    return weights


def _widen_residual_weights(
    new_weights: WeightArrays, old_weights: WeightArrays, random: np.random.Generator
) -> WeightArrays:
    """Return the weights of the layers of `old_weights`, with as many filters as `new_weights`."""
    wide = _Widening(new_weights, old_weights, random)
    first, weight = _STEM, f"{_STEM}.conv.weight"
    if f"{_ADAPTER}.weight" in old_weights:
        first, weight = _ADAPTER, f"{_ADAPTER}.weight"
    trunk = wide.copies(weight)
    wide.layer(first, None, trunk)
    for block in _prefixes(old_weights, _BLOCK):
        inner = wide.copies(f"{block}.first.conv.weight")
        wide.layer(f"{block}.first", trunk, inner)
        wide.layer(f"{block}.second", inner, trunk)
        if f"{block}.gate.squeeze.weight" in old_weights:
            squeezed = wide.copies(f"{block}.gate.squeeze.weight")
            wide.layer(f"{block}.gate.squeeze", trunk, squeezed)
            wide.layer(f"{block}.gate.excite", squeezed, trunk)
    for head in _prefixes(old_weights, ".reduce.conv.weight"):
        wide.layer(f"{head}.reduce", trunk, None)
    return wide.weights


def _prefixes(weights: WeightArrays, suffix: str) -> list[str]:
    """Return the prefixes of the weight names that end with `suffix`, in order."""
    return [name.removesuffix(suffix) for name in weights if name.endswith(suffix)]


class _Widening:
    """Layer-by-layer widening of a network's weights."""

    def __init__(
        self, new_weights: WeightArrays, old_weights: WeightArrays, random: np.random.Generator
    ) -> None:
        self.weights = dict(old_weights)
        self._new_weights, self._old_weights, self._random = new_weights, old_weights, random

    def copies(self, name: str) -> _CopiedUnitIndices:
        """Return the index of the copied unit for each output of a wider layer.

        The first outputs are the units themselves, in order. The numbers of copies of any two units
        differ by at most one.
        """
        narrow, wide = len(self._old_weights[name]), len(self._new_weights[name])
        rounds = -(-wide // narrow)
        permutations = [self._random.permutation(narrow) for _ in range(rounds - 1)]
        return np.concatenate([np.arange(narrow), *permutations])[:wide]

    def layer(
        self, layer: str, inputs: _CopiedUnitIndices | None, outputs: _CopiedUnitIndices | None
    ) -> None:
        """Widen all arrays of a layer, [outputs, inputs, ...] or [outputs], including batch norm.

        Pass None for `inputs` or `outputs` to keep their width.
        """
        for name, array in self._old_weights.items():
            if name.startswith(f"{layer}."):
                wide = array[outputs] if outputs is not None and array.ndim else array
                if inputs is not None and array.ndim > 1:
                    wide = self._divided(wide, inputs)
                self.weights[name] = wide

    def _divided(self, array: NDArray[Any], inputs: _CopiedUnitIndices) -> NDArray[Any]:
        """Return weights [outputs, inputs, ...] divided among the copies of each input."""
        size = len(array), len(inputs)
        parts = self._random.uniform(_SMALLEST_SHARE, _LARGEST_SHARE, size)
        totals = parts @ (inputs[:, None] == np.arange(array.shape[1]))
        shares = parts / totals[:, inputs]
        factors = shares.reshape(*shares.shape, *(1,) * (array.ndim - 2))
        divided: NDArray[Any] = (array[:, inputs] * factors).astype(array.dtype)
        return divided


class Growth(VariantSettings):
    """Base class of growth types.

    Iteration k trains network k; network 0 is the initial network. Training starts from the best
    network. If the best network is smaller than the network of the iteration, it grows first
    (docs/decisions/0045).
    """

    @property
    def last_scheduled_iteration(self) -> int | None:
        """Last iteration after which the network grows; None if it never grows."""
        return None

    @property
    def epochs_after_growth(self) -> int | None:
        """Number of passes over the window for a grown network; None for the usual number."""
        return None

    def network_settings(self, initial: NetworkSettings, iteration: int) -> NetworkSettings:
        """Return the settings of the network of an iteration; `initial` are those of network 0.

        Raises UserError if the architecture cannot grow, or cannot become that large.
        """
        return initial

    def initial_weights(
        self,
        larger_settings: NetworkSettings,
        new_weights: WeightArrays,
        old_weights: WeightArrays,
        random: np.random.Generator,
    ) -> WeightArrays:
        """Return the initial weights of a larger network.

        `new_weights` are random weights of that network, `old_weights` the weights of the network
        that grows.
        """
        return new_weights


class GrowthAtIterations(Growth):
    """Base class of types that add filters and blocks after certain iterations."""

    after: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(4, 8, 16, 32), min_length=1, max_length=12
    )
    """Iterations after which the network grows, in order. [Clausen2021]: 4, 8, 16, 32."""

    factor: int = Field(default=2, ge=1, le=64)
    """Factor by which the number of filters grows each time. [Clausen2021]: 2."""

    added_blocks: int = Field(default=0, ge=0, le=64)
    """Residual blocks added each time, at the end of the trunk. [Clausen2021]: 0."""

    @field_validator("after")
    @classmethod
    def _require_order(cls, after: tuple[int, ...]) -> tuple[int, ...]:
        for former, following in pairwise(after):
            if following <= former:
                raise ValueError(
                    f"{following} follows {former}: expected iterations in increasing order"
                )
        return after

    @model_validator(mode="after")
    def _require_growth(self) -> GrowthAtIterations:
        if self.factor == 1 and not self.added_blocks:
            raise ValueError(
                "factor = 1 and added_blocks = 0 leave the network as it is: expected"
                " added_blocks of at least 1, or factor of at least 2"
            )
        return self

    @property
    def last_scheduled_iteration(self) -> int:
        return self.after[-1]

    def network_settings(self, initial: NetworkSettings, iteration: int) -> NetworkSettings:
        growths = sum(iteration > growing_iteration for growing_iteration in self.after)
        if not growths:
            return initial
        return initial.grown_settings(self.factor**growths, growths * self.added_blocks)


GROWTHS: Registry[type[Growth]] = Registry("growth")


class Net2Net(GrowthAtIterations):
    """Copied filters and new blocks that leave the function unchanged at first [Chen2016]."""

    name: Literal["net2net"] = "net2net"

    def initial_weights(
        self,
        larger_settings: NetworkSettings,
        new_weights: WeightArrays,
        old_weights: WeightArrays,
        random: np.random.Generator,
    ) -> WeightArrays:
        return larger_settings.enlarged_weights(new_weights, old_weights, random)


GROWTHS.add("net2net", Net2Net)


class NoGrowth(Growth):
    """The same size for all networks of a run."""

    name: Literal["none"] = "none"


GROWTHS.add("none", NoGrowth)


class Reinitialise(GrowthAtIterations):
    """More filters or blocks, and new random weights trained on the window [Clausen2021]."""

    name: Literal["reinitialise"] = "reinitialise"

    epochs: int | None = Field(default=None, ge=1, le=1000)
    """Passes over the window in an iteration that begins with new weights. If unset, `learn.epochs`
    or `learn.replay_ratio` determines the number. Those settings suit a trained network; new
    weights need more passes, especially over a small window."""

    @property
    def epochs_after_growth(self) -> int | None:
        return self.epochs


GROWTHS.add("reinitialise", Reinitialise)
