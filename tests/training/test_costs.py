"""Run costs: hand-computed sums, reference machines and accuracy levels."""

from __future__ import annotations

import json
import shlex

import pytest

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import evaluation_flops, training_flops
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import AgentOrigin
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import require_effects, resolve_settings, saved_settings
from zerolab.training.costs import cost_to_reach, run_costs, training_summary
from zerolab.training.move_times import (
    Machine,
    MeasurementSubject,
    MoveTime,
    ReferenceMoveTimes,
    move_kind,
    read_reference_move_times,
    reference_move_times_to_extend,
    write_reference_move_times,
)
from zerolab.training.records import AccuracyRecord, GateRecord, LearnRecord, SelfPlayRecord

MACHINE = Machine(processor="one", device="cpu", precision="float32", cores=2)


def self_play(iteration, **changes):
    fields = {
        "iteration": iteration, "wall_seconds": 10.0, "games": 5, "distinct_games": 4,
        "positions": 40, "simulations": 320, "evaluated": 200, "deduplicated": 60, "cached": 40,
        "terminal": 20, "wall_select_seconds": 1, "wall_evaluate_seconds": 1,
        "wall_backup_seconds": 1,
    }  # fmt: skip
    return SelfPlayRecord.model_validate(fields | changes)


def learn(iteration):
    return LearnRecord(
        iteration=iteration, wall_seconds=4.0, examples_seen=100, window=40, loss={"policy": 1.0}
    )


def gate(iteration):
    return GateRecord(iteration=iteration, wall_seconds=1.0, accepted=True, elo=0.0)


def accuracy(iteration, strong):
    shares = {
        f"{player}_{measure}{end}": strong
        for player in ("network", "search")
        for measure in ("strong", "weak")
        for end in ("", "_low", "_high")
    }
    fields = {"iteration": iteration, "wall_seconds": 2.0, "network": iteration, "positions": 9}
    return AccuracyRecord.model_validate(fields | shares)


def made_run(path, records, *changes, preset="smoke"):
    run = RunFolder.create(path, resolve_settings(None, preset, list(changes)).model_dump())
    run.commit(run.progress, [record.as_dict() for record in records])
    return run


@pytest.fixture
def run(tmp_path):
    records = [
        *(self_play(1), learn(1), gate(1), accuracy(1, 0.5)),
        *(self_play(2, plies=50, evaluated=300), learn(2), gate(2), accuracy(2, 0.7)),
        *(self_play(3), learn(3), gate(3), accuracy(3, 0.6)),
    ]
    return made_run(tmp_path / "run", records, "iterations=3")


def reference_for(run, milliseconds=3.0, simulations=8.0):
    kind = move_kind(saved_settings(run), 0)
    measured = MoveTime(
        kind=kind, milliseconds=milliseconds, low=2.0, high=4.0, rounds=6, moves=100,
        simulations_per_move=simulations, parallel_games=512,
    )  # fmt: skip
    return ReferenceMoveTimes(machine=MACHINE, moves=(measured,))


def test_costs_are_cumulative(run):
    first, second, third = run_costs(run)
    assert (first.games, first.moves, first.simulations, first.examples_seen) == (5, 40, 320, 100)
    assert (third.games, third.moves, third.simulations, third.examples_seen) == (15, 130, 960, 300)
    assert (third.evaluated, third.avoided_evaluations, third.terminal) == (700, 300, 60)
    assert second.seconds == {"selfplay": 20, "learn": 8, "gate": 2, "accuracy": 4}
    assert [cost.search_strong_accuracy for cost in (first, second, third)] == [0.5, 0.7, 0.6]
    network, game = saved_settings(run).network, parse_game(saved_settings(run).game)
    assert third.selfplay_flops == 700 * evaluation_flops(network, game)
    assert third.learn_flops == 300 * training_flops(network, game)
    assert third.reference_hours is None


def test_growing_networks_are_counted_at_their_sizes(tmp_path):
    """Iteration 2 plays with small network 1 and trains large network 2."""
    changes = "network={name='resnet', filters=4}", "growth={name='net2net', after=[1]}"
    records = [self_play(1), learn(1), gate(1), self_play(2), learn(2), gate(2), self_play(3)]
    run = made_run(tmp_path / "run", records, "iterations=3", *changes)
    _, second, third = run_costs(run)
    small, game = saved_settings(run).network, parse_game(saved_settings(run).game)
    large = small.grown_settings(2)
    assert second.selfplay_flops == 400 * evaluation_flops(small, game)
    assert third.selfplay_flops - second.selfplay_flops == 200 * evaluation_flops(large, game)
    assert second.learn_flops == 100 * (training_flops(small, game) + training_flops(large, game))


