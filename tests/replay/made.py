"""Facts for tests: a few columns are given, the others say nothing; and plain targets."""

from __future__ import annotations

import numpy as np

from zerolab.networks.head import TargetOptions
from zerolab.rules.facts import VECTOR_COLUMNS, Facts

VISITS = TargetOptions(
    temperature_plies=0, early="visits", late="visits", value_target_search_weight=0.0
)


def made_facts(count: int, **given) -> Facts:
    """Return facts about so many positions; columns of many numbers are empty unless given."""
    columns = {}
    for name in Facts._fields:
        if name in VECTOR_COLUMNS:
            column = np.asarray(given.get(name, np.empty((count, 0))), np.float16)
        else:
            column = np.asarray(given.get(name, np.zeros(count)), np.float32)
        columns[name] = column
    return Facts(**columns)
