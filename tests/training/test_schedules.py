"""Schedules of learning rate and momentum against the tables of their papers."""

from __future__ import annotations

import math

import pytest

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import amend_settings, resolve_settings
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.optimization import RATE_SCHEDULES, Moment


def at(schedule, iteration, progress=0.0, iterations=100):
    return schedule.rates(Moment(iteration, progress, iterations))


def test_every_schedule_gives_sound_rates_at_every_moment():
    for name, kind in RATE_SCHEDULES.items():
        for iteration in (1, 2, 19, 20, 21, 99, 100):
            for progress in (0.0, 0.2, 0.35, 0.7, 0.9, 1.0):
                rates = at(kind(), iteration, progress)
                assert 0 <= rates.factor <= 1, name
                assert rates.momentum is None or 0 <= rates.momentum < 1, name


def test_constant_changes_nothing():
    assert {at(RATE_SCHEDULES["constant"](), i, p) for i in (1, 50) for p in (0, 0.5)} == {
        (1.0, None)
    }


def test_steps_are_those_of_the_baseline():
    """[Clausen2021]: 0.2; 0.02 from iteration 7; 0.002 from iteration 14."""
    steps = RATE_SCHEDULES["steps"]()
    table = {1: 0.2, 6: 0.2, 7: 0.02, 13: 0.02, 14: 0.002, 100: 0.002}
    for iteration, expected in table.items():
        for progress in (0.0, 0.5, 1.0):
            assert 0.2 * at(steps, iteration, progress).factor == pytest.approx(expected)
    assert at(steps, 7).momentum is None


FIRST_CYCLE = [
    (0.0, 0.02, 0.95), (0.175, 0.11, 0.9), (0.35, 0.2, 0.85), (0.525, 0.11, 0.9),
    (0.7, 0.02, 0.95), (0.85, 0.0115, 0.95), (1.0, 0.003, 0.95),
]  # fmt: skip


@pytest.mark.parametrize(("progress", "rate", "momentum"), FIRST_CYCLE)
def test_the_cycle_is_that_of_the_extended_baseline(progress, rate, momentum):
    """[Clausen2021]: corners and midpoints; times 1 at first, 0.4 from iteration 20."""
    cycle = RATE_SCHEDULES["cycle"]()
    shares = {1: 1.0, 2: 1 - 0.6 / 19, 20: 0.4, 21: 0.4, 100: 0.4}
    for iteration, share in shares.items():
        rates = at(cycle, iteration, progress)
        assert 0.2 * rates.factor == pytest.approx(rate * share)
        assert rates.momentum == pytest.approx(momentum)


def test_the_published_code_anneals_one_iteration_longer():
    """[ClausenCode]: 1 - 0.6 * (i - 1) / 20 until that is 0.4, in iteration 21."""
    cycle = RATE_SCHEDULES["cycle"](anneal_iterations=21)
    for i in (1, 2, 11, 20, 21, 22):
        expected = max(0.4, 1 - 0.6 * (i - 1) / 20)
        assert at(cycle, i, 0.35).factor == pytest.approx(expected)


def test_cosine_falls_over_the_run_after_its_warm_up():
    cosine = RATE_SCHEDULES["cosine"](end=0.1, warm_up=2)
    factors = [at(cosine, *moment, iterations=10).factor for moment in ((1, 0), (1, 0.5), (2, 0.5))]
    assert factors == pytest.approx([0, 0.25, 0.75])
    assert at(cosine, 3, iterations=10).factor == 1.0
    assert at(cosine, 7, iterations=10).factor == pytest.approx(0.55)
    assert at(cosine, 10, 1.0, iterations=10).factor == pytest.approx(0.1)
    expected = 0.1 + 0.9 * (1 + math.cos(math.pi * 2.25 / 8)) / 2
    assert at(cosine, 5, 0.25, iterations=10).factor == pytest.approx(expected)
    assert at(RATE_SCHEDULES["cosine"](), 1).factor == 1.0


MISTAKES = [
    ({"name": "steps", "iterations": [14, 7]}, "7 after 14: expected iterations in increasing"),
    ({"name": "steps", "iterations": [7, 7]}, "7 after 7"),
    ({"name": "steps", "iterations": []}, "schedule.iterations"),
    ({"name": "cycle", "low_at": 0.3}, "low_at = 0.3 is not after peak_at = 0.35"),
    ({"name": "cycel"}, 'did you mean "cycle"?'),
    ({"name": "cosine", "factor": 0.1}, 'belongs to schedule = "steps"'),
]


@pytest.mark.parametrize(("schedule", "expected"), MISTAKES)
def test_mistakes(schedule, expected):
    with pytest.raises(UserError) as caught:
        validate(LearnSettings, {"schedule": schedule})
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("schedule", "last"),
    [("steps", 14), ("cycle", 20), ("{name='cosine', warm_up=30}", 30)],
)
def test_a_schedule_longer_than_the_run_is_refused(schedule, last):
    given = [f"learn.schedule={schedule}", f"iterations={last - 1}"]
    with pytest.raises(UserError, match=f"until iteration {last}, beyond the {last - 1}") as caught:
        resolve_settings("connect_four:4x4", "smoke", given)
    assert len(str(caught.value).splitlines()) == 1
    resolve_settings("connect_four:4x4", "smoke", [given[0], f"iterations={last}"])


def test_a_cycle_that_does_not_shrink_has_any_length():
    given = ["learn.schedule.name=cycle", "learn.schedule.annealed=1", "iterations=2"]
    schedule = resolve_settings("connect_four:4x4", "smoke", given).learn.schedule
    assert {at(schedule, i, 0.35).factor for i in (1, 2)} == {1.0}


def test_a_run_along_a_cosine_cannot_be_given_more_iterations(tmp_path):
    settings = resolve_settings(None, "smoke", ["learn.schedule=cosine"])
    run = RunFolder.create(tmp_path / "run", settings.model_dump(mode="json"))
    assert amend_settings(run, ["iterations=2"]) == settings
    with pytest.raises(UserError, match=r"expected the run's 2, over which learn\.schedule"):
        amend_settings(run, ["iterations=3"])
