"""The strength benchmark: equal training times, single measurements and the report."""

from __future__ import annotations

import json
import shutil

import pytest

from zerolab.bench import strength_benchmark, strength_report
from zerolab.bench.benchmarks import STRENGTH_VARIANTS, StrengthSettings
from zerolab.bench.strength_benchmark import select_due_checkpoints, timed_checkpoints
from zerolab.bench.strength_report import AccuracyLog, CheckpointAccuracy, TimedCheckpoint
from zerolab.cli.main import main
from zerolab.report import figures
from zerolab.report.table import wilson_interval
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import STOP_RULES

TINY = (
    "selfplay.mode=episodic", "selfplay.episodes=4", "search.simulations=4",
    "network.blocks=1", "network.filters=8", "learn.batch_size=8",
)  # fmt: skip


def command(folder, *more, hours="0.000001"):
    sets = [f"--set={each}" for each in TINY]
    options = ["--game", "connect_four:4x4", "--hours", hours, "--positions", "20"]
    return main(["bench", "strength", *more, "--folder", str(folder), "--seeds", "1",
                 "--simulations", "8", *options, *sets])  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strength") / "bench"
    assert command(folder, "plain", "--json") == 0
    return folder


@pytest.fixture
def no_figures(monkeypatch):
    """Save figures as empty files, because drawing one takes most of a second."""
    monkeypatch.setattr(figures, "figure_bytes", lambda figure, file_format: b"")


def test_every_variant_is_valid_with_preset():
    for name, variant in STRENGTH_VARIANTS.items():
        assert resolve_settings("connect_four:6x7", variant.preset, variant.changes), name


@pytest.mark.parametrize(
    "stop", [["stop=hours", "stop.hours=7"], ["stop=spent", "stop.evaluations=5"]]
)
def test_hours_of_the_benchmark_replace_those_of_the_settings(stop):
    settings = StrengthSettings(variants=("strong-hour",), hours=0.5, changes=tuple(stop))
    changes = strength_benchmark._changes("strong-hour", 0, settings)
    resolved = resolve_settings("connect_four:6x7", "strong-hour", changes)
    assert resolved.stop == STOP_RULES["hours"](hours=0.5)


def test_run_ends_after_iteration_that_exceeds_its_time(folder):
    run = RunFolder.open(folder / "runs" / "plain-0")
    assert run.network_iterations() == [0, 1]
    assert [each.network for each in timed_checkpoints(run)] == [1]
    assert (run.progress.iteration, run.progress.stage) == (2, "selfplay")


@pytest.mark.usefixtures("no_figures")
def test_rejected_candidate_is_not_measured(tmp_path):
    strict = "gate={name='los', games=2}"  # impossible to pass with two games
    assert command(tmp_path, "plain", f"--set={strict}") == 0
    run = RunFolder.open(tmp_path / "runs" / "plain-0")
    assert [each.network for each in timed_checkpoints(run)] == [0]
    assert [each.network for each in AccuracyLog(tmp_path / "accuracy.jsonl").entries] == [0]
    assert command(tmp_path, "plain", f"--set={strict}", hours="0.00001") == 0
    first, second = AccuracyLog(tmp_path / "accuracy.jsonl").entries
    assert second == first.model_copy(update={"due": 1e-5, "hours": second.hours})
    assert second.hours >= first.hours


@pytest.mark.usefixtures("no_figures")
def test_preset_whose_schedule_spans_the_run_ends_itself(tmp_path, capsys):
    progressive = "--set=selfplay.progressive.first=2"
    assert command(tmp_path, "strong-hour", progressive, "--json") == 0
    run = RunFolder.open(tmp_path / "runs" / "strong-hour-0")
    assert run.config["stop"] == {"name": "hours", "hours": 1e-6}
    assert (run.network_iterations(), run.progress.finished) == ([0, 1], True)
    (point,) = json.loads(capsys.readouterr().out)["strong-hour"]
    assert point["runs"] == 1
    assert command(tmp_path, "strong-hour", progressive, hours="0.1") == 2
    assert "strong-hour runs in" in capsys.readouterr().err
    assert command(tmp_path, "strong-hour", progressive) == 0  # nothing has changed


