"""Base of the settings of all architectures.

Settings load no torch, so that a command's help and mistakes in a run's settings show at once: only
`network` imports the modules that it builds with.
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
import_module("zerolab.networks.auxiliary_heads")

_ALWAYS_READ: tuple[HeadOutput, ...] = ("priors", "values")


class NetworkSettings(Variant):
    """Settings of one architecture, selected by `name`."""

    any_size: ClassVar[bool] = False
    """True if the weights are the same for boards of all sizes."""

    heads: variants_among(HEADS) = ("policy", "value")  # type: ignore[valid-type]
    """The network's predictions, such as ["policy", {name = "outcome", weight = 0.01}]. A setting
    of one of these heads is addressed by its name, as in network.heads.outcome.weight=0.01. A
    search reads its priors from the policy and its values from the first head that has them.
    [Wang2019], [Wang2020a], [Wang2020b]: policy and value; [Clausen2021]: policy and outcome,
    extended: also reply."""

    @field_validator("heads")
    @classmethod
    def _fit_a_search(cls, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """Refuse duplicate heads, and lists without priors or values."""
        names = [head.name for head in heads]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{quoted(twice[0])} is there twice: expected every head once")
        for output in _ALWAYS_READ:
            if not any(output in head.outputs for head in heads):
                raise ValueError(missing_output(output, heads))
        return heads

    def network(self, game: Game) -> Network:
        """Return a new network for a game, its weights drawn from torch's generator."""
        raise NotImplementedError

    def grown(self, factor: int) -> NetworkSettings:
        """Return the settings of a network with `factor` times the filters.

        Raises UserError for an architecture that does not grow, or not so far.
        """
        growing = [name for name, kind in NETWORKS.items() if _grows(kind)]
        raise UserError(
            f"network = {quoted(self.name)} does not grow: expected"
            f" {' or '.join(map(quoted, growing))}"
        )

    def widened(
        self,
        fresh: Mapping[str, NDArray[Any]],
        former: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """Return weights for this network that compute the function of a smaller one, by name.

        `fresh` are any weights of this network. For architectures that grow.
        """
        raise NotImplementedError


def _grows(kind: type[NetworkSettings]) -> bool:
    return kind.grown is not NetworkSettings.grown


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")
