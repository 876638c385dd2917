"""Execution of studies: shared runs, waiting, progress and results."""

from __future__ import annotations

import ast
import inspect
import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pytest
from in_process import Reusing
from tiny_studies import GAME, Small, Tiny, execution_in, finished_run, planned

from promised import contents, differences
from zerolab.core.code_digests import software_versions
from zerolab.core.errors import UserError
from zerolab.core.resources import processor_model
from zerolab.store.run_folder import RunFolder
from zerolab.studies import execution, scheduler, tasks
from zerolab.studies.cost_model import estimate_work
from zerolab.studies.design import Design, PlannedTournament
from zerolab.studies.execution import StudyExecution, StudyStorage
from zerolab.studies.queues import RunQueue
from zerolab.studies.results import provenance, timing_caveat
from zerolab.studies.tasks import CompileTask, TaskOutcome, TrainTask


def test_finished_study_is_read_from_disk(undisturbed):
    view = undisturbed.progress()
    assert (view.finished_runs, view.planned_runs) == (4, 4)
    assert (view.finished_games, view.planned_games) == (40, 40)
    assert view.finished_core_seconds == pytest.approx(view.planned_core_seconds)
    results = undisturbed.results()
    assert [run.planned.label for run in results] == [
        "sum/seed=100", "sum/seed=101", "value/seed=100", "value/seed=101",
    ]  # fmt: skip
    assert not results.unfinished_message()
    played = results.tournaments["a"]
    assert {rating.player for rating in played.ratings["a"].player_ratings} == {
        *(run.planned.label for run in results), "random",
    }  # fmt: skip
    rated = played.final_rating(results.runs[2])
    assert rated.player == "value/seed=100"
    assert len(results.runs_where(loss="value")) == 2
    assert results.planned_levels("loss") == ["sum", "value"]


def test_workers_import_slow_modules_when_they_start():
    """Workers are forked from a server with these modules, which tasks import in functions."""
    functions = [
        node for node in ast.walk(ast.parse(inspect.getsource(tasks)))
        if isinstance(node, ast.FunctionDef)
    ]  # fmt: skip
    imported_by_tasks = {
        node.module
        for function in functions for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
    }  # fmt: skip
    assert imported_by_tasks
    assert {tasks.__name__, *imported_by_tasks} == set(tasks._IMPORTS)


def test_provenance_combines_environments_of_runs(tmp_path):
    small = execution_in(tmp_path, Small())
    assert small.perform_all(Reusing(), lambda view: None) == {}
    here = provenance(small.results())
    assert here.versions == software_versions()
    assert here.machine.startswith(f"{processor_model()}, ")
    assert here.machine.endswith(" per run")
    path = small.folder.run_path(small.design.runs[0]) / "environment.json"
    (environment,) = json.loads(path.read_text())["environments"]
    other = {**environment, "torch": "0.1", "device": "GPU Y", "processor": "Z", "threads": 3,
             "precision": "float16"}  # fmt: skip
    path.write_text(json.dumps({"schema_version": 1, "environments": [other]}))
    both = provenance(small.results())
    assert both.versions == {**software_versions(), "torch": f"0.1 and {environment['torch']}"}
    assert both.machine == f"Z, GPU Y, float16, 3 cores per run and {here.machine}"
    path.write_text("damaged")
    assert provenance(small.results()).machine == here.machine


def test_finished_study_submits_no_task(undisturbed):
    class Idle(Reusing):
        def submit(self, task):
            raise AssertionError(f"{task.title} was done before")

    assert undisturbed.perform_all(Idle(), lambda view: None) == {}


