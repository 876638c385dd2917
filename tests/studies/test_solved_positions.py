"""Runs of studies that learn from solved positions, or are measured on them."""

from __future__ import annotations

import shutil

import pytest

from studies.tiny_studies import GAME, Tiny, study_work_in
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.positions import read_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, PlannedPositions, planned_run
from zerolab.studies.workers import LocalWorkers
from zerolab.training.configure import saved_settings
from zerolab.training.facts import file_settings
from zerolab.training.records import AccuracyRecord, SupervisedRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

ALL = PlannedPositions("all", GAME, 200, DatasetSettings(), 1.0)
FEW = PlannedPositions("few", GAME, 20, DatasetSettings(one_per_game=True), 1.0)
LITTLE = {"network.blocks": 1, "network.filters": 4, "search.simulations": 4}


class Solved(Tiny):
    """A run that is measured on solved positions, and in another part one that learns from some."""

    name = "solved"

    def design(self, scale):
        measured = planned_run(
            "play", GAME, "smoke", {"way": "play"}, {"accuracy.every": 1},
            positions={"accuracy.positions": FEW},
        )  # fmt: skip
        learnt = planned_run(
            "learn", GAME, "supervised", {"way": "learn"},
            {**LITTLE, "iterations": 1, "learn.schedule": "constant"},
            positions={"supervised.positions": ALL, "accuracy.positions": FEW},
        )  # fmt: skip
        return Design([measured, learnt])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    work = study_work_in(tmp_path_factory.mktemp("solved"), Solved())
    assert work.work(LocalWorkers(2), lambda view: None) == {}
    return work


def test_positions_are_planned_once_in_the_part_that_needs_them_first():
    design = Solved().design("smoke")
    assert [each.title for each in design.positions] == [
        "play: positions few",
        "learn: positions all",
    ]
    assert [each.title for each in design.only(["learn"]).positions] == [
        "learn: positions all",
        "learn: positions few",
    ]
    assert FEW.key != ALL.key


def test_runs_wait_for_their_positions_and_use_them(done):
    view = done.progress()
    assert (view.computations, view.finished_computations, view.is_unfinished) == (2, 2, False)
    played, learnt = done.results().runs
    assert [record.positions for record in played.of(AccuracyRecord)] == [20, 20]
    saved = saved_settings(RunFolder.open(learnt.path)).supervised.digest
    kept = RunFolder.open(learnt.path).positions_path(ALL.file)
    assert saved == file_settings(kept)["supervised.digest"]
    parts = {record.part: record.positions for record in learnt.of(SupervisedRecord)}
    assert 0 < parts["validation"] < 100 > parts["test"] > 0


def test_a_run_keeps_its_positions_wherever_it_is_moved(done, tmp_path):
    played = done.results().runs[0]
    shutil.copytree(played.path, tmp_path / "moved")
    run = RunFolder.open(tmp_path / "moved")
    path = run.positions_path(saved_settings(run).accuracy.positions)
    assert path.is_relative_to(tmp_path)
    assert len(read_positions(path, parse_game(GAME))[0]) == 20
    settings = saved_settings(run).model_copy(update={"iterations": 3})
    with run.locked():
        Trainer(run, settings).train()
    records = [each for each in read_records(run) if isinstance(each, AccuracyRecord)]
    assert [record.iteration for record in records] == [1, 2, 3]


def test_positions_that_cannot_be_made_fail_alone(tmp_path):
    class Hopeless(Solved):
        def design(self, scale):
            short = PlannedPositions("late", GAME, 5, DatasetSettings(first_ply=9), 1.0)
            run = planned_run(
                "play", GAME, "smoke", {"way": "play"}, {"accuracy.every": 1},
                positions={"accuracy.positions": short},
            )  # fmt: skip
            return Design([run])

    work = study_work_in(tmp_path, Hopeless())
    failures = work.work(LocalWorkers(1), lambda view: None)
    assert list(failures) == ["play: positions late"]
    assert "may be over before ply 9" in " ".join(failures["play: positions late"])
    assert work.progress().finished_runs == 0
