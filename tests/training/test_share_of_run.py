"""Hours of training, and settings that depend on how much of a run is done."""

from __future__ import annotations

import math
from itertools import accumulate, count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_training import KilledError, Killing, killed_before_commit, learn_lines, train

from promised import contents
from zerolab.cli.main import main
from zerolab.cli.progress import main_settings
from zerolab.core.errors import UserError
from zerolab.play.selfplay_settings import ProgressiveSettings
from zerolab.search.search import Search
from zerolab.store.run_folder import RunFolder
from zerolab.studies.cost_model import estimate_work
from zerolab.studies.design import run_key
from zerolab.training import reporting, trainer
from zerolab.training.configure import resolve_settings, resume_settings
from zerolab.training.criteria import STOP_RULES
from zerolab.training.optimization import RATE_SCHEDULES, CompletedShares, TimeInRun
from zerolab.training.records import BaselineRecord, HeldOutRecord, LearnRecord, SelfPlayRecord
from zerolab.training.reporting import RunClock, read_records, without_final_evaluations


def timed(iteration, elapsed, wall=0.0, kind=LearnRecord):
    return kind.model_construct(
        iteration=iteration, wall_seconds=wall, wall_elapsed_seconds=elapsed, part="validation"
    )


def evaluated(iteration, evaluations):
    return SelfPlayRecord.model_construct(iteration=iteration, evaluated=evaluations)


def hours(seconds):
    return STOP_RULES["hours"](hours=seconds / 3600)


def iterations_of(rule, lengths):
    """Return the lengths of the iterations of a run, in seconds, that begin under a rule."""
    records = []
    for number, length in enumerate(lengths, 1):
        records += [timed(number, length / 4), timed(number, 3 * length / 4)]
        if rule.is_met(records):
            break
    return list(lengths[:number])


@pytest.mark.parametrize(
    ("limit", "lengths", "expected"),
    [
        (100, [30, 30, 30, 30], 3),  # ends at 90 s rather than at 120 s
        (110, [30, 30, 30, 30, 30], 4),  # at 120 s rather than at 90 s
        (100, [60, 20, 15, 20, 20], 3),  # after 95 s, another 15 s would end further away
        (100, [500, 30], 1),
        (1, [30, 30], 1),
    ],
)
def test_run_ends_as_near_the_limit_as_the_last_iteration_predicts(limit, lengths, expected):
    assert len(iterations_of(hours(limit), lengths)) == expected


@given(st.lists(st.integers(1, 100), min_size=30, max_size=30), st.integers(1, 500))
def test_every_iteration_is_expected_to_bring_the_end_nearer(lengths, limit):
    begun = iterations_of(hours(limit), lengths)
    totals = list(accumulate(begun))
    nearer = [
        abs(total + length - limit) < abs(total - limit)
        for total, length in zip(totals, begun, strict=True)
    ]
    assert all(nearer[:-1])
    assert not nearer[-1] or len(begun) == len(lengths)


@given(st.integers(1, 50), st.integers(1, 200))
def test_equal_iterations_end_within_half_an_iteration_of_the_limit(length, limit):
    total = sum(iterations_of(hours(limit), [length] * 201))
    assert total == length or abs(total - limit) <= length / 2


def test_all_time_counts_once():
    """With `selfplay.lag`, stages overlap, so only elapsed times add up to the time spent."""
    rule = hours(100)
    overlapping = [timed(1, 10, wall=70), timed(1, 30, wall=30)]
    assert rule.completed_share(overlapping) == pytest.approx(0.4)
    assert rule.seconds_left(overlapping) == pytest.approx(60)
    assert rule.completed_share([timed(1, None, wall=70)]) == pytest.approx(0.7)  # from an old one


