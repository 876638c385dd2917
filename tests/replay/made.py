"""Facts for tests: a few columns are given, the others say nothing; and plain targets."""

from __future__ import annotations

import numpy as np

from zerolab.networks.heads.interface import TargetOptions
from zerolab.replay.facts import WIDE, Facts

VISITS = TargetOptions(sampled_plies=0, early="visits", late="visits", root_value_weight=0.0)


def made_facts(count: int, **given) -> Facts:
    """Return facts about so many positions; columns of many numbers are empty unless given."""
    columns = {}
    for name in Facts._fields:
        if name in WIDE:
            column = np.asarray(given.get(name, np.empty((count, 0))), np.float16)
        else:
            column = np.asarray(given.get(name, np.zeros(count)), np.float32)
        columns[name] = column
    return Facts(**columns)
