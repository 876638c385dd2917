"""Current and peak memory of a process."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np

from zerolab.core import resources
from zerolab.core.resources import current_memory_mib, peak_memory_mib


def test_memory_counts_what_is_in_use_and_peak_what_was() -> None:
    before = current_memory_mib()
    data = np.ones(64 << 17)  # 64 MiB
    with_data = current_memory_mib()
    assert 60 < with_data - before < 80
    del data
    assert current_memory_mib() < with_data - 50
    assert peak_memory_mib() > with_data - 2  # Linux counts pages in batches per thread


def test_peak_without_the_module_of_unix(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    counters = SimpleNamespace(peak_wset=300 << 20)
    monkeypatch.setattr(resources, "_memory_info", lambda: counters)
    assert peak_memory_mib() == 300
