"""Facts and target options for tests."""

from __future__ import annotations

import numpy as np

from zerolab.networks.objectives import TargetOptions
from zerolab.rules.facts import VECTOR_COLUMN_NAMES, Facts

VISITS = TargetOptions(
    temperature_plies=0,
    policy_target="visits",
    late_policy_target="visits",
    value_target_search_weight=0.0,
)


def example_facts(count: int, **values) -> Facts:
    """Return facts about `count` positions; other columns are zero, or empty for vectors."""
    columns = {}
    for name in Facts.column_forms():
        if name in VECTOR_COLUMN_NAMES:
            column = np.asarray(values.get(name, np.empty((count, 0))), np.float16)
        else:
            column = np.asarray(values.get(name, np.zeros(count)), np.float32)
        columns[name] = column
    return Facts(**columns)
