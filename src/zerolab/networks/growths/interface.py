"""What a run's network grows by: types in `GROWTHS`, of which a run has one as `growth`.

`Growth.network` is the one place that says which size a network of a run has. Another package adds
a way of growing by registering a type in a module that the entry point ``zerolab.networks`` names.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from zerolab.core.config import Choice
from zerolab.core.registry import Registry
from zerolab.networks.settings import NetworkSettings

Arrays = Mapping[str, NDArray[Any]]


class Growth(Choice):
    """Base of ways to grow. Network k of a run is the one that iteration k learns; 0 is untrained.

    Learning begins with the best network. Where that is smaller than the iteration's network has to
    be, it grows first (docs/decisions/0045).
    """

    @property
    def last(self) -> int | None:
        """The iteration after which the network grows for the last time; None for never."""
        return None

    @property
    def epochs_when_new(self) -> int | None:
        """Passes over the window of learning that begins with a grown network; None: as always."""
        return None

    def network(self, first: NetworkSettings, iteration: int) -> NetworkSettings:
        """Return the settings of a network of a run whose network 0 has those of `first`.

        Raises UserError for an architecture that does not grow, or not so far.
        """
        return first

    def weights(
        self, larger: NetworkSettings, fresh: Arrays, former: Arrays, random: np.random.Generator
    ) -> Arrays:
        """Return the weights that a larger network begins with.

        `fresh` are new random ones, `former` those of the network that grows.
        """
        return fresh


class GrowthByFilters(Growth):
    """Base of those that multiply the filters after some iterations."""

    after: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(4, 8, 16, 32), min_length=1, max_length=12
    )
    """The iterations after which the network grows, in order. [Clausen2021]: 4, 8, 16, 32."""

    factor: int = Field(default=2, ge=2, le=64)
    """What the number of filters is multiplied by each time. [Clausen2021]: 2."""

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
        """See `Growth.last`."""
        return self.after[-1]

    def network(self, first: NetworkSettings, iteration: int) -> NetworkSettings:
        """See `Growth.network`."""
        steps = sum(iteration > each for each in self.after)
        return first.grown(self.factor**steps) if steps else first


GROWTHS: Registry[type[Growth]] = Registry("growth")
