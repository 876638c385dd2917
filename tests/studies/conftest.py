"""Fixtures that several tests of studies share."""

from __future__ import annotations

import pytest
from tiny_studies import study_work_in

from zerolab.studies.statistics import bootstrap
from zerolab.studies.workers import LocalWorkers


@pytest.fixture
def few_draws(monkeypatch):
    """Let every bootstrap draw a tenth as often."""
    monkeypatch.setitem(bootstrap.__kwdefaults__, "draws", 400)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The tiny study done without interruption."""
    done = study_work_in(tmp_path_factory.mktemp("undisturbed"))
    assert done.work(LocalWorkers(2), lambda view: None) == {}
    return done
