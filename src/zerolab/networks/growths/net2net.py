"""Larger networks that compute what the smaller ones did."""

from __future__ import annotations

from typing import Literal

import numpy as np

from zerolab.networks.growths.interface import GROWTHS, Arrays, GrowthByFilters
from zerolab.networks.settings import NetworkSettings


class Net2Net(GrowthByFilters):
    """More filters, copies of those there are: the function stays the same [Chen2016]."""

    name: Literal["net2net"] = "net2net"

    def weights(
        self, larger: NetworkSettings, fresh: Arrays, former: Arrays, random: np.random.Generator
    ) -> Arrays:
        """See `Growth.weights`."""
        return larger.widened(fresh, former, random)


GROWTHS.add("net2net", Net2Net)
