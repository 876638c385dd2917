"""A network that stays as it is."""

from __future__ import annotations

from typing import Literal

from zerolab.networks.growths.interface import GROWTHS, Growth


class NoGrowth(Growth):
    """All networks of a run have the same size."""

    name: Literal["none"] = "none"


GROWTHS.add("none", NoGrowth)
