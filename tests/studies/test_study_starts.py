"""Runs of studies that start from the networks of other runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from in_process import Here

from studies.tiny_studies import Tiny, study_work_in
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, planned_run
from zerolab.studies.queues import RunQueue
from zerolab.studies.tasks import TrainTask, perform
from zerolab.training.configure import saved_settings
from zerolab.training.inputs import START_COPY, START_OPTIMIZER_COPY

SMALL = {
    "network": {
        "name": "fully_convolutional", "blocks": 1, "filters": 4, "head_filters": 2, "hidden": 3
    },
    "iterations": 1,
    "gate": "always",
}  # fmt: skip
SIZES = {f"network.{key}": value for key, value in SMALL["network"].items() if key != "name"}
TAKES = {**SIZES, "iterations": 1, "gate": "always"}


def scratch(seed=0):
    return planned_run("a", "gobang:3x3:3", "smoke", {"way": "scratch"}, SMALL, seed)


def started(way, game="gobang:4x4:3", start=None, part="b", **changes):
    taken = {**TAKES, "start.transfer": way, **changes}
    return planned_run(part, game, "smoke", {"way": way}, taken, start=start or scratch())


class Started(Tiny):
    """Runs that start from another one, which is planned after them in another part."""

    name = "started"

    def design(self, scale):
        frozen = replace(
            started("trunk", **{"learn.frozen": "trunk"}), factors={"way": "frozen", "seed": 0}
        )
        goes_on = started("all", "gobang:3x3:3")
        other = planned_run("c", "gobang:3x3:3", "smoke", {"way": "other"}, SMALL, seed=7)
        return Design([frozen, started("trunk"), goes_on, scratch(), other])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The finished study."""
    work = study_work_in(tmp_path_factory.mktemp("started"), Started())
    assert work.work(Here(), lambda view: None) == {}
    return work


def opened(work, way):
    (run,) = work.results().where(way=way)
    return RunFolder.open(run.path)


def test_network_0_is_made_of_the_final_network_of_the_other_run(done):
    source, run = opened(done, "scratch"), opened(done, "trunk")
    former, first = source.load_weights(source.progress.best), run.load_weights(0)
    trunk = [name for name in former if name.startswith("trunk.")]
    assert trunk
    assert all(np.array_equal(former[name], first[name]) for name in trunk)
    start = saved_settings(run).start
    assert start.source == scratch().key
    assert start.digest == source.weights_digest(source.progress.best)
    assert (start.iteration, start.game) == (source.progress.best, "gobang:3x3:3")
    assert run.source_path(START_COPY).is_file()
    assert not run.source_path(START_OPTIMIZER_COPY).exists()


def test_a_frozen_trunk_is_that_of_the_source_to_the_end(done):
    source, run = opened(done, "scratch"), opened(done, "frozen")
    former, last = (each.load_weights(each.progress.best) for each in (source, run))
    assert all(np.array_equal(former[name], last[name]) for name in former if "trunk." in name)


def test_a_full_transfer_within_a_game_takes_the_state_of_the_optimiser(done):
    source, run = opened(done, "scratch"), opened(done, "all")
    assert run.source_path(START_OPTIMIZER_COPY).is_file()
    best = source.progress.best
    former, first = source.load_weights(best), run.load_weights(0)
    assert all(np.array_equal(former[name], first[name]) for name in former)
    steps = [state for name, state in source.load_optimizer(best).items() if "step" in name]
    after = [state for name, state in run.load_optimizer(1).items() if "step" in name]
    assert steps and all((new > old).all() for old, new in zip(steps, after, strict=True))


def test_a_part_brings_the_runs_that_its_own_start_from():
    design = Started().design("smoke")
    chosen = design.only(["b"])
    assert [run.factors["way"] for run in chosen.runs] == ["frozen", "trunk", "all", "scratch"]
    assert [run.factors["way"] for run in design.only(["c"]).runs] == ["other"]
    chain = started("trunk", start=started("channels", start=scratch()), part="d")
    longer = Design([*design.runs, chain.start, chain])
    assert [run.factors["way"] for run in longer.only(["d"]).runs].count("scratch") == 1


def test_keys_follow_the_source_and_nothing_else(done):
    run = started("trunk")
    assert run.key == started("trunk", part="elsewhere").key
    assert run.key == started("trunk", start=scratch(0)).key
    others = [
        started("trunk", start=scratch(1)), started("channels"),
        started("trunk", **{"learn.frozen": "trunk"}),
    ]  # fmt: skip
    assert len({each.key for each in (run, *others)}) == 4
    # What was found out when the run began changes nothing: the folder is known by its key.
    assert done.folder.open_run(run) is not None


def test_sources_come_first_and_others_wait_for_them(tmp_path):
    work = study_work_in(tmp_path, Started())
    with work.folder.locked(work.design):
        runs = RunQueue(work.folder, work.design)
    assert runs.next(["b"]) is None
    assert runs.next(["a"]) is not None


def task_of(done, way, folder):
    """Return the task of a run, to be trained in a folder that has nothing else of the study."""
    run = next(each for each in done.design.runs if each.factors["way"] == way)
    sources = done.folder.read_sources(run)
    return TrainTask("b: x", run.key, str(folder / run.key), run.settings, sources=sources)


@pytest.mark.parametrize("way", ["trunk", "all"])
def test_a_run_that_is_killed_and_resumed_elsewhere_ends_equally(done, tmp_path, monkeypatch, way):
    class KilledError(BaseException):
        pass

    task, commit = task_of(done, way, tmp_path), RunFolder.commit

    def kill_after_commit(self, *arguments, **options):
        commit(self, *arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(RunFolder, "commit", kill_after_commit)
        task.run()
    run = RunFolder.open(tmp_path / task.key)
    assert len(run.metrics()) == 1
    assert perform(task).failure is None
    run, whole = RunFolder.open(tmp_path / task.key), opened(done, way)
    assert run.weights_digest(1) == whole.weights_digest(1)


def test_a_source_that_is_damaged_fails_those_that_start_from_it_alone(tmp_path):
    class Sources(Started):
        def design(self, scale):
            return Design(super().design(scale).runs[-2:-1])

    assert study_work_in(tmp_path, Sources()).work(Here(), lambda view: None) == {}
    run = opened(study_work_in(tmp_path, Sources()), "scratch")
    run.weights_path(run.progress.best).write_bytes(b"damaged")

    class All(Started):
        name = "all-started"

    work = study_work_in(tmp_path, All())
    failures = work.work(Here(), lambda view: None)
    assert sorted(failures) == ["b: all/seed=0", "b: frozen/seed=0", "b: trunk/seed=0"]
    assert all("is damaged" in lines[0] for lines in failures.values())
    assert {run.factors["way"] for run in work.results()} == {"scratch", "other"}


def test_an_optimiser_of_another_network_is_refused(done, tmp_path):
    task = task_of(done, "all", tmp_path)
    other = opened(done, "trunk")
    wrong = {**task.sources, START_OPTIMIZER_COPY: other.optimizer_path(1).read_bytes()}
    outcome = perform(replace(task, sources=wrong))
    assert "it is not of network 1 of gobang:3x3" in outcome.failure[0]


def test_a_part_that_does_not_exist_is_still_refused():
    with pytest.raises(UserError, match="unknown part"):
        Started().design("smoke").only(["d"])
