"""Study designs: keys, grids, parts, estimates and caveats."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny_studies import GAME, Tiny, planned

from zerolab.core.errors import UserError
from zerolab.papers.planning import full_factorial, one_factor_at_a_time
from zerolab.studies.cost_model import (
    TimeCorrection,
    estimate_run_bytes,
    estimate_run_seconds,
    estimate_work,
    mean_random_game_plies,
)
from zerolab.studies.design import run_key, without_newer_settings
from zerolab.studies.execution import StudyExecution
from zerolab.studies.study import SCALES, scale_caveats
from zerolab.training.configure import resolve_settings


def test_keys_depend_on_settings_that_affect_results():
    key = planned("sum", 0).key
    assert planned("value", 0).key != key
    assert planned("product", 0).key not in (key, planned("value", 0).key)
    assert planned("sum", 1).key != key
    settings = planned("sum", 0).settings
    play = settings.selfplay.model_copy(update={"threads": 3})
    changes = {"selfplay": play, "preset": "mine", "device": "cpu"}
    assert run_key(settings.model_copy(update=changes)) == key


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("selfplay.lag", 1),
        ("selfplay.start", "archive"),
        ("learn.surprise_weight", 0.5),
        ("selfplay.policy_target_temperature", 0.8),
        ("growth.added_blocks", 1),
    ],
)
def test_settings_newer_than_ledgers_change_keys_only_if_set(key, other):
    section, name = key.split(".")
    base = ["growth=net2net", "growth.after=[1]", "network={name='resnet', filters=4}"]
    unset, changed = (
        resolve_settings(None, "smoke", [*base, *each]) for each in ([], [f"{key}={other}"])
    )
    assert name not in without_newer_settings(unset.model_dump(mode="json"))[section]
    assert name in without_newer_settings(changed.model_dump(mode="json"))[section]
    assert run_key(unset) != run_key(changed)


def test_full_product_and_one_at_a_time():
    levels = {"a": (1, 2, 3), "b": ("x", "y")}
    assert len(list(full_factorial(levels))) == 6
    single = list(one_factor_at_a_time(levels, {"a": 2, "b": "x"}))
    assert single[0] == {"a": 2, "b": "x"}
    assert sorted(map(str, single[1:])) == sorted(
        map(str, [{"a": 1, "b": "x"}, {"a": 3, "b": "x"}, {"a": 2, "b": "y"}])
    )


def test_unknown_part_is_refused():
    with pytest.raises(UserError, match=r'unknown part "A": expected one of a; did you mean "a"'):
        StudyExecution.plan(Tiny(), "smoke", Path("x"), ["A"])


def test_estimates_grow_with_the_work():
    short, long = planned("sum", 0).settings, planned("sum", 0, iterations=4).settings
    assert estimate_work(long).simulations == pytest.approx(2 * estimate_work(short).simulations)
    assert estimate_work(long).training_examples > estimate_work(short).training_examples
    assert estimate_run_seconds(long) > estimate_run_seconds(short) > 0
    assert estimate_run_bytes(long) > estimate_run_bytes(short) > 0
    assert estimate_run_bytes(short) > estimate_run_bytes(short, 1000) > 0  # stores no games
    assert 5 <= mean_random_game_plies(GAME) <= 9


def test_pace_is_measured_time_relative_to_the_estimate():
    pace = TimeCorrection()
    assert pace.factor == 1
    pace.add(2, 6)
    pace.add(4, 6)
    assert pace.factor == 2


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seeds", [1, 3])
def test_caveats_include_scale_subject_and_number_of_runs(scale, seeds):
    text = scale_caveats(scale, seeds, "losses")
    assert text.startswith(f"Scale {scale}: ")
    assert "losses" in text
    if scale != "smoke":
        assert ("up to 3 runs" if seeds == 3 else "one run") in text