def test_final_evaluation_does_not_count():
    test_part = timed(2, 50, kind=HeldOutRecord).model_copy(update={"part": "test"})
    training = [timed(1, 10), timed(1, 10, kind=HeldOutRecord), timed(2, 20)]
    final = [test_part, timed(2, 50, kind=BaselineRecord)]
    assert without_final_evaluations([*training, *final]) == training


def test_share_of_an_iteration_is_extrapolated_from_the_previous_one():
    timed_records = [timed(1, 15), timed(1, 5), timed(2, 30), timed(3, 99)]
    assert hours(200).completed_shares(timed_records, 3) == pytest.approx((0.25, 0.4))
    assert hours(200).completed_shares(timed_records, 2) == pytest.approx((0.1, 0.2))
    assert hours(200).completed_shares(timed_records, 1) == (0, 0)
    assert CompletedShares(0.25, 0.4).share_at(0.5) == pytest.approx(0.325)
    spent = STOP_RULES["spent"](evaluations=1000)
    assert spent.completed_shares([evaluated(1, 100), evaluated(2, 150), evaluated(3, 900)], 3) == (
        pytest.approx((0.25, 0.4))
    )
    assert STOP_RULES["never"]().completed_shares(timed_records, 3) == (0, 0)


def test_expected_iterations_follow_the_larger_share():
    assert TimeInRun(3, 0.5, 100, 0.25).expected_iterations == 10
    assert TimeInRun(3, 0.5, 5, 0.25).expected_iterations == 5  # half of them are done
    assert TimeInRun(3, 0.5, 100).expected_iterations == 100


@pytest.mark.parametrize(
    ("iteration", "fraction", "share", "t"),
    [
        (1, 0.5, 0.0, 0.005),  # the first iteration has only its number
        (3, 0.0, 0.4, 0.4),
        (3, 0.5, 0.5, 0.5),
        (51, 0.0, 0.4, 0.5),  # the maximum number of iterations is nearer
        (5, 0.0, 1.0, 1.0),
        (5, 0.5, 1.2, 1.0),
    ],
)
def test_cosine_follows_the_share_of_the_run(iteration, fraction, share, t):
    rates = RATE_SCHEDULES["cosine"](end=0.1).step_rates(TimeInRun(iteration, fraction, 100, share))
    expected = 0.1 + 0.9 * (1 + math.cos(math.pi * t)) / 2
    assert rates.learning_rate_factor == pytest.approx(expected)


def test_annealing_after_a_warm_up_begins_at_the_peak():
    """Two of five expected iterations are over: one of the four that follow the warm-up."""
    cosine = RATE_SCHEDULES["cosine"](warm_up=1)
    assert cosine.step_rates(TimeInRun(2, 0.0, 100, 0.2)).learning_rate_factor == 1.0
    quarter = (1 + math.cos(math.pi / 4)) / 2
    assert cosine.step_rates(TimeInRun(3, 0.0, 100, 0.4)).learning_rate_factor == pytest.approx(
        quarter
    )
    assert cosine.step_rates(TimeInRun(6, 0.0, 100, 1.0)).learning_rate_factor == pytest.approx(0)


@pytest.mark.parametrize("name", ["hours", "spent"])
@given(lengths=st.lists(st.integers(20, 30), min_size=60, max_size=60))
def test_cosine_reaches_its_end_with_the_run(name, lengths):
    """Every iteration begins on the curve, and the last one ends near its end."""
    rule = hours(1000) if name == "hours" else STOP_RULES["spent"](evaluations=1000)
    cosine, records, factors = RATE_SCHEDULES["cosine"](end=0.1), [], []
    for number, length in enumerate(lengths, 1):
        share = rule.completed_shares(records, number)
        times = [
            TimeInRun(number, step / 10, 1000, share.share_at(step / 10)) for step in range(10)
        ]
        factors += [cosine.step_rates(time).learning_rate_factor for time in times]
        expected = 0.1 + 0.9 * (1 + math.cos(math.pi * sum(lengths[: number - 1]) / 1000)) / 2
        assert factors[-10] == pytest.approx(expected)
        records.append(timed(number, length) if name == "hours" else evaluated(number, length))
        if rule.is_met(records):
            break
    assert factors[-1] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [("linear", [24, 68, 112, 156, 200]), ("geometric", [24, 41, 69, 118, 200])],
)
def test_simulations_grow_by_differences_or_factors(shape, expected):
    """24 * (200 / 24)^(1/4) = 40.8, 24 * (200 / 24)^(1/2) = 69.3, 24 * (200 / 24)^(3/4) = 117.7."""
    progressive = ProgressiveSettings(first=24, shape=shape)
    shares = 0, 0.25, 0.5, 0.75, 1
    assert [progressive.simulations_at(200, share) for share in shares] == expected


