"""Fixtures shared by paper tests."""

from __future__ import annotations

import pytest

from zerolab.papers.hyperparameters import correlation, sweep
from zerolab.papers.loss_functions import analysis as losses
from zerolab.papers.published_bugs import analysis as bugs
from zerolab.papers.warm_start import analysis as warm_starts
from zerolab.report.document import Provenance
from zerolab.studies.joint_estimates import bootstrap


@pytest.fixture(autouse=True)
def few_bootstrap_samples(monkeypatch):
    """Reduce the number of bootstrap draws to 100."""
    monkeypatch.setitem(bootstrap.__kwdefaults__, "sample_count", 100)


@pytest.fixture
def no_folders(monkeypatch):
    """Skip provenance, because invented runs have no folders."""
    no_provenance = Provenance(0, [], {}, [], "", 0.0)
    for module in (correlation, sweep, losses, bugs, warm_starts):
        monkeypatch.setattr(module, "provenance", lambda results: no_provenance)