def test_table_and_figure_are_written(folder):
    assert (folder / "strength.png").read_bytes().startswith(b"\x89PNG")
    assert "| plain |" in (folder / "strength.md").read_text()


def test_repeated_command_trains_and_measures_nothing(folder, capsys):
    before = (folder / "accuracy.jsonl").read_bytes()
    assert command(folder, "plain", "--json") == 0
    assert (folder / "accuracy.jsonl").read_bytes() == before
    points = json.loads(capsys.readouterr().out)["plain"]
    assert [point["runs"] for point in points] == [1]


@pytest.mark.usefixtures("no_figures")
def test_variants_can_be_added_but_settings_cannot_change(folder, tmp_path, capsys):
    folder = shutil.copytree(folder, tmp_path / "bench")
    assert command(folder, "plain", "root-value") == 0
    assert {each.variant for each in AccuracyLog(folder / "accuracy.jsonl").entries} == {
        "plain", "root-value",
    }  # fmt: skip
    assert command(folder, "plain") == 0  # the other variant stays in the results
    assert "| root-value |" in (folder / "strength.md").read_text()
    assert command(folder, "plain", "--every", "3") == 2
    assert "every = 3.0 differs from 0.1" in capsys.readouterr().err
    assert command(folder, "plain", hours="0.0000001") == 2
    assert "hours = 1e-07" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["discont"], 'unknown variant "discont"'),
        (["--hours", "0"], "hours = 0.0: expected more than 0"),
        (["--set", "search.simulation=3"], "search.simulations"),
        (["--test-search", "selection.d=1"], "selection.d"),
        (["--game", "chess"], "chess"),
        (["strong-huor"], 'did you mean "strong-hour"?'),
        (["supervised"], 'unknown variant "supervised"'),
    ],
)
def test_mistakes_print_one_line(tmp_path, capsys, arguments, expected):
    assert main(["bench", "strength", "--folder", str(tmp_path / "b"), *arguments]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


def test_spaced_chooses_first_checkpoint_after_each_step():
    available = [
        TimedCheckpoint(n, hours) for n, hours in enumerate((0.04, 0.09, 0.11, 0.15, 0.32, 0.35))
    ]
    chosen = [(each.network, each.due) for each in select_due_checkpoints(available, 0.1, 0.35)]
    assert chosen == [(2, 0.1), (4, 0.3), (5, 0.35)]
    assert [each.network for each in select_due_checkpoints(available, 0.1, 0.3)] == [2, 4]
    assert select_due_checkpoints([], 0.1, 1.0) == []
    ended = select_due_checkpoints(available, 0.2, 0.4, is_finished=True)
    assert [(each.network, each.due) for each in ended] == [(4, 0.2), (5, 0.4)]
    assert select_due_checkpoints([], 0.1, 1.0, is_finished=True) == []


def test_points_are_means_over_runs_with_position_intervals():
    def measurement(seed, due, hours, strong):
        share = {"mean": strong, "low": 0.0, "high": 1.0}
        shares = dict.fromkeys(("strong", "weak", "network_strong", "network_weak"), share)
        return CheckpointAccuracy(
            variant="plain", seed=seed, network=1, due=due, hours=hours, **shares
        )

    settings = StrengthSettings(variants=("plain",), every=0.1, positions=1000)
    points = strength_report.strength_curves(
        [
            measurement(0, 0.2, 0.21, 0.8),
            measurement(1, 0.2, 0.29, 0.9),
            measurement(0, 0.4, 0.4, 0.95),
        ],
        settings,
    )["plain"]
    assert [(point.hours, point.run_count) for point in points] == [(0.25, 2), (0.4, 1)]
    assert [point.strong_accuracy_by_run for point in points] == [(0.8, 0.9), (0.95,)]
    share = points[0].accuracies["strong"]
    assert share == pytest.approx(wilson_interval(0.85, 1000))