def test_times_and_losses_agree_with_records(undisturbed):
    run = undisturbed.results().runs[0]
    lines = finished_run(undisturbed, run).metrics()
    selfplay = [line for line in lines if line["stage"] == "selfplay"]
    assert run.seconds_by_stage["selfplay"] == pytest.approx(
        sum(line["wall_processor_seconds"] for line in selfplay)
    )
    durations = sum(line["wall_seconds"] for line in selfplay)
    earlier_version = [
        record.model_copy(update={"wall_processor_seconds": None}) for record in run.records
    ]
    resumed = [*earlier_version[:1], *run.records[1:]]
    for records in (earlier_version, resumed):
        former = replace(run, records=records)
        assert former.seconds_by_stage["selfplay"] == pytest.approx(durations)
    assert len(run.epoch_losses) == len(run.last_epoch_losses) == 2
    assert [epochs[-1] for epochs in run.epoch_losses] == run.last_epoch_losses
    assert run.training_elos[-1] == finished_run(undisturbed, run).progress.elo


def test_report_says_which_times_it_has(undisturbed):
    results = undisturbed.results()
    first = results.runs[0]
    records = [each.model_copy(update={"wall_processor_seconds": None}) for each in first.records]
    mixed = replace(results, runs=[replace(first, records=records), *results.runs[1:]])
    count = len(results.runs)
    assert timing_caveat(results).startswith("Times are processor times")
    assert timing_caveat(mixed).startswith(f"Times of {count - 1} of {count} runs are processor")
    only_first = replace(mixed, runs=mixed.runs[:1])
    assert timing_caveat(only_first).startswith("Times are durations")


def test_studies_share_runs(undisturbed):
    class Other(Tiny):
        name = "other"

        def design(self, scale, seeds):
            return Design([planned("value", 101, part="elsewhere")])

    other = execution_in(undisturbed.folder.root, Other())
    assert other.progress().finished_runs == 1


def test_equal_runs_of_one_study_are_trained_once(tmp_path):
    class Twice(Tiny):
        def design(self, scale, seeds):
            return Design([planned("sum", 100), planned("sum", 100, part="b")])

    trained = []

    class Counting(Reusing):
        def submit(self, task):
            trained.append(task)
            self.done.append(TaskOutcome(task, error_lines=["not today"]))

    execution_in(tmp_path, Twice()).perform_all(Counting(), lambda view: None)
    assert sum(isinstance(task, TrainTask) for task in trained) == 1


def test_tournament_waits_for_players_of_other_parts(tmp_path):
    class Apart(Tiny):
        def design(self, scale, seeds):
            run = planned("sum", 100, part="elsewhere")
            return Design([run], [PlannedTournament("games", GAME, {run.label: run})])

    apart = StudyExecution.plan(Apart(), "smoke", tmp_path, ["games"])
    assert apart.blocked_tournaments() == ["games"]
    assert apart.perform_all(Reusing(), lambda view: None) == {}
    assert apart.progress().finished_games == 0
    assert StudyExecution.plan(Apart(), "smoke", tmp_path).blocked_tournaments() == []


def test_status_counts_the_games_of_each_part(tmp_path):
    class Parts(Tiny):
        def design(self, scale, seeds):
            agents = ("random", "mcts:2?tie_break=random")
            return Design(
                [],
                [
                    PlannedTournament(part, GAME, agent_specs=agents, games_per_pair=4)
                    for part in ("a", "b", "c")
                ],
            )

    first = StudyExecution.plan(Parts(), "smoke", tmp_path, ["a"])
    assert first.perform_all(Reusing(), lambda view: None) == {}
    status = execution_in(tmp_path, Parts()).status()
    assert [part["finished_games"] for part in status["parts"]] == [4, 0, 0]


def test_progress_of_runs_is_read_at_most_once_a_second(tmp_path, monkeypatch):
    small = execution_in(tmp_path, Small())
    updates, watched = [], []
    update = RunQueue.update_progress
    monkeypatch.setattr(
        RunQueue, "update_progress", lambda self, key: updates.append(key) or update(self, key)
    )
    monkeypatch.setattr(scheduler, "_POLL_SECONDS", 1000.0)

    class Slow(Reusing):
        """Workers that return outcomes only at every other call."""

        def wait_for_outcomes(self, seconds):
            return super().wait_for_outcomes(seconds) if len(watched) % 2 else []

    assert small.perform_all(Slow(), watched.append) == {}
    assert len(updates) <= 1 < len(watched)