def test_reference_hours_are_move_time_times_moves(run):
    costs = run_costs(run, reference_for(run))
    moves = [40, 80, 120]  # iteration 2 has 40 searches for 50 moves
    expected = [3.0 * count / 3_600_000 for count in moves]
    assert [cost.reference_hours for cost in costs] == pytest.approx(expected)
    fewer = run_costs(run, reference_for(run, simulations=4.0))  # for example with proven values
    assert fewer[-1].reference_hours == pytest.approx(2 * expected[-1])


def test_accuracy_levels_are_reached_at_their_first_measurement(run):
    costs = run_costs(run)
    reached = cost_to_reach(costs, [0.5, 0.55, 0.7, 0.71])
    assert [cost and cost.iteration for cost in reached.values()] == [1, 2, 2, None]
    assert reached[0.7] is costs[1]


def test_unfinished_runs_have_costs(tmp_path):
    run = made_run(tmp_path / "run", [self_play(1), learn(1), gate(1), self_play(2)])
    costs = run_costs(run)
    assert [(cost.moves, cost.examples_seen) for cost in costs] == [(40, 100), (80, 100)]
    empty = made_run(tmp_path / "empty", [])
    with pytest.raises(UserError, match="no finished stage yet"):
        run_costs(empty)


def test_supervised_runs_have_only_learning_costs(tmp_path):
    solved = ["supervised.positions=solved.parquet", "supervised.digest=abc"]
    run = made_run(tmp_path / "run", [learn(1), learn(2)], *solved, preset="supervised")
    _, last = run_costs(run, ReferenceMoveTimes(machine=MACHINE))
    assert (last.moves, last.selfplay_flops, last.reference_hours) == (0, 0, 0)
    assert last.examples_seen == 200
    assert last.learn_flops > 0


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ('search.selection={name="puct", c=2.0}', False),
        ('search.fpu={name="fixed", value=0.5}', True),
        ("search.discount=0.9", False),
        ("selfplay.parallel_games=64", False),
        ("network.heads.value.weight=0.5", False),
        ("network.heads=['policy', 'value', 'reply']", False),
        ("network.heads=['policy', 'outcome']", True),
        ("network.channels=9", True),
        ("search.simulations=9", True),
        ("search.deduplicate=false", True),
        ("game=gobang:4x4:3", True),
    ],
)
def test_move_kind_changes_with_settings_that_affect_work(change, is_other):
    plain, changed = (
        move_kind(resolve_settings(None, "smoke", changes), 0) for changes in ([], [change])
    )
    assert (plain != changed) == is_other


def test_move_kind_ignores_rule_parameters():
    first, second = (
        move_kind(resolve_settings(None, "connect4-baseline", [f"search.fpu.value={value}"]), 0)
        for value in (0.1, 0.9)
    )
    assert first == second


def test_measuring_needs_self_play_games(run):
    with pytest.raises(UserError, match="self-play"):
        MeasurementSubject.from_run(run, 0)


def test_reference_is_read_back_and_extended(run, tmp_path):
    path, reference = tmp_path / "machine.json", reference_for(run)
    write_reference_move_times(path, reference)
    assert read_reference_move_times(path) == reference
    remeasured = reference_for(run, milliseconds=2.5).moves[0]
    extended = reference_move_times_to_extend(path, MACHINE).with_measurement(remeasured)
    assert extended.moves == (remeasured,)
    with pytest.raises(UserError, match='processor = "one"; this one has "two"'):
        reference_move_times_to_extend(path, MACHINE.model_copy(update={"processor": "two"}))


def test_unmeasured_network_is_reported(run, tmp_path):
    other = made_run(tmp_path / "other", [self_play(1)], "network.channels=9")
    with pytest.raises(UserError, match=r"conv \(channels 9\), gobang:3x3:3, 8 sim") as error:
        run_costs(other, reference_for(run))
    assert "zerolab cost --measure" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "is damaged"),
        ("[]", "is not a table"),
        ("{}", "has no schema version"),
        (json.dumps({"schema_version": 2}), "newer than"),
        (json.dumps({"schema_version": 1}), "machine is missing"),
    ],
)
def test_damaged_references_are_refused(content, expected, tmp_path):
    path = tmp_path / "machine.json"
    path.write_text(content)
    with pytest.raises(UserError, match=expected):
        read_reference_move_times(path)