@given(
    st.sampled_from(["linear", "geometric"]),
    st.integers(1, 1000),
    st.integers(1, 1_000_000),
    st.lists(st.floats(0, 1), min_size=2).map(sorted),
)
def test_simulations_never_decrease(shape, first, more, shares):
    progressive = ProgressiveSettings(first=first, shape=shape)
    grown = [progressive.simulations_at(first + more, share) for share in (0, *shares, 1)]
    assert grown == sorted(grown)
    assert (grown[0], grown[-1]) == (first, first + more)


TINY = [
    "iterations=9", "selfplay.episodes=4", "search.simulations=8", "selfplay.progressive.first=2",
    "gate=always", "final_evaluation.games=0", "learn.learning_rate=0.01",
]  # fmt: skip
LIMITED = [*TINY, f"stop={100 / 3600}h", 'learn.schedule={name = "cosine", end = 0.1}']


@pytest.fixture
def ten_seconds(monkeypatch):
    """Let every stage take ten seconds, so that an iteration takes thirty."""
    ticks = count(0, 10)
    monkeypatch.setattr(trainer, "perf_counter", lambda: next(ticks))


def self_play(run):
    return [record for record in read_records(run) if isinstance(record, SelfPlayRecord)]


def test_schedule_and_search_follow_the_hours(tmp_path, ten_seconds):
    """The run ends after 90 of 100 s; iterations begin at 0, 0.3 and 0.6 of the hours."""
    run = train(tmp_path / "run", resolve_settings(None, "smoke", LIMITED))
    records = read_records(run)
    assert [record.iteration for record in records] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {record.wall_elapsed_seconds for record in records} == {10}
    assert [record.full_simulations for record in self_play(run)] == [2, 4, 6]
    for record in self_play(run):
        assert record.simulations == record.full_simulations * record.positions
    peaks = [line["peak_learning_rate"] for line in learn_lines(run)]
    expected = [0.1 + 0.9 * (1 + math.cos(math.pi * share)) / 2 for share in (0, 0.3, 0.6)]
    assert peaks == pytest.approx([0.01 * factor for factor in expected])
    assert learn_lines(run)[-1]["learning_rate"] < peaks[-1]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [
            "selfplay.mode={name = 'continuous', plies = 6}", "selfplay.parallel_games=4",
            "selfplay.budget={name = 'playout_cap', simulations = 1}", "selfplay.lag=1",
        ],
    ],
    ids=["episodic", "continuous"],
)  # fmt: skip
def test_run_killed_at_every_stage_has_the_same_bytes(tmp_path, ten_seconds, changes):
    settings = resolve_settings(None, "smoke", [*LIMITED, *changes])
    undisturbed = train(tmp_path / "undisturbed", settings)
    folder = tmp_path / "run"
    for iteration in (1, 2, 3):
        for stage, title in (("selfplay", "self-play"), ("learn", "learn"), ("gate", "gate")):
            if title != "gate":  # a gate without games reports no progress
                with pytest.raises(KilledError):
                    train(folder, settings, Killing(iteration, title))
            with killed_before_commit(iteration, stage):
                train(folder, settings)
    assert contents(train(folder, settings).path) == contents(undisturbed.path)
    # Games that are played ahead are planned before the previous iteration is over.
    expected = [2, 3, 6] if settings.selfplay.lag else [2, 4, 6]
    assert [record.full_simulations for record in self_play(undisturbed)] == expected