def test_progress_of_a_part_shows_only_its_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "_POLL_SECONDS", 0.0)

    class Halves(Tiny):
        def design(self, scale, seeds):
            return Design([planned("sum", 100, part="a"), planned("sum", 101, part="b")])

    class Two(Reusing):
        count = 2

        def wait_for_outcomes(self, seconds):
            active_tasks.append(tuple(shown.progress(part).active_titles for part in "ab"))
            return super().wait_for_outcomes(seconds)

    active_tasks = []
    halves = execution_in(tmp_path, Halves())
    shown = halves.scheduler()
    with halves.folder.begin_and_lock("design", halves.seeds):
        shown.perform_all(Two(), lambda view: None)
    assert (["a: sum/seed=100 (2/2)"], ["b: sum/seed=101 (2/2)"]) in active_tasks


def test_study_waits_for_a_run_trained_by_another(tmp_path):
    small = execution_in(tmp_path, Small())
    run = min(small.design.runs, key=lambda run: run.key)  # the first one in the queue
    opened = RunFolder.create(small.folder.run_path(run), run.settings.model_dump())
    finished_counts, waiting = [], []
    with ExitStack() as stack:
        stack.enter_context(opened.locked())

        def watch(view):
            finished_counts.append(view.finished_runs)
            waiting.extend(view.active_titles)
            if view.finished_runs == 1:
                stack.close()  # the other study unlocks the run

        assert small.perform_all(Reusing(), watch) == {}
    assert 1 in finished_counts
    assert f"waiting for {run.title} (another process)" in waiting
    assert small.progress().finished_runs == 2
    assert small.progress().finished_games == small.progress().planned_games


def test_runs_are_trained_seed_by_seed_in_random_order(tmp_path):
    """A machine that becomes slower during a study slows no variant more than the others."""

    class Graded(Tiny):
        def design(self, scale, seeds):
            return Design(
                [
                    planned("sum", seed, part=f"part {iterations}", iterations=iterations)
                    for iterations in range(1, 9)
                    for seed in seeds
                ]
            )

    graded = execution_in(tmp_path, Graded())
    queue = RunQueue(graded.folder, graded.design)
    run_by_key = {run.key: run for run in graded.design.runs}
    order = []
    while (task := queue.next_task()) is not None:
        if isinstance(task, CompileTask):
            queue.mark_compiled(task)
        else:
            factors, settings = run_by_key[task.key].factors, run_by_key[task.key].settings
            order.append((factors["seed"], settings.iterations))
    assert [seed for seed, _ in order] == [100] * 8 + [101] * 8
    for iterations in (order[:8], order[8:]):
        assert sorted(iterations) not in (iterations, iterations[::-1])


def test_folder_of_another_design_is_refused(tmp_path):
    class Grown(Tiny):
        def design(self, scale, seeds):
            return Design([planned("sum", 7)])

    StudyExecution.plan(Grown(), "smoke", tmp_path).create_folder()
    with pytest.raises(UserError, match="a different design of this study"):
        execution_in(tmp_path).perform_all(Reusing(), lambda view: None)
    with pytest.raises(UserError, match="a different design of this study"):
        execution_in(tmp_path).results()


def test_locked_study_is_refused(tmp_path):
    tiny = execution_in(tmp_path)
    with (
        tiny.folder.begin_and_lock(tiny.study.design_digest("smoke"), tiny.seeds),
        pytest.raises(UserError, match="in use by another process"),
    ):
        tiny.perform_all(Reusing(), lambda view: None)


def test_full_disk_is_reported_before_anything_is_created(tmp_path, monkeypatch):
    usage = execution.shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(execution.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError, match=r"about 0\.\d GiB, and the disk has 0\.0 GiB"):
        execution_in(tmp_path / "new").require_disk_space()
    assert not (tmp_path / "new").exists()


def test_missing_study_is_reported(tmp_path):
    with pytest.raises(UserError, match="--scale smoke"):
        execution_in(tmp_path).results()