ORIGIN = AgentOrigin(
    run="demo", run_digest="", preset="mini", seed=0, iteration=2, games=10, positions=80,
    written_by="",
)  # fmt: skip


def facts_of(settings, folder):
    return training_summary(RunFolder.create(folder, settings.model_dump()), ORIGIN)


def test_card_counts_hours_of_training_and_not_of_measuring(run):
    """Two iterations of self-play, learning and gate: the network is that of the second."""
    facts = training_summary(run, ORIGIN)
    assert facts.hours == round(2 * (10 + 4 + 1) / 3600, 4)
    assert (facts.iterations, facts.games, facts.positions) == (2, 10, 80)


@pytest.mark.parametrize(
    ("preset", "assignments"),
    [
        ("mini", []),
        ("strong", ["seed=7", "iterations=9", "learn.epochs=3"]),
        ("mini", ["selfplay.mode=continuous", "gate=los", "learn.learning_rate=0.5"]),
        ("smoke", ['network.heads=["policy","outcome"]', "warm_start.variant=wrora"]),
        ("small", ["network=conv", "network.channels=7", "network.hidden=[9,5]"]),
    ],
)
def test_command_of_a_card_has_the_settings_of_the_run(preset, assignments, tmp_path):
    """Except for measurements, which do not change the network."""
    measuring = ["accuracy.every=3", "accuracy.positions=/home/me/secret.parquet"]
    trained = resolve_settings("othello:6x6", preset, [*assignments, *measuring])
    facts = facts_of(trained, tmp_path / "run")
    assert "secret" not in facts.model_dump_json()
    name, command, game, *options = shlex.split(facts.command)
    assert (name, command, game) == ("zerolab", "train", "othello:6x6")
    pairs = dict(zip(options[:2:2], options[1:2], strict=True))
    assert pairs == {"--preset": preset}
    assert options[-2:] == ["--run", "runs/demo"]
    assert set(options[2:-2:2]) <= {"--set"}
    repeated = resolve_settings(game, preset, options[3:-2:2])
    measured = {"accuracy"}
    assert repeated.model_dump(exclude=measured) == trained.model_dump(exclude=measured)
    assert set(facts.settings) == {each.partition("=")[0] for each in options[3:-2:2]}


def test_preset_of_a_user_is_described_by_its_differences(tmp_path):
    own = tmp_path / "mine.toml"
    own.write_text('game = "othello:6x6"\n[search]\nsimulations = 17\n')
    facts = facts_of(resolve_settings(None, str(own)), tmp_path / "run")
    options = shlex.split(facts.command)
    assert options[3:5] == ["--preset", "mini"]
    assert "search.simulations=17" in options
    assert facts.settings["search.simulations"] == 17


def test_command_of_a_run_that_stops_by_accuracy_measures_it(tmp_path):
    stop = ["stop=no_gain", "accuracy.every=1", "accuracy.positions=held/out.parquet"]
    trained = resolve_settings("othello:6x6", "mini", stop)
    options = shlex.split(facts_of(trained, tmp_path / "run").command)
    repeated = resolve_settings("othello:6x6", "mini", options[6:-2:2])
    assert repeated.stop == trained.stop
    assert (repeated.accuracy.every, repeated.accuracy.positions) == (1, "out.parquet")


def test_supervised_run_with_a_preset_of_a_user_is_described_by_its_differences(tmp_path):
    own = tmp_path / "mine.toml"
    own.write_text('game = "othello:6x6"\nlearn.batch_size = 16\n')
    data = ["supervised.positions=a/b.parquet", "supervised.digest=0123"]
    trained = resolve_settings(None, str(own), data)
    options = shlex.split(facts_of(trained, tmp_path / "run").command)
    assert options[1:5] == ["fit", "b.parquet", "--preset", "supervised"]
    repeated = resolve_settings("othello:6x6", "supervised", [*data, *options[6:-2:2]])
    require_effects(repeated, options[6:-2:2])
    assert repeated.learn == trained.learn