def test_unfinished_games_continue_with_larger_searches(tmp_path):
    changes = "selfplay.mode={name = 'continuous', plies = 4}", "selfplay.parallel_games=4"
    settings = resolve_settings(None, "smoke", [*TINY, *changes, "iterations=3"])
    run = train(tmp_path / "run", settings)
    records = self_play(run)
    assert [record.full_simulations for record in records] == [2, 4, 6]
    assert all(record.simulations == record.full_simulations * record.plies for record in records)
    games = [game for number in (2, 3) for game in run.games.stage_games(number, "selfplay")]
    assert any(game.agent_spans for game in games)


def test_searches_of_a_service_grow_and_matches_do_not(tmp_path, monkeypatch):
    """Self-play begins with 2 and 5 simulations, and the gate's players have 8."""
    requested, start_search = set(), Search.start_search

    def recorded(search, trees, playout_keys, noise_keys, simulations, noise):
        requested.update(np.unique(simulations).tolist())
        start_search(search, trees, playout_keys, noise_keys, simulations, noise)

    monkeypatch.setattr(Search, "start_search", recorded)
    changes = "iterations=2", "selfplay.mode=service", "gate={name = 'win_rate', games = 2}"
    run = train(tmp_path / "run", resolve_settings(None, "smoke", [*TINY, *changes]))
    assert [record.full_simulations for record in self_play(run)] == [2, 5]
    assert [record.simulations / record.searched for record in self_play(run)] == [2, 5]
    assert requested == {2, 5, 8}


def test_summary_shows_growth_and_limit():
    lines = main_settings(resolve_settings(None, "smoke", [*TINY, "stop=1.5h"]))
    assert lines["search"].startswith("2 to 8 simulations per move")
    assert lines["iterations"] == "9 at most, stop hours (hours 1.5)"


def test_run_that_depends_on_its_length_is_not_extended(tmp_path):
    run = train(tmp_path / "run", resolve_settings(None, "smoke", [*TINY, "iterations=1"]))
    assert resume_settings(run, ["iterations=1"])
    with pytest.raises(UserError, match=r"iterations = 2: .* selfplay\.progressive spans"):
        resume_settings(run, ["iterations=2"])


def test_work_of_a_growing_search_is_estimated():
    """Shares 0, 0.25, 0.5 and 0.75 of four iterations: (2 + 4 + 5 + 6) / 4 of 8 simulations."""
    plain = [each for each in TINY if "progressive" not in each]
    constant, growing = (
        estimate_work(resolve_settings(None, "smoke", [*each, "iterations=4"])).simulations
        for each in (plain, TINY)
    )
    assert growing == pytest.approx(constant * (2 + 4 + 5 + 6) / 4 / 8)


def test_limit_and_growth_change_the_key_of_a_run_only_if_set():
    plain = resolve_settings(None, "smoke")
    keys = {
        run_key(resolve_settings(None, "smoke", [change]))
        for change in ("stop=1h", "stop=2h", "selfplay.progressive.first=2", "seed=0")
    }
    assert len(keys) == 4
    assert run_key(plain) in keys
    assert "progressive" not in plain.model_dump()["selfplay"]


def test_command_line_takes_hours(tmp_path, capsys):
    command = ["train", "--preset", "smoke", "--run", str(tmp_path / "run"), "--set"]
    assert main([*command, "stop=0.0000001h"]) == 0
    run = RunFolder.open(tmp_path / "run")
    assert run.progress.iteration - 1 == 1
    assert run.config["stop"] == {"name": "hours", "hours": 1e-7}
    assert "iterations  2 at most, stop hours (hours 1e-07)" in capsys.readouterr().out
    assert main(["train", "--run", str(run.path)]) == 0
    assert 'already finished after 1 iteration of 2, because of stop = "hours"' in " ".join(
        capsys.readouterr().out.split()
    )


