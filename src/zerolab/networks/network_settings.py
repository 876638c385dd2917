"""Base class of network settings.

Settings do not import torch, so that help texts and settings errors appear without delay. Only the
method `network`, which builds the layers, imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from zerolab.core.config import Variant, variants_among
from zerolab.core.errors import UserError, quoted
from zerolab.core.registry import Registry
from zerolab.networks.head import HEADS, Head, HeadOutput, missing_output
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from zerolab.networks.network import Network


import_module("zerolab.networks.heads")

_ALWAYS_READ: tuple[HeadOutput, ...] = ("priors", "values")


class NetworkSettings(Variant):
    """Settings of a network; `name` selects the architecture."""

    any_size: ClassVar[bool] = False
    """True if the same weights fit boards of all sizes."""

    heads: variants_among(HEADS) = ("policy", "value")  # type: ignore[valid-type]
    """The network's predictions, for example ["policy", {name = "outcome", weight = 0.01}]. To
    change a setting of a head, use its name, as in network.heads.outcome.weight=0.01. Searches take
    priors from the policy head and values from the first head that predicts them. [Wang2019],
    [Wang2020a], [Wang2020b]: policy and value; [Clausen2021]: policy and outcome, extended: also
    reply."""

    @field_validator("heads")
    @classmethod
    def _require_search_outputs(cls, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """Reject duplicate heads and lists without priors or values."""
        names = [head.name for head in heads]
        if duplicates := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"{quoted(duplicates[0])} is listed twice: expected every head at most once"
            )
        for output in _ALWAYS_READ:
            if not any(output in head.outputs for head in heads):
                raise ValueError(missing_output(output, heads))
        return heads

    def network(self, game: Game) -> Network:
        """Return a new network for a game, with weights drawn from torch's generator."""
        raise NotImplementedError

    def grown(self, factor: int) -> NetworkSettings:
        """Return the settings of a network with `factor` times the filters.

        Raises UserError if the architecture cannot grow, or cannot become that large.
        """
        growing = [
            name for name, kind in NETWORKS.items() if kind.grown is not NetworkSettings.grown
        ]
        raise UserError(
            f"network = {quoted(self.name)} cannot grow: expected"
            f" {' or '.join(map(quoted, growing))}"
        )

    def widened(
        self,
        fresh: Mapping[str, NDArray[Any]],
        former: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """Return weights by name for which this network equals a smaller one, as a function.

        `former` are the weights of the smaller network, `fresh` any weights of this one. Only
        architectures that can grow implement this method.
        """
        raise NotImplementedError


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")
