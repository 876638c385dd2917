"""Study runs that learn from solved positions or are evaluated on them."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest

from studies.in_process import Reusing
from studies.tiny_studies import GAME, Tiny, execution_in, finished_run
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.positions import read_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.folder import lock_folder
from zerolab.store.run_folder import RunFolder
from zerolab.studies import queues
from zerolab.studies.design import Design, PlannedDataset, plan_run
from zerolab.studies.execution import StudyExecution
from zerolab.studies.tasks import LocalWorkers
from zerolab.training.configure import saved_settings
from zerolab.training.records import AccuracyRecord, HeldOutRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer
from zerolab.training.window_facts import solved_file_settings

ALL = PlannedDataset("all", GAME, 200, DatasetSettings(), 1.0)
FEW = PlannedDataset("few", GAME, 20, DatasetSettings(one_per_game=True), 1.0)
LITTLE = {"network.blocks": 1, "network.filters": 4, "search.simulations": 4}


class Solved(Tiny):
    """One run evaluated on solved positions, and one in another part that learns from them."""

    name = "solved"

    def design(self, scale, seeds):
        measured = plan_run(
            "play", GAME, "smoke", {"way": "play"}, {"accuracy.every": 1},
            datasets={"accuracy.positions": FEW},
        )  # fmt: skip
        learnt = plan_run(
            "learn", GAME, "supervised", {"way": "learn"},
            {**LITTLE, "iterations": 1, "learn.schedule": "constant"},
            datasets={"supervised.positions": ALL, "accuracy.positions": FEW},
        )  # fmt: skip
        return Design([measured, learnt])


@pytest.fixture(scope="module")
def finished_execution(tmp_path_factory):
    execution = execution_in(tmp_path_factory.mktemp("solved"), Solved())
    assert execution.perform_all(LocalWorkers(2), lambda view: None) == {}
    return execution


def test_positions_are_planned_once_in_the_first_part_that_needs_them():
    design = Solved().planned_design("smoke")
    assert [computation.title for computation in design.datasets] == [
        "play: positions few",
        "learn: positions all",
    ]
    assert [
        computation.title for computation in design.restricted_to_parts(["learn"]).datasets
    ] == [
        "learn: positions all",
        "learn: positions few",
    ]
    assert FEW.key != ALL.key


def test_data_set_of_another_process_is_awaited(tmp_path):
    execution = StudyExecution.plan(Solved(), "smoke", tmp_path, ["play"])
    path = execution.folder.dataset_path(FEW)
    parts = path.with_name(f"{path.name}.parts")
    parts.mkdir(parents=True)
    waiting = []
    with ExitStack() as other_process:
        other_process.enter_context(lock_folder(parts))

        def on_progress(view):
            waiting.extend(view.active_titles)
            if "waiting for play: positions few (another process)" in view.active_titles:
                other_process.close()

        assert execution.perform_all(Reusing(), on_progress) == {}
    assert "waiting for play: positions few (another process)" in waiting
    assert not execution.progress().is_unfinished
    assert path.exists()
    assert not parts.exists()


def test_runs_wait_for_their_positions_and_use_them(finished_execution):
    view = finished_execution.progress()
    assert (view.planned_computations, view.finished_computations, view.is_unfinished) == (
        2,
        2,
        False,
    )
    played, learnt = finished_execution.results().runs
    assert [record.positions for record in played.records_of(AccuracyRecord)] == [20, 20]
    saved = saved_settings(finished_run(finished_execution, learnt)).supervised.digest
    copy = finished_run(finished_execution, learnt).solved_positions_path(ALL.file_name)
    assert saved == solved_file_settings(copy)["supervised.digest"]
    parts = {record.part: record.positions for record in learnt.records_of(HeldOutRecord)}
    assert 0 < parts["validation"] < 100 > parts["test"] > 0


def test_moved_run_keeps_its_positions(finished_execution, tmp_path):
    played = finished_execution.results().runs[0]
    shutil.copytree(finished_run(finished_execution, played).path, tmp_path / "moved")
    run = RunFolder.open(tmp_path / "moved")
    path = run.solved_positions_path(saved_settings(run).accuracy.positions)
    assert path.is_relative_to(tmp_path)
    assert len(read_positions(path, parse_game(GAME))[0]) == 20
    settings = saved_settings(run).model_copy(update={"iterations": 3})
    with run.locked():
        Trainer(run, settings).train()
    records = [entry for entry in read_records(run) if isinstance(entry, AccuracyRecord)]
    assert [record.iteration for record in records] == [1, 2, 3]


def test_impossible_positions_are_reported(tmp_path):
    class Impossible(Solved):
        def design(self, scale, seeds):
            short = PlannedDataset("late", GAME, 5, DatasetSettings(first_ply=9), 1.0)
            run = plan_run(
                "play", GAME, "smoke", {"way": "play"}, {"accuracy.every": 1},
                datasets={"accuracy.positions": short},
            )  # fmt: skip
            return Design([run])

    execution = execution_in(tmp_path, Impossible())
    failures = execution.perform_all(LocalWorkers(1), lambda view: None)
    assert list(failures) == ["play: positions late"]
    assert "before ply 9" in " ".join(failures["play: positions late"])
    assert execution.progress().finished_runs == 0


def test_progress_includes_positions_that_are_already_stored(tmp_path, monkeypatch):
    execution = execution_in(tmp_path, Solved())
    assert execution.progress().finished_core_seconds == pytest.approx(0.0)
    monkeypatch.setattr(queues, "stored_share", lambda path, positions: positions / 400)
    expected = 200 / 400 * ALL.estimated_seconds + 20 / 400 * FEW.estimated_seconds
    assert execution.progress().finished_core_seconds == pytest.approx(expected)
