"""``rave:N``: RAVE with N random playouts a move and equal priors, without a network (FACTS 2)."""

from __future__ import annotations

from zerolab.agents.interface import KINDS
from zerolab.agents.playouts import PlayoutSearch
from zerolab.search.settings import rave_settings

KINDS.add("rave", PlayoutSearch("rave", rave_settings))
