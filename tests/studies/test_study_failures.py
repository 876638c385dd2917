"""Failed and damaged runs, tournaments and computations of studies."""

from __future__ import annotations

import math
import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from in_process import Reusing
from tiny_studies import Small, Tiny, execution_in, planned

from zerolab.core.errors import UserError, quoted
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, PlannedComputation
from zerolab.studies.execution import StudyExecution
from zerolab.studies.tasks import CompileTask, TaskOutcome, TrainTask


def test_failed_run_is_listed_and_others_continue(tmp_path):
    small = execution_in(tmp_path, Small())
    path = small.folder.run_path(small.design.runs[0])
    path.mkdir(parents=True)
    (path / "letter").write_text("mine")
    failures = small.perform_all(Reusing(), lambda view: None)
    assert list(failures) == ["a: sum/seed=100"]
    assert "not a run and not empty" in failures["a: sum/seed=100"][0]
    results = small.results()
    assert [run.planned.label for run in results] == ["value/seed=100"]
    assert (
        results.unfinished_message() == "1 of 2 runs is not finished; tournaments not finished: a"
    )
    (path / "letter").unlink()
    assert small.perform_all(Reusing(), lambda view: None) == {}
    assert not small.results().unfinished_message()


def test_run_whose_settings_contradict_its_name_is_refused(tmp_path):
    small = execution_in(tmp_path, Small())
    one, other = small.design.runs
    RunFolder.create(small.folder.run_path(one), other.settings.model_dump())
    failures = small.perform_all(Reusing(), lambda view: None)
    assert "remove it" in failures["a: sum/seed=100"][0]
    assert small.progress().finished_runs == 1


def test_damaged_run_is_listed_and_others_count(tmp_path):
    small = execution_in(tmp_path, Small())
    assert small.perform_all(Reusing(), lambda view: None) == {}
    state = small.folder.run_path(small.design.runs[0]) / "state.json"
    state.write_text(state.read_text()[:50])
    assert small.progress().finished_runs == 1
    assert [run.planned.label for run in small.results()] == ["value/seed=100"]
    failures = small.perform_all(Reusing(), lambda view: None)
    assert list(failures) == ["a: sum/seed=100"]
    assert "is damaged" in failures["a: sum/seed=100"][0]


def test_run_with_damaged_metrics_does_not_count(tmp_path):
    small = execution_in(tmp_path, Small())
    assert small.perform_all(Reusing(), lambda view: None) == {}
    metrics = small.folder.run_path(small.design.runs[0]) / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-20])
    assert [run.planned.label for run in small.results()] == ["value/seed=100"]
    assert list(small.perform_all(Reusing(), lambda view: None)) == ["a: sum/seed=100"]


def test_trained_run_that_cannot_be_read_has_failed(tmp_path):
    small = execution_in(tmp_path, Small())
    metrics = small.folder.run_path(small.design.runs[0]) / "metrics.jsonl"

    class Damaging(Reusing):
        def submit(self, task):
            super().submit(task)
            if isinstance(task, TrainTask) and task.key == small.design.runs[0].key:
                metrics.write_bytes(b"")

    failures = small.perform_all(Damaging(), lambda view: None)
    assert list(failures) == ["a: sum/seed=100"]
    assert "is damaged" in failures["a: sum/seed=100"][0]


def test_failures_of_other_parts_are_kept(tmp_path):
    class Halves(Tiny):
        def design(self, scale, seeds):
            return Design([planned("sum", 100, part="a"), planned("value", 100, part="b")])

    class Broken(Reusing):
        def submit(self, task):
            self.done.append(TaskOutcome(task, error_lines=["broken"]))

    for part in ("a", "b"):
        StudyExecution.plan(Halves(), "smoke", tmp_path, [part]).perform_all(
            Broken(), lambda view: None
        )
    halves = execution_in(tmp_path, Halves())
    listed = {name for name in halves.folder.read_failures() if "kernels" not in name}
    assert listed == {"a: sum/seed=100", "b: value/seed=100"}
    status = halves.status()
    assert status["failures"] == halves.folder.read_failures()
    assert status["failed_count"] == len(status["failures"])
    assert [part["failed_count"] for part in status["parts"]] == [
        sum(name.startswith(f"{part}:") for name in status["failures"]) for part in "ab"
    ]
    assert halves.perform_all(Reusing(), lambda view: None) == {}
    assert halves.folder.read_failures() == {}


