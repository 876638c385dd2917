"""Base class of network settings.

Settings do not import torch, so that help texts and settings errors appear without delay. Only the
method `new_network`, which builds the layers, imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from zerolab.core.config import VariantSettings, variant_list_annotation
from zerolab.core.errors import UserError, quoted
from zerolab.core.registry import Registry
from zerolab.networks.head import HEADS, Head, SearchOutput, missing_output_message
from zerolab.rules.rules import Game

if TYPE_CHECKING:
    from zerolab.networks.network import Network


import_module("zerolab.networks.heads")

_REQUIRED_OUTPUTS: tuple[SearchOutput, ...] = ("priors", "values")


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

    @field_validator("heads")
    @classmethod
    def _require_search_outputs(cls, heads: tuple[Head, ...]) -> tuple[Head, ...]:
        """Reject duplicate heads and lists without priors or values."""
        names = [head.name for head in heads]
        if duplicates := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"{quoted(duplicates[0])} is listed twice: expected every head at most once"
            )
        for output in _REQUIRED_OUTPUTS:
            if not any(output in head.search_outputs for head in heads):
                raise ValueError(missing_output_message(output, heads))
        return heads

    def new_network(self, game: Game) -> Network:
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

    def widen_weights(
        self,
        new_weights: Mapping[str, NDArray[Any]],
        old_weights: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """Return weights by name with which this network computes the function of a smaller one.

        `old_weights` are the weights of the smaller network, `new_weights` any weights of this one.
        Only architectures that can grow implement this method.
        """
        raise NotImplementedError


NETWORKS: Registry[type[NetworkSettings]] = Registry("network")
