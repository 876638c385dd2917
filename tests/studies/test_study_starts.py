"""Study runs that start from the networks of other runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from in_process import Here

from studies.tiny_studies import Tiny, execution_in, finished_run
from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import Design, plan_run
from zerolab.studies.queues import RunQueue
from zerolab.studies.tasks import CompileTask, TrainTask, perform_task
from zerolab.training.configure import saved_settings
from zerolab.training.inputs import START_NETWORK_FILE_NAME, START_OPTIMIZER_FILE_NAME

SMALL = {
    "network": {
        "name": "fully_convolutional", "blocks": 1, "filters": 4, "head_filters": 2, "hidden": 3
    },
    "iterations": 1,
    "gate": "always",
}  # fmt: skip
SIZES = {f"network.{key}": value for key, value in SMALL["network"].items() if key != "name"}
TRANSFER_CHANGES = {**SIZES, "iterations": 1, "gate": "always"}


def scratch(seed=0):
    return plan_run("a", "gobang:3x3:3", "smoke", {"way": "scratch"}, SMALL, seed)


def run_from_start(way, game="gobang:4x4:3", start=None, part="b", **changes):
    changed_settings = {**TRANSFER_CHANGES, "start.transfer": way, **changes}
    return plan_run(
        part, game, "smoke", {"way": way}, changed_settings, start_run=start or scratch()
    )


class Started(Tiny):
    """Runs that start from another run, which is planned after them in another part."""

    name = "started"

    def design(self, scale, seeds):
        frozen = replace(
            run_from_start("trunk", **{"learn.frozen": "trunk"}),
            factors={"way": "frozen", "seed": 0},
        )
        continuation = run_from_start("all", "gobang:3x3:3")
        other = plan_run("c", "gobang:3x3:3", "smoke", {"way": "other"}, SMALL, seed=7)
        return Design([frozen, run_from_start("trunk"), continuation, scratch(), other])


@pytest.fixture(scope="module")
def finished_execution(tmp_path_factory):
    """Finished study."""
    execution = execution_in(tmp_path_factory.mktemp("started"), Started())
    assert execution.perform_all(Here(), lambda view: None) == {}
    return execution


def opened(execution, way):
    (run,) = execution.results().runs_where(way=way)
    return finished_run(execution, run)


def test_network_0_has_transferred_weights(finished_execution):
    source, run = opened(finished_execution, "scratch"), opened(finished_execution, "trunk")
    former, first = source.load_weights(source.progress.best), run.load_weights(0)
    trunk = [name for name in former if name.startswith("trunk.")]
    assert trunk
    assert all(np.array_equal(former[name], first[name]) for name in trunk)
    start = saved_settings(run).start
    assert start.source == scratch().key
    assert start.digest == source.weights_digest(source.progress.best)
    assert (start.iteration, start.game) == (source.progress.best, "gobang:3x3:3")
    assert run.path_of_copy_from_source_run(START_NETWORK_FILE_NAME).is_file()
    assert not run.path_of_copy_from_source_run(START_OPTIMIZER_FILE_NAME).exists()


def test_frozen_trunk_stays_that_of_the_source(finished_execution):
    source, run = opened(finished_execution, "scratch"), opened(finished_execution, "frozen")
    former, last = (item.load_weights(item.progress.best) for item in (source, run))
    assert all(np.array_equal(former[name], last[name]) for name in former if "trunk." in name)


def test_full_transfer_within_a_game_includes_optimizer_state(finished_execution):
    source, run = opened(finished_execution, "scratch"), opened(finished_execution, "all")
    assert run.path_of_copy_from_source_run(START_OPTIMIZER_FILE_NAME).is_file()
    best = source.progress.best
    former, first = source.load_weights(best), run.load_weights(0)
    assert all(np.array_equal(former[name], first[name]) for name in former)
    steps = [state for name, state in source.load_optimizer_state(best).items() if "step" in name]
    after = [state for name, state in run.load_optimizer_state(1).items() if "step" in name]
    assert steps and all((new > old).all() for old, new in zip(steps, after, strict=True))


def test_selected_part_includes_source_runs():
    design = Started().planned_design("smoke")
    chosen = design.restricted_to_parts(["b"])
    assert [run.factors["way"] for run in chosen.runs] == ["frozen", "trunk", "all", "scratch"]
    assert [run.factors["way"] for run in design.restricted_to_parts(["c"]).runs] == ["other"]
    chain = run_from_start("trunk", start=run_from_start("channels", start=scratch()), part="d")
    longer = Design([*design.runs, chain.start_run, chain])
    assert [run.factors["way"] for run in longer.restricted_to_parts(["d"]).runs].count(
        "scratch"
    ) == 1


def test_keys_depend_only_on_settings_and_source(finished_execution):
    run = run_from_start("trunk")
    assert run.key == run_from_start("trunk", part="elsewhere").key
    assert run.key == run_from_start("trunk", start=scratch(0)).key
    others = [
        run_from_start("trunk", start=scratch(1)), run_from_start("channels"),
        run_from_start("trunk", **{"learn.frozen": "trunk"}),
    ]  # fmt: skip
    assert len({each.key for each in (run, *others)}) == 4
    # Values resolved at the start of a run do not change its key.
    assert finished_execution.folder.open_run(run) is not None


def test_sources_are_queued_first(tmp_path):
    execution = execution_in(tmp_path, Started())
    sources = {run.start_run.key for run in execution.design.runs if run.start_run is not None}
    runs = RunQueue(execution.folder, execution.design)
    first = set()
    while (task := runs.next_task()) is not None:
        if isinstance(task, CompileTask):
            runs.mark_compiled(task)
        else:
            first.add(task.key)
    assert sources <= first
    assert all(run.start_run is None for run in execution.design.runs if run.key in first), (
        "a run began before its source was trained"
    )


def task_of(finished_execution, way, folder):
    """Return the task that trains a run in an otherwise empty folder."""
    run = next(item for item in finished_execution.design.runs if item.factors["way"] == way)
    sources = finished_execution.folder.read_source_files(run)
    return TrainTask("b: x", run.key, str(folder / run.key), run.settings, source_files=sources)


@pytest.mark.parametrize("way", ["trunk", "all"])
def test_killed_run_resumes_elsewhere_to_the_same_weights(
    finished_execution, tmp_path, monkeypatch, way
):
    class KilledError(BaseException):
        pass

    task, commit = task_of(finished_execution, way, tmp_path), RunFolder.commit

    def kill_after_commit(self, *arguments, **options):
        commit(self, *arguments, **options)
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(RunFolder, "commit", kill_after_commit)
        task.perform()
    run = RunFolder.open(tmp_path / task.key)
    assert len(run.metrics()) == 1
    assert perform_task(task).error_lines is None
    run, uninterrupted = RunFolder.open(tmp_path / task.key), opened(finished_execution, way)
    assert run.weights_digest(1) == uninterrupted.weights_digest(1)


def test_damaged_source_fails_only_runs_that_start_from_it(tmp_path):
    class Sources(Started):
        def design(self, scale, seeds):
            return Design(super().design(scale, seeds).runs[-2:-1])

    assert execution_in(tmp_path, Sources()).perform_all(Here(), lambda view: None) == {}
    run = opened(execution_in(tmp_path, Sources()), "scratch")
    run.weights_path(run.progress.best).write_bytes(b"damaged")

    class All(Started):
        name = "all-started"

    execution = execution_in(tmp_path, All())
    failures = execution.perform_all(Here(), lambda view: None)
    assert sorted(failures) == ["b: all/seed=0", "b: frozen/seed=0", "b: trunk/seed=0"]
    assert all("is damaged" in lines[0] for lines in failures.values())
    assert {run.factors["way"] for run in execution.results()} == {"other"}


def test_optimizer_of_another_network_is_refused(finished_execution, tmp_path):
    task = task_of(finished_execution, "all", tmp_path)
    other = opened(finished_execution, "trunk")
    wrong = {**task.source_files, START_OPTIMIZER_FILE_NAME: other.optimizer_path(1).read_bytes()}
    outcome = perform_task(replace(task, source_files=wrong))
    assert "network 1 of gobang:3x3" in outcome.error_lines[0]


def test_unknown_part_is_refused():
    with pytest.raises(UserError, match="unknown part"):
        Started().planned_design("smoke").restricted_to_parts(["d"])
