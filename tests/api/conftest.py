"""Run shared by the tests of the public interface, which do not change it."""

from __future__ import annotations

import pytest

import zerolab


@pytest.fixture(scope="session")
def records():
    """Records of the stages of `run`."""
    return []


@pytest.fixture(scope="session")
def run(tmp_path_factory, records):
    """A small run of Gobang on nine cells."""
    folder = tmp_path_factory.mktemp("api") / "run"
    settings = {"iterations": 2, "search": {"simulations": 6}, "final_evaluation.games": 0}
    return zerolab.train(
        "gobang:3x3:3", run=folder, preset="smoke", settings=settings, on_stage=records.append
    )