def test_estimated_work_is_close_to_actual_work(undisturbed):
    run = undisturbed.results().runs[0]
    learnt = sum(record.examples_seen for record in run.records if record.stage == "learn")
    estimated = estimate_work(run.planned.settings)
    assert run.selfplay_position_count == pytest.approx(estimated.stored_examples, rel=0.5)
    assert learnt == pytest.approx(estimated.training_examples, rel=0.5)


def test_copy_in_storage_continues_on_another_machine(undisturbed, tmp_path):
    """Everything that is finished is fetched, so nothing is computed again."""
    root, here, there = tmp_path / "studies", tmp_path / "storage", tmp_path / "there" / "studies"
    shutil.copytree(undisturbed.folder.root, root)
    local = execution_in(root)
    unfinished = local.design.runs[0]
    state = local.folder.run_path(unfinished) / "state.json"
    progress = json.loads(state.read_text())
    state.write_text(json.dumps({**progress, "finished": False}))
    StudyStorage(str(here), local).push()
    names = {path.name for path in (here / "studies" / "runs").iterdir()}
    assert names == {run.key for run in local.design.runs} - {unfinished.key}

    state.write_text(json.dumps(progress))
    StudyStorage(str(here), local).push()
    interrupted = here / "studies" / "runs" / unfinished.key / "state.json"
    content = interrupted.read_bytes()
    interrupted.unlink()
    of_another_study = here / "studies" / "positions" / "other.parquet"
    of_another_study.parent.mkdir(exist_ok=True)
    of_another_study.touch()
    other = execution_in(there)
    assert StudyStorage(str(here), other).fetch() == len(names) + 1  # and the study
    assert not other.folder.run_path(unfinished).exists()
    interrupted.write_bytes(content)
    assert StudyStorage(str(here), other).fetch() == 1
    assert not execution_in(there).progress().is_unfinished
    assert differences(contents(there), contents(root)) == []
    assert StudyStorage(str(here), other).fetch() == 0
    shutil.rmtree(next((other.folder.path / "tournaments").iterdir()))
    outdated = here / "studies" / other.folder.path.name / "report" / "old.csv"
    outdated.parent.mkdir(exist_ok=True)
    outdated.touch()
    commit = here / "studies" / other.folder.path.name / "study.toml"
    content = commit.read_bytes()
    commit.unlink()  # an interrupted first copy, perhaps of other seeds
    assert StudyStorage(str(here), other).fetch() == 0
    commit.write_bytes(content)
    assert StudyStorage(str(here), other).fetch() == 1
    assert not execution_in(there).progress().is_unfinished


def test_copy_of_a_study_with_other_seeds_is_not_replaced(undisturbed, tmp_path):
    early = StudyExecution.plan(Tiny(), "smoke", tmp_path / "here" / "studies", (), [777])
    early.create_folder()
    storage = StudyStorage(str(tmp_path / "storage"), early)
    assert storage.fetch() == 0
    shutil.copytree(undisturbed.folder.root, tmp_path / "there" / "studies")
    StudyStorage(str(tmp_path / "storage"), execution_in(tmp_path / "there" / "studies")).push()
    before = contents(tmp_path / "storage")
    for attempt in (storage.push, StudyStorage(str(tmp_path / "storage"), early).fetch):
        with pytest.raises(UserError, match="with other seeds or another design"):
            attempt()
    assert differences(contents(tmp_path / "storage"), before) == []


def test_storage_is_written_at_most_once_a_minute(undisturbed, tmp_path, monkeypatch):
    view, now = undisturbed.progress(), [0.0]
    monkeypatch.setattr(execution.time, "monotonic", lambda: now[0])
    copies = []
    copy = StudyStorage(str(tmp_path), undisturbed)
    monkeypatch.setattr(copy, "push", lambda: copies.append(now[0]))
    for seconds, finished in [(30, 1), (61, 2), (90, 3), (125, 3), (190, 3), (250, 4)]:
        now[0] = float(seconds)
        copy.push_if_due(view._replace(finished_runs=finished))
    assert copies == [61.0, 125.0, 250.0]
