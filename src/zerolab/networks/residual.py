"""What architectures with a residual trunk [He2016] have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import validate
from zerolab.networks.settings import NetworkSettings
from zerolab.networks.widening import widened_residual
from zerolab.rules import encoding
from zerolab.rules.interface import Game

if TYPE_CHECKING:
    from torch import nn


class ResidualSettings(NetworkSettings):
    """A stem and residual blocks, squeeze-and-excite gates [Hu2018] among them if wanted."""

    blocks: int = Field(default=5, ge=1, le=256)
    """Residual blocks. [Clausen2021]: 5, 10 and 20. [Hongcharoen2018]: 4."""

    filters: int = Field(default=64, ge=1, le=4096)
    """Filters of each convolution. [Clausen2021]: 128; growing network: 16 at first.
    [Hongcharoen2018]: 256."""

    stem_filters: int | None = Field(default=None, ge=1, le=4096)
    """Filters of the stem, which an adapter, a 1x1 convolution, brings to those of the blocks;
    unset for a stem as wide as the blocks, without an adapter. [Clausen2021], the small network of
    auxiliary features: 128, with blocks of 32."""

    squeeze_excite: int = Field(default=0, ge=0)
    """Ratio by which gates squeeze the filters; 0 builds none. [Clausen2021], extended: 16."""

    def grown(self, factor: int) -> Self:
        """See `NetworkSettings.grown`."""
        return validate(type(self), {**self.model_dump(), "filters": self.filters * factor})

    def widened(
        self,
        fresh: Mapping[str, NDArray[Any]],
        former: Mapping[str, NDArray[Any]],
        random: np.random.Generator,
    ) -> Mapping[str, NDArray[Any]]:
        """See `NetworkSettings.widened`."""
        return widened_residual(fresh, former, random)

    def _trunk(self, game: Game) -> nn.Sequential:
        """Return a new trunk: planes [N, planes, rows, columns] to [N, filters, rows, columns]."""
        from torch import nn

        from zerolab.networks.layers import NormedConv
        from zerolab.networks.trunks import ResidualBlock

        stem = [NormedConv(encoding.planes(game), self.stem_filters or self.filters), nn.ReLU()]
        if self.stem_filters:
            stem += [NormedConv(self.stem_filters, self.filters, size=1), nn.ReLU()]
        blocks = [ResidualBlock(self.filters, self.squeeze_excite) for _ in range(self.blocks)]
        return nn.Sequential(*stem, *blocks)