def test_obsolete_failures_are_forgotten(tmp_path):
    class Uncompiled(Reusing):
        """Workers whose compile tasks fail, so that runs compile their own kernels."""

        def submit(self, task):
            if isinstance(task, CompileTask):
                self.done.append(TaskOutcome(task, error_lines=["broken"]))
            else:
                super().submit(task)

    small = execution_in(tmp_path, Small())
    assert small.perform_all(Uncompiled(), lambda view: None)
    assert small.folder.read_failures()
    assert not small.progress().is_unfinished
    small.forget_failures()
    assert small.folder.read_failures() == {}


def test_damaged_failure_list_is_ignored(tmp_path):
    small = execution_in(tmp_path, Small())
    small.create_folder()
    (small.folder.path / "failures.json").write_text('{"a: sum/seed=100": 5')
    assert small.status()["failures"] == {}
    assert small.perform_all(Reusing(), lambda view: None) == {}
    assert (small.folder.path / "failures.json").read_text() == "{}\n"


def test_damaged_tournament_is_listed(tmp_path):
    small = execution_in(tmp_path, Small())
    assert small.perform_all(Reusing(), lambda view: None) == {}
    store = small.folder.tournament_path(small.design.tournaments[0]) / "games.sqlite"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE games SET result = -result")
    results = small.results()
    assert not results.tournaments
    assert [str(store) in message for message in results.exclusion_messages] == [True]
    store.write_bytes(b"not a database at all")
    assert small.progress().is_unfinished
    assert small.progress().finished_runs == 2
    failures = small.perform_all(Reusing(), lambda view: None)
    assert list(failures) == ["a: games"]
    assert small.results().unfinished_message() == "tournaments not finished: a"
    store.unlink()
    assert small.perform_all(Reusing(), lambda view: None) == {}
    assert not small.results().unfinished_message()


def table(value):
    return {"value": value}


def test_damaged_computation_result_is_listed(tmp_path):
    function = f"{table.__module__}:{table.__name__}"
    planned = [
        PlannedComputation("a", label, function, {"value": value}, estimated_seconds=1.0)
        for value, label in enumerate("xy", start=1)
    ]

    class Computing(Tiny):
        def design(self, scale, seeds):
            return Design([], computations=planned)

    done = execution_in(tmp_path, Computing())
    assert done.perform_all(Reusing(), lambda view: None) == {}
    assert done.results().computation_results == {"a: x": {"value": 1.0}, "a: y": {"value": 2.0}}
    damaged = tmp_path / "computed" / f"{planned[0].key}.json"
    damaged.write_text(damaged.read_text()[:30])
    assert done.progress().finished_computations == 1
    assert list(done.results().computation_results) == ["a: y"]
    failures = done.perform_all(Reusing(), lambda view: None)
    assert list(failures) == ["a: x"]
    assert "is damaged" in failures["a: x"][0]
    damaged.unlink()
    assert done.perform_all(Reusing(), lambda view: None) == {}
    assert done.results().computation_results["a: x"] == {"value": 1.0}


def test_study_in_a_run_folder_is_refused(tmp_path):
    run = RunFolder.create(tmp_path / "run", planned("sum", 100).settings.model_dump())
    before = sorted(run.path.rglob("*"))
    with pytest.raises(UserError, match="run is a run: choose another --folder"):
        execution_in(run.path, Small()).progress()
    assert sorted(run.path.rglob("*")) == before


@pytest.mark.parametrize("spec", ["mcts:2?selection.c=2", "mcst:2"])
def test_agent_that_is_not_its_name_is_refused_before_any_work(tmp_path, spec):
    class Misnamed(Small):
        def design(self, scale, seeds):
            design = super().design(scale, seeds)
            tournaments = [replace(design.tournaments[0], agent_specs=[spec])]
            return replace(design, tournaments=tournaments)

    execution = execution_in(tmp_path, Misnamed())
    with pytest.raises(UserError, match=re.escape(quoted(spec))):
        execution.perform_all(Reusing(), lambda view: None)
    assert not (tmp_path / "runs").exists()


def test_measurement_that_is_not_json_is_listed(tmp_path):
    class Unmeasurable(Small):
        measurement_version = 1

        def measure_run(self, run):
            return {"regret": math.nan}

    execution = execution_in(tmp_path, Unmeasurable())
    assert not execution.perform_all(Reusing(), lambda view: None)
    results = execution.results()
    assert not results.runs
    messages = results.exclusion_messages
    assert [message.partition(": Out of range")[0] for message in messages] == [
        "a: sum/seed=100", "a: value/seed=100",
    ]  # fmt: skip
