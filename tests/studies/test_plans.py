"""What a study plans: keys, grids, parts, shares of cores, estimates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_studies import GAME, Tiny, planned

from zerolab.core.errors import UserError
from zerolab.core.processes import shares_of_cores
from zerolab.studies.cost_model import Pace, mean_plies, run_bytes, run_seconds, work_of
from zerolab.studies.design import full_product, one_at_a_time, run_key
from zerolab.studies.work import StudyWork


def test_keys_are_of_everything_that_results_depend_on():
    key = planned("sum", 0).key
    assert planned("value", 0).key != key
    assert planned("product", 0).key not in (key, planned("value", 0).key)
    assert planned("sum", 1).key != key
    settings = planned("sum", 0).settings
    play = settings.selfplay.model_copy(update={"threads": 3})
    assert run_key(settings.model_copy(update={"selfplay": play, "preset": "mine"})) == key


def test_products_and_single_changes():
    levels = {"a": (1, 2, 3), "b": ("x", "y")}
    assert len(list(full_product(levels))) == 6
    single = list(one_at_a_time(levels, {"a": 2, "b": "x"}))
    assert single[0] == {"a": 2, "b": "x"}
    assert sorted(map(str, single[1:])) == sorted(
        map(str, [{"a": 1, "b": "x"}, {"a": 3, "b": "x"}, {"a": 2, "b": "y"}])
    )


def test_unknown_parts_are_told():
    with pytest.raises(UserError, match=r'unknown part "A": expected one of a; did you mean "a"'):
        StudyWork.of(Tiny(), "smoke", Path("x"), ["A"])


def test_shares_of_cores_cover_all_of_them(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4, 11)))
    monkeypatch.setattr("zerolab.studies.workers.available_cores", lambda: 7)
    for workers in range(1, 8):
        shares = shares_of_cores(workers)
        assert len(shares) == workers
        assert sorted(core for share in shares for core in share) == list(range(4, 11))
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    assert len(shares_of_cores(20)) == 20
    assert {core for share in shares_of_cores(20) for core in share} == set(range(4, 11))


def test_estimates_grow_with_the_work():
    little, more = planned("sum", 0).settings, planned("sum", 0, iterations=4).settings
    assert work_of(more).simulations == pytest.approx(2 * work_of(little).simulations)
    assert work_of(more).samples > work_of(little).samples
    assert run_seconds(more) > run_seconds(little) > 0
    assert run_bytes(more) > run_bytes(little) > 0
    assert 5 <= mean_plies(GAME) <= 9


def test_pace_is_measured_time_relative_to_the_estimate():
    pace = Pace()
    assert pace.factor == 1
    pace.add(2, 6)
    pace.add(4, 6)
    assert pace.factor == 2
