"""Speed benchmark: medians of alternating rates, its command, and learning suites."""

from __future__ import annotations

import json

import pytest

from zerolab.bench import benchmarks, learning
from zerolab.bench.benchmarks import BenchmarkResult, measure_median_rates
from zerolab.bench.learning import LearningEpochs, measure_learning, measure_replay_window
from zerolab.cli.main import main

NAME = "gobang:3x3:3"


@pytest.fixture
def clock(monkeypatch):
    """Clock times; the benchmark reads the last, and work adds more."""
    times = [0.0]
    monkeypatch.setattr(benchmarks, "perf_counter", lambda: times[-1])
    return times


def work_of(clock, units, seconds, order, name):
    """Return work that takes `seconds[i]` on call i."""
    durations = iter(seconds)

    def work():
        order.append(name)
        clock.append(clock[-1] + next(durations))
        return units

    return work


def test_rates_are_medians_after_a_warm_up(clock):
    order = []
    subject = work_of(clock, 10.0, [100.0, 1.0, 2.0, 5.0], order, "subject")
    limit = work_of(clock, 30.0, [100.0, 3.0, 1.0, 2.0], order, "limit")
    assert measure_median_rates(subject, limit, 3) == (5.0, 15.0)
    assert order == ["subject", "limit", *["limit", "subject"] * 3]


def made_up_suite(rounds):
    yield BenchmarkResult(
        "made-up/one", "moves/s", 1234.5678, 2469.1356, "nothing", {"select": 0.25}, "a remark"
    )
    yield BenchmarkResult("made-up/two", "moves/s", 3.0, float(rounds), "rounds")


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setattr(learning, "made_up_suite", made_up_suite, raising=False)
    monkeypatch.setitem(benchmarks.SUITES, "made-up", "learning:made_up_suite")


def test_bench_prints_results_as_json(made_up, capsys):
    assert main(["bench", "made-up", "--rounds", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "made-up/one", "unit": "moves/s", "median": 1235.0, "limit": 2469.0, "ratio": 0.5,
         "limit_of": "nothing", "shares": {"select": 0.25}, "note": "a remark"},
        {"name": "made-up/two", "unit": "moves/s", "median": 3.0, "limit": 4.0, "ratio": 0.75,
         "limit_of": "rounds"},
    ]  # fmt: skip


def test_bench_prints_a_table(made_up, capsys):
    assert main(["bench", "made-up", "--rounds", "4"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if "made-up/one" in line)
    assert [word in row for word in ("1,235", "0.50", "select 25 %, a remark")] == [True] * 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["trees"], 'unknown suite "trees"'),
        (["strenght"], 'did you mean "strength"?'),
        (["tree", "--rounds", "0"], "rounds = 0"),
    ],
)
def test_wrong_options_are_refused(options, expected, capsys):
    assert main(["bench", *options]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


def test_learning_and_its_limit_take_equal_steps_on_equal_examples():
    epochs = LearningEpochs(
        NAME, {"name": "conv", "channels": 8, "hidden": (8, 8)}, size=8, batches=3
    )
    before = [each.clone() for each in epochs._learner.network.parameters()]
    assert (epochs.learn(), epochs.repeat_one_batch()) == (24.0, 24.0)
    for network in (epochs._learner.network, epochs._bare.network):
        moved = zip(before, network.parameters(), strict=True)
        assert any((one != other).any() for one, other in moved)


def test_suites_of_learning_yield_a_result_for_each_game(monkeypatch):
    monkeypatch.setattr(learning, "GAMES", (NAME, NAME))
    monkeypatch.setattr(
        learning, "WORKLOADS", (("tiny", {"name": "conv", "channels": 8, "hidden": (8, 8)}, 8, 2),)
    )
    monkeypatch.setattr(learning, "_WINDOW", 2600)
    monkeypatch.setattr(learning, "_NEW", 400)
    learnt = list(measure_learning(rounds=1))
    filled = list(measure_replay_window(rounds=1))
    assert [each.name for each in learnt] == [f"learn/tiny/{NAME}"] * 2
    assert [each.name for each in filled] == [f"replay/merge/{NAME}"] * 2
    assert all(each.median > 0.0 < each.limit_median for each in [*learnt, *filled])
    # Two in five positions recur, though not all of them are still in the window.
    assert all(0 < int(each.note.split()[-3]) <= 50 for each in filled)
