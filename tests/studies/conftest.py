"""Fixtures shared by study tests."""

from __future__ import annotations

import pytest
from tiny_studies import execution_in

from zerolab.studies.joint_estimates import bootstrap
from zerolab.studies.tasks import LocalWorkers


@pytest.fixture
def few_bootstrap_samples(monkeypatch):
    """Reduce the number of bootstrap draws to a tenth."""
    monkeypatch.setitem(bootstrap.__kwdefaults__, "sample_count", 400)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """Tiny study finished without interruption."""
    finished_execution = execution_in(tmp_path_factory.mktemp("undisturbed"))
    assert finished_execution.perform_all(LocalWorkers(2), lambda view: None) == {}
    return finished_execution
