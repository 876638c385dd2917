from __future__ import annotations

import pytest

from zerolab.studies import table_5_1


@pytest.fixture
def quick_players(monkeypatch):
    """Random players take all places: what is tested is the study, not who plays."""
    monkeypatch.setattr(table_5_1, "PLAYERS", dict.fromkeys(table_5_1.PLAYERS, "random"))