MISTAKES = [
    (["stop=90min"], 'stop: "90min": expected hours, such as 1.5h'),
    (["stop=0h"], r"stop\.hours = 0\.0: expected more than 0"),
    (["stop=1e308h"], r"stop\.hours = 1e\+308: expected at most 1000000"),
    (["stop=-1h"], r"stop\.hours = -1\.0: expected more than 0"),
    (["stop=infh"], r"stop\.hours = inf: expected a finite number"),
    (["stop=hours", "stop.hours=0"], r"stop\.hours = 0: expected more than 0"),
    (["stop=hours", "stop.hour=1"], 'did you mean "stop.hours"'),
    (["stop.hours=1"], "expected stop=hours"),
    (["stop=anh"], r'stop\.name = "anh": expected one of'),
    (["stop=1"], r"stop = 1: expected one of"),
    (["selfplay.progressive.shape=linear"], r"selfplay\.progressive\.first is missing"),
    (["selfplay.progressive.first=0"], r"selfplay\.progressive\.first = 0: expected at least 1"),
    (["selfplay.progressive.first=8"], r"is not below search\.simulations = 8"),
    (
        ["selfplay.progressive.first=2", "selfplay.progressive.shap=linear"],
        'did you mean "selfplay.progressive.shape"',
    ),
    (["selfplay.progressive.first=2", "selfplay.budget=kl_gain"], r'budget = "kl_gain" ignores'),
    (
        ["selfplay.progressive.first=2", "selfplay.budget={name='playout_cap', simulations=4}"],
        r"with selfplay\.progressive\.first, selfplay\.budget\.simulations = 4",
    ),
    (
        ["selfplay.progressive.first=2", 'league.parameters=["c"]'],
        r"selfplay\.progressive cannot be used with self-play in a league",
    ),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_are_explained_in_one_line(changes, message):
    with pytest.raises(UserError, match=message) as error:
        resolve_settings(None, "smoke", changes)
    assert "\n" not in str(error.value)


def test_time_left_is_the_shorter_of_hours_and_iterations(monkeypatch):
    now = [50.0]
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now[0])
    clock = RunClock(10, seconds_left=1000)
    clock.set_iteration(4)
    now[0] += 100
    assert clock.remaining_seconds() == 900  # no iteration is finished yet
    clock.set_iteration(5)
    assert clock.remaining_seconds() == pytest.approx(100 / 1.5 * 5.5)
    now[0] += 650
    assert clock.remaining_seconds() == 250
    now[0] += 251
    assert clock.remaining_seconds() is None


def test_time_left_follows_the_share_of_evaluations(monkeypatch):
    now, shares = [50.0], iter([0.2, 0.4, 0.9])
    monkeypatch.setattr(reporting.time, "monotonic", lambda: now[0])
    clock = RunClock(100, completed_share=lambda: next(shares))
    clock.set_iteration(3)  # a resumed run; its next iteration is a fifth and takes a minute
    for seconds, iteration, expected in ((60, 4, 180), (30, 4, 150), (0, 5, 90 / 7)):
        now[0] += seconds
        clock.set_iteration(iteration)
        assert clock.remaining_seconds() == pytest.approx(expected)


def test_clock_of_a_resumed_run_has_the_hours_left(tmp_path, ten_seconds):
    settings = resolve_settings(None, "smoke", LIMITED)
    with killed_before_commit(2, "learn"):
        train(tmp_path / "run", settings)
    clock = RunClock.of_run(RunFolder.open(tmp_path / "run"), settings)
    assert 50 < clock.remaining_seconds() <= 60  # forty of a hundred seconds are recorded
