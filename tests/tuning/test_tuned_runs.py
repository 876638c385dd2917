"""Tuning trials that train runs: resumption, pruning and parallel workers."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shutil import rmtree

import pytest
import torch
from tuning_trials import GAME, TINY, plan, settings

from promised import contents
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.networks.objectives import SumLoss
from zerolab.store.run_folder import RunFolder
from zerolab.training.learner import DivergedError
from zerolab.training.records import AccuracyRecord, LearnRecord
from zerolab.training.reporting import NullReporter, read_records
from zerolab.tuning.plan import trial_run_path
from zerolab.tuning.search import TrialDisplay, run_trial, tune, work_on_trials
from zerolab.tuning.trials import ClaimedTrial, TrialStore
from zerolab.tuning.tuning_report import trial_results


@pytest.fixture(scope="module")
def positions(tmp_path_factory):
    path = tmp_path_factory.mktemp("solved") / "solved.parquet"
    assert main(["dataset", GAME, "--positions", "40", "--out", str(path)]) == 0
    return str(path)


class InterruptingReporter(NullReporter):
    """Reporter that interrupts training after some stages."""

    def __init__(self, stages):
        self.left = stages

    def stage_finished(self, record):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@contextmanager
def no_bar(title, total, unit):
    yield lambda done, note: None


def display(reporter=None):
    return TrialDisplay(lambda line: None, lambda clock: nullcontext(reporter), no_bar)


def test_stopped_search_resumes_to_the_same_result(tmp_path, positions, capsys):
    tuning_settings = settings("accuracy", positions=positions)
    for stages in (3, 9):  # in the first trial, and in a later one
        with pytest.raises(KeyboardInterrupt):
            tune(tmp_path / "stopped", tuning_settings, 2, 1, display(InterruptingReporter(stages)))
    stopped = tune(tmp_path / "stopped", tuning_settings, 2, 1, display(NullReporter()))
    uninterrupted = tune(tmp_path / "whole", tuning_settings, 2, 1, display(NullReporter()))
    assert [outcome(each) for each in stopped.results] == [
        outcome(each) for each in uninterrupted.results
    ]
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")
    assert all(each.state == "complete" for each in uninterrupted.results)
    for number in range(2):
        records = read_records(RunFolder.open(trial_run_path(tmp_path / "whole", number)))
        last = [each for each in records if isinstance(each, AccuracyRecord)][-1]
        assert last.search_strong == uninterrupted.results[number].objective_value
        assert last.iteration == 2
    folder = tmp_path / "whole"
    assert (folder / "tuning.png").read_bytes().startswith(b"\x89PNG")
    assert "| learn" not in (folder / "tuning.md").read_text()
    best = str(folder / "best.toml")
    assert main(["train", GAME, "--preset", best, "--run", str(tmp_path / "run")]) == 0
    retrained = [x for x in read_records(RunFolder.open(tmp_path / "run")) if x.stage == "accuracy"]
    assert retrained[-1].search_strong == uninterrupted.best_result.objective_value


@pytest.fixture(scope="module")
def source_run(tmp_path_factory):
    """Finished run whose network the trials learn from."""
    path = tmp_path_factory.mktemp("another") / "run"
    assignments = ["iterations=1", "final_evaluation.games=0", "network={name='resnet', hidden=0}"]
    options = [f"--set={each}" for each in assignments]
    assert main(["train", "--preset", "smoke", "--run", str(path), *options]) == 0
    return path


@pytest.mark.parametrize(
    "learns_from",
    [
        ["start.source='{}'", "start.transfer=all"],
        [
            "network={{name='resnet', hidden=0, heads=['policy', 'value', {{name='features',"
            " source='{}'}}]}}",
            "learn.symmetries=none",
        ],
    ],
)
def test_stopped_trial_with_a_source_network_is_resumed(tmp_path, source_run, learns_from):
    chosen = settings("loss", *TINY, *(each.format(source_run) for each in learns_from))
    with pytest.raises(KeyboardInterrupt):
        tune(tmp_path, chosen, 1, 1, display(InterruptingReporter(3)))
    (trial,) = tune(tmp_path, chosen, 1, 1, display(NullReporter())).results
    assert trial.state == "complete"


def outcome(result):
    return (result.number, result.state, result.setting_values, result.objective)


def test_measurements_of_accuracy_can_be_set_as_a_table(positions):
    given = plan(*TINY, f"accuracy={{positions={str(positions)!r}, every=2}}", objective="accuracy")
    added = plan(*TINY, "accuracy={every=2}", objective="accuracy", positions=positions)
    for chosen in (given, added):
        accuracy = chosen.trial_settings({"search.selection.c": 1.0}, 0).accuracy
        assert (accuracy.every, accuracy.positions) == (2, str(positions))


def test_trial_below_the_median_is_pruned(tmp_path, positions):
    chosen = plan(*TINY, objective="accuracy", positions=positions)
    store, verdicts = TrialStore(tmp_path, chosen), []

    def run(claimed):
        value = 0.5 if claimed.number < 6 else 0.4 + 0.2 * (claimed.number % 2)
        behind = claimed.record_and_should_prune(1, value, 0.5)
        assert claimed.record_and_should_prune(1, value, 0.5) == behind  # also after resuming
        verdicts.append(behind)
        claimed.prune({"hours": 0.1}) if behind else claimed.complete([value], {"hours": 1.0})

    work_on_trials(store, 10, run)
    assert verdicts == [False] * 6 + [True, False, True, False]
    pruned = [each for each in trial_results(store) if each.state == "pruned"]
    assert [(each.number, each.objective_value) for each in pruned] == [(6, 0.4), (8, 0.4)]
    assert not plan(*TINY, objective="accuracy", positions=positions, and_time=True).has_pruning


def test_divergence_is_an_outcome_but_a_full_disk_is_an_error(tmp_path, monkeypatch):
    def diverges(self):
        raise DivergedError("a loss is not finite")

    chosen = plan()
    store = TrialStore(tmp_path, chosen)
    monkeypatch.setattr("zerolab.training.trainer.Trainer.train", diverges)
    work_on_trials(
        store, 1, lambda claimed: run_trial(claimed, chosen, tmp_path, display(NullReporter()))
    )
    assert trial_results(store)[0].refusal_reason == "a loss is not finite"

    def is_full(self):
        raise UserError("the disk is full")

    monkeypatch.setattr("zerolab.training.trainer.Trainer.train", is_full)
    with pytest.raises(UserError, match="disk"):
        work_on_trials(store, 2, lambda claimed: run_trial(claimed, chosen, tmp_path, display()))
    assert trial_results(store)[1].state == "running"


def test_elo_and_time_objectives_with_two_workers(tmp_path, capsys):
    sets = [f"--set={each}" for each in (*TINY, "iterations=1")]
    arguments = ["tune", GAME, "--preset", "smoke", "--objective", "elo", "--and", "time"]
    match = ["--games", "4", "--opponent", "random", "--folder", str(tmp_path / "t")]
    command = [*arguments, *match, *sets, "--trials", "2", "--json"]
    assert main([*command, "--workers", "2"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in printed["trials"]] == ["complete"] * 2
    for each in printed["trials"]:
        assert each["low"] < each["objective"] < each["high"]
        run = RunFolder.open(trial_run_path(tmp_path / "t", each["number"]))
        records = read_records(run)
        assert each["hours"] == pytest.approx(sum(x.wall_seconds for x in records) / 3600)
        assert run.config["seed"] == each["number"]
    assert set(printed["front"]) <= {0, 1}
    assert printed["best"] in printed["front"]
    before = (tmp_path / "t" / "journal.jsonl").read_bytes()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == printed
    assert (tmp_path / "t" / "journal.jsonl").read_bytes() == before


def test_workers_accept_objectives_without_a_match(tmp_path):
    sets = [f"--set={each}" for each in (*TINY, "iterations=1")]
    command = ["tune", GAME, "--preset", "smoke", "--objective", "loss", *sets]
    folder = tmp_path / "t"
    assert main([*command, "--folder", str(folder), "--trials", "2", "--workers", "2"]) == 0
    chosen = plan(*TINY, "iterations=1", preset="smoke", objective="loss")
    results = trial_results(TrialStore(folder, chosen))
    assert [each.state for each in results] == ["complete"] * 2


def test_loss_is_the_sum_of_head_errors_whatever_else_is_logged(tmp_path, monkeypatch):
    usual = SumLoss.logged_scalars
    monkeypatch.setattr(
        SumLoss, "logged_scalars",
        lambda loss, errors: {**usual(loss, errors), "entropy": torch.tensor(9.0)},
    )  # fmt: skip
    tuning_settings = settings("loss", *TINY, "iterations=1")
    (trial,) = tune(tmp_path, tuning_settings, 1, 1, display(NullReporter())).results
    records = read_records(RunFolder.open(trial_run_path(tmp_path, 0)))
    (loss,) = (record.loss for record in records if isinstance(record, LearnRecord))
    assert loss["entropy"] == 9
    assert trial.objective_value == loss["policy"] + loss["value"]


def test_trials_must_meet_the_same_opponent(tmp_path, capsys, monkeypatch):
    """A run that was the opponent has been trained further."""
    monkeypatch.chdir(tmp_path)
    train = ["train", GAME, "--preset", "smoke", "--run", "opponent", "--set", "iterations=1"]
    assert main(train) == 0
    sets = [f"--set={each}" for each in (*TINY, "iterations=1")]
    command = ["tune", GAME, "--preset", "smoke", "--objective", "elo", "--opponent", "opponent",
               "--games", "2", "--folder", "t", "--trials", "1", *sets]  # fmt: skip
    assert main(command) == 0
    rmtree("opponent")
    assert main([*train, "--set", "seed=5"]) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert "opponent_identity" in capsys.readouterr().err


def test_trials_must_be_measured_on_the_same_positions(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    solve = ["dataset", GAME, "--positions", "10", "--out", "solved.parquet"]
    assert main(solve) == 0
    sets = [f"--set={each}" for each in (*TINY, "iterations=1")]
    command = ["tune", GAME, "--preset", "smoke", "--positions", "solved.parquet", "--folder", "t",
               "--trials", "1", *sets]  # fmt: skip
    assert main(command) == 0
    for path in tmp_path.glob("solved.parquet*"):
        path.unlink()
    assert main([*solve, "--seed", "1"]) == 0
    capsys.readouterr()
    assert main(command) == 2
    assert "positions_identity" in capsys.readouterr().err


def test_foreign_folder_is_not_changed(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    arguments = ["--objective", "loss", "--set", "learn.epochs=1..3", "--folder", str(tmp_path)]
    assert main(["tune", GAME, "--preset", "smoke", *arguments]) == 2
    assert "is not a tuning and not empty" in capsys.readouterr().err
    assert [path.name for path in Path(tmp_path).iterdir()] == ["notes.txt"]


def test_trials_are_not_pruned_before_a_quarter_of_their_length_is_done(tmp_path, positions):
    chosen = plan(*TINY, objective="accuracy", positions=positions)
    pruned_after = []

    def run(claimed):
        value = 0.5 if claimed.number < 6 else 0.4
        pruned_after.append([i for i in (1, 2) if claimed.record_and_should_prune(i, value, i / 7)])
        claimed.complete([value], {"hours": 1.0})

    work_on_trials(TrialStore(tmp_path, chosen), 7, run)
    assert pruned_after == [[]] * 6 + [[2]]


@pytest.mark.parametrize("ends_early", [False, True])
def test_share_that_is_done_belongs_to_the_trial(tmp_path, positions, monkeypatch, ends_early):
    stop = ["stop=spent", "stop.evaluations=1"] if ends_early else []
    chosen = plan(*TINY, "iterations=3..9", *stop, objective="accuracy", positions=positions)
    shares = []

    def record(claimed, iteration, objective, share):
        shares.append(share)
        return False

    monkeypatch.setattr(ClaimedTrial, "record_and_should_prune", record)
    work_on_trials(
        TrialStore(tmp_path, chosen), 1,
        lambda claimed: run_trial(claimed, chosen, tmp_path, display(NullReporter())),
    )  # fmt: skip
    count = RunFolder.open(trial_run_path(tmp_path, 0)).config["iterations"]
    if ends_early:
        (share,) = shares
        assert share > 1
    else:
        assert shares == pytest.approx([number / count for number in range(1, count + 1)])
