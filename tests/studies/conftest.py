from __future__ import annotations

import pytest

from zerolab.studies.statistics import bootstrap


@pytest.fixture
def few_draws(monkeypatch):
    """Let every bootstrap draw a tenth as often."""
    monkeypatch.setitem(bootstrap.__kwdefaults__, "draws", 400)
