"""The engine of studies: nothing is trained twice, nothing that dies takes others along."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from in_process import Here

from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.studies.design import (
    Design,
    PlannedComputation,
    PlannedTournament,
    full_product,
    one_at_a_time,
    planned_run,
    run_key,
)
from zerolab.studies.engine import scheduler, study_work
from zerolab.studies.engine.estimate import Pace, mean_plies, run_bytes, run_seconds, work_of
from zerolab.studies.engine.layout import StudyFolder
from zerolab.studies.engine.runs import Runs
from zerolab.studies.engine.study_work import StudyWork, as_dict
from zerolab.studies.engine.tasks import CompileTask, Outcome, TrainTask
from zerolab.studies.engine.workers import LocalWorkers, shares_of_cores
from zerolab.studies.interface import Study
from zerolab.studies.results import provenance
from zerolab.training.environment import current_versions, processor_model

GAME = "gobang:3x3:3"


def planned(loss, seed, part="a", **changes):
    return planned_run(part, GAME, "smoke", {"loss": loss}, {"learn.loss": loss, **changes}, seed)


class Tiny(Study):
    """Two losses, two seeds, a tournament."""

    name = "tiny"

    def design(self, scale):
        runs = [planned(loss, seed) for loss in ("sum", "value") for seed in range(2)]
        entrants = {run.label: run for run in runs}
        return Design(runs, [PlannedTournament("a", GAME, entrants, games=4, openings=2)])

    def document(self, results):
        raise NotImplementedError


def study_work_in(root, study=None):
    return StudyWork.of(study or Tiny(), "smoke", root)


def digests(done):
    """Return what identifies everything that a study has trained and played."""
    folder = done.folder
    found = {}
    for run in done.design.runs:
        opened = RunFolder.open(folder.run_path(run))
        networks = [opened.weights_digest(each) for each in opened.networks()]
        found[run.label] = networks, opened._files.metrics_digest
    return found, list(done.results().tournaments["a"].games)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The tiny study done without interruption."""
    done = study_work_in(tmp_path_factory.mktemp("undisturbed"))
    assert done.work(LocalWorkers(2), lambda view: None) == {}
    return done


def test_everything_is_done_and_found_again(undisturbed):
    view = undisturbed.view()
    assert (view.finished_runs, view.runs) == (4, 4)
    assert (view.finished_games, view.games) == (40, 40)
    assert view.done_seconds == pytest.approx(view.seconds)
    results = undisturbed.results()
    assert [run.planned.label for run in results] == [
        "sum/seed=0", "sum/seed=1", "value/seed=0", "value/seed=1",
    ]  # fmt: skip
    assert not results.missing()
    played = results.tournaments["a"]
    assert {rating.player for rating in played.ratings.players} == {
        *(run.planned.label for run in results), "random",
    }  # fmt: skip
    rated = played.rating(results.runs[2])
    assert rated.player == "value/seed=0"
    assert len(results.where(loss="value")) == 2
    assert results.levels("loss") == ["sum", "value"]


def test_provenance_is_that_of_what_trained_the_runs(tmp_path):
    small = study_work_in(tmp_path, Small())
    assert small.work(Here(), lambda view: None) == {}
    here = provenance(small.results())
    assert here.versions == current_versions()
    assert here.machine.startswith(f"{processor_model()}, ")
    assert here.machine.endswith(" per run")
    path = small.folder.run_path(small.design.runs[0]) / "environment.json"
    (environment,) = json.loads(path.read_text())["environments"]
    other = {**environment, "torch": "0.1", "device": "GPU Y", "processor": "Z", "threads": 3,
             "precision": "float16"}  # fmt: skip
    path.write_text(json.dumps({"schema_version": 1, "environments": [other]}))
    both = provenance(small.results())
    assert both.versions == {**current_versions(), "torch": f"0.1 and {environment['torch']}"}
    assert both.machine == f"Z, GPU Y, float16, 3 cores per run and {here.machine}"
    path.write_text("damaged")
    assert provenance(small.results()).machine == here.machine


def test_a_finished_study_has_nothing_left_to_do(undisturbed):
    class Idle(Here):
        def submit(self, task):
            raise AssertionError(f"{task.title} was done before")

    assert undisturbed.work(Idle(), lambda view: None) == {}


def test_times_and_losses_come_from_the_records(undisturbed):
    run = undisturbed.results().runs[0]
    lines = RunFolder.open(run.path).metrics()
    assert run.seconds["selfplay"] == pytest.approx(
        sum(line["wall_seconds"] for line in lines if line["stage"] == "selfplay")
    )
    assert len(run.epoch_losses) == len(run.final_losses) == 2
    assert [epochs[-1] for epochs in run.epoch_losses] == run.final_losses
    assert run.training_elo[-1] == RunFolder.open(run.path).progress.elo


def test_studies_share_runs(undisturbed):
    class Other(Tiny):
        name = "other"

        def design(self, scale):
            return Design([planned("value", 1, part="elsewhere")])

    other = study_work_in(undisturbed.folder.root, Other())
    assert other.view().finished_runs == 1


def test_equal_runs_of_one_study_are_trained_once(tmp_path):
    class Twice(Tiny):
        def design(self, scale):
            return Design([planned("sum", 0), planned("sum", 0, part="b")])

    trained = []

    class Counting(Here):
        def submit(self, task):
            trained.append(task)
            self.done.append(Outcome(task, failure=["not today"]))

    study_work_in(tmp_path, Twice()).work(Counting(), lambda view: None)
    assert sum(isinstance(task, TrainTask) for task in trained) == 1


def kill_a_worker_once(root: Path):
    """Kill one of the processes of a study as soon as a run has finished an iteration."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if any(path.stat().st_size for path in root.glob("runs/*/metrics.jsonl")):
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
            return
        time.sleep(0.01)


def test_a_killed_worker_fails_its_task_alone_and_the_next_call_ends_equally(tmp_path, undisturbed):
    tiny = study_work_in(tmp_path)
    killer = threading.Thread(target=kill_a_worker_once, args=[tmp_path])
    killer.start()
    failures = tiny.work(LocalWorkers(2), lambda view: None)
    killer.join()
    assert len(failures) <= 1  # none if it was between two tasks
    for lines in failures.values():
        assert "its worker ended unexpectedly: killed by signal 9" in lines[-1]
    assert tiny.folder.failures() == failures
    assert tiny.view().finished_runs >= 3
    assert tiny.work(LocalWorkers(2), lambda view: None) == {}
    assert tiny.folder.failures() == {}
    assert digests(tiny) == digests(undisturbed)


def test_a_worker_that_is_killed_before_it_begins_is_replaced(tmp_path, undisturbed):
    tiny = study_work_in(tmp_path)

    def kill_the_first():
        while not (workers := multiprocessing.active_children()):
            time.sleep(0.001)
        workers[0].kill()

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    failures = tiny.work(LocalWorkers(2), lambda view: None)
    killer.join()
    assert [lines[-1] for lines in failures.values()] == [
        "its worker ended unexpectedly: before it began"
    ]
    assert tiny.view().finished_runs == 4
    assert tiny.work(LocalWorkers(2), lambda view: None) == {}
    assert digests(tiny) == digests(undisturbed)


def _work(root):
    study_work_in(root).work(LocalWorkers(2), lambda view: None)


def test_a_killed_study_leaves_no_process_and_ends_equally(tmp_path, undisturbed):
    process = multiprocessing.get_context("spawn").Process(target=_work, args=[tmp_path])
    process.start()
    while process.is_alive() and not any(
        "gate" in path.read_text() for path in tmp_path.glob("runs/*/metrics.jsonl")
    ):
        time.sleep(0.01)
    process.kill()
    process.join()
    tiny = study_work_in(tmp_path)
    deadline = time.monotonic() + 20
    while any(RunFolder.open(path.parent).is_locked for path in tmp_path.glob("runs/*/.lock")):
        assert time.monotonic() < deadline, "a worker outlives the study"
        time.sleep(0.1)
    assert tiny.work(LocalWorkers(2), lambda view: None) == {}
    assert digests(tiny) == digests(undisturbed)


class Small(Tiny):
    """Two runs and their tournament."""

    def design(self, scale):
        runs = [planned(loss, 0) for loss in ("sum", "value")]
        entrants = {run.label: run for run in runs}
        return Design(runs, [PlannedTournament("a", GAME, entrants, games=2)])


def test_a_run_that_fails_is_listed_and_the_others_go_on(tmp_path):
    small = study_work_in(tmp_path, Small())
    path = small.folder.run_path(small.design.runs[0])
    path.mkdir(parents=True)
    (path / "letter").write_text("mine")
    failures = small.work(Here(), lambda view: None)
    assert list(failures) == ["a: sum/seed=0"]
    assert "not a run and not empty" in failures["a: sum/seed=0"][0]
    results = small.results()
    assert [run.planned.label for run in results] == ["value/seed=0"]
    assert results.missing() == "1 of 2 runs are not finished; tournaments not finished: a"
    (path / "letter").unlink()
    assert small.work(Here(), lambda view: None) == {}
    assert not small.results().missing()


def test_a_tournament_waits_for_players_of_other_parts(tmp_path):
    class Apart(Tiny):
        def design(self, scale):
            run = planned("sum", 0, part="elsewhere")
            return Design([run], [PlannedTournament("games", GAME, {run.label: run})])

    apart = StudyWork.of(Apart(), "smoke", tmp_path, ["games"])
    assert apart.waiting() == ["games"]
    assert apart.work(Here(), lambda view: None) == {}
    assert apart.view().finished_games == 0
    assert StudyWork.of(Apart(), "smoke", tmp_path).waiting() == []


def test_a_run_with_other_settings_than_its_name_says_is_refused(tmp_path):
    small = study_work_in(tmp_path, Small())
    one, other = small.design.runs
    RunFolder.create(small.folder.run_path(one), other.settings.model_dump())
    failures = small.work(Here(), lambda view: None)
    assert "has other settings than its name says" in failures["a: sum/seed=0"][0]
    assert small.view().finished_runs == 1


def test_a_damaged_run_is_listed_and_the_others_count(tmp_path):
    small = study_work_in(tmp_path, Small())
    assert small.work(Here(), lambda view: None) == {}
    state = small.folder.run_path(small.design.runs[0]) / "state.json"
    state.write_text(state.read_text()[:50])
    assert small.view().finished_runs == 1
    assert [run.planned.label for run in small.results()] == ["value/seed=0"]
    failures = small.work(Here(), lambda view: None)
    assert list(failures) == ["a: sum/seed=0"]
    assert "is damaged" in failures["a: sum/seed=0"][0]


def test_a_run_whose_metrics_are_damaged_does_not_count(tmp_path):
    small = study_work_in(tmp_path, Small())
    assert small.work(Here(), lambda view: None) == {}
    metrics = small.folder.run_path(small.design.runs[0]) / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-20])
    assert [run.planned.label for run in small.results()] == ["value/seed=0"]
    assert list(small.work(Here(), lambda view: None)) == ["a: sum/seed=0"]


def test_a_run_that_cannot_be_read_once_it_is_trained_has_failed(tmp_path):
    small = study_work_in(tmp_path, Small())
    metrics = small.folder.run_path(small.design.runs[0]) / "metrics.jsonl"

    class Damaging(Here):
        def submit(self, task):
            super().submit(task)
            if isinstance(task, TrainTask) and task.key == small.design.runs[0].key:
                metrics.write_bytes(b"")

    failures = small.work(Damaging(), lambda view: None)
    assert list(failures) == ["a: sum/seed=0"]
    assert "is damaged" in failures["a: sum/seed=0"][0]


def test_runs_under_way_are_looked_at_once_a_second(tmp_path, monkeypatch):
    small = study_work_in(tmp_path, Small())
    looks, watched = [], []
    look = Runs.look
    monkeypatch.setattr(Runs, "look", lambda self, key: looks.append(key) or look(self, key))
    monkeypatch.setattr(scheduler, "_LOOK_SECONDS", 1000.0)

    class Slow(Here):
        """Has an outcome only every other time that it is asked."""

        def finished(self, seconds):
            return super().finished(seconds) if len(watched) % 2 else []

    assert small.work(Slow(), watched.append) == {}
    assert len(looks) <= 1 < len(watched)


def test_failures_of_parts_that_are_not_worked_on_are_kept(tmp_path):
    class Halves(Tiny):
        def design(self, scale):
            return Design([planned("sum", 0, part="a"), planned("value", 0, part="b")])

    class Broken(Here):
        def submit(self, task):
            self.done.append(Outcome(task, failure=["broken"]))

    for part in ("a", "b"):
        StudyWork.of(Halves(), "smoke", tmp_path, [part]).work(Broken(), lambda view: None)
    halves = study_work_in(tmp_path, Halves())
    listed = {name for name in halves.folder.failures() if "kernels" not in name}
    assert listed == {"a: sum/seed=0", "b: value/seed=0"}
    status = as_dict(halves)
    assert status["failures"] == halves.folder.failures()
    assert status["failed"] == len(status["failures"])
    assert [part["failed"] for part in status["parts"]] == [
        sum(name.startswith(f"{part}:") for name in status["failures"]) for part in "ab"
    ]
    assert halves.work(Here(), lambda view: None) == {}
    assert halves.folder.failures() == {}


def test_failures_that_have_left_nothing_to_do_are_forgotten(tmp_path):
    class Uncompiled(Here):
        """Compiles nothing, which runs do then."""

        def submit(self, task):
            if isinstance(task, CompileTask):
                self.done.append(Outcome(task, failure=["broken"]))
            else:
                super().submit(task)

    small = study_work_in(tmp_path, Small())
    assert small.work(Uncompiled(), lambda view: None)
    assert small.folder.failures()
    assert not small.view().is_unfinished
    small.forget_failures()
    assert small.folder.failures() == {}


def test_a_damaged_list_of_failures_stops_nothing(tmp_path):
    small = study_work_in(tmp_path, Small())
    small.begin()
    (small.folder.path / "failures.json").write_text('{"a: sum/seed=0": 5')
    assert as_dict(small)["failures"] == {}
    assert small.work(Here(), lambda view: None) == {}
    assert (small.folder.path / "failures.json").read_text() == "{}\n"


def test_a_view_of_a_part_shows_its_tasks_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "_LOOK_SECONDS", 0.0)

    class Halves(Tiny):
        def design(self, scale):
            return Design([planned("sum", 0, part="a"), planned("sum", 1, part="b")])

    class Two(Here):
        count = 2

        def finished(self, seconds):
            seen.append(tuple(shown.view(part).active for part in "ab"))
            return super().finished(seconds)

    seen = []
    halves = study_work_in(tmp_path, Halves())
    shown = halves.scheduler()
    with halves.folder.locked(halves.design):
        shown.work(Two(), lambda view: None)
    assert (["a: sum/seed=0 (2/2)"], ["b: sum/seed=1 (2/2)"]) in seen


def test_a_damaged_tournament_is_listed(tmp_path):
    small = study_work_in(tmp_path, Small())
    assert small.work(Here(), lambda view: None) == {}
    store = small.folder.tournament_path(small.design.tournaments[0]) / "games.sqlite"
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("UPDATE games SET result = -result")
    results = small.results()
    assert not results.tournaments
    assert [str(store) in message for message in results.damaged] == [True]
    store.write_bytes(b"not a database at all")
    assert small.view().is_unfinished
    assert small.view().finished_runs == 2
    failures = small.work(Here(), lambda view: None)
    assert list(failures) == ["a: games"]
    assert small.results().missing() == "tournaments not finished: a"
    store.unlink()
    assert small.work(Here(), lambda view: None) == {}
    assert not small.results().missing()


def test_a_damaged_result_of_a_computation_is_listed(tmp_path):
    function = f"{table.__module__}:{table.__name__}"
    planned = [
        PlannedComputation("a", label, function, {"value": value}, seconds=1.0)
        for value, label in enumerate("xy", start=1)
    ]

    class Computing(Tiny):
        def design(self, scale):
            return Design([], computations=planned)

    done = study_work_in(tmp_path, Computing())
    assert done.work(Here(), lambda view: None) == {}
    assert done.results().computed == {"a: x": {"value": 1.0}, "a: y": {"value": 2.0}}
    damaged = tmp_path / "computed" / f"{planned[0].key}.json"
    damaged.write_text(damaged.read_text()[:30])
    assert done.view().finished_computations == 1
    assert list(done.results().computed) == ["a: y"]
    failures = done.work(Here(), lambda view: None)
    assert list(failures) == ["a: x"]
    assert "is damaged" in failures["a: x"][0]
    damaged.unlink()
    assert done.work(Here(), lambda view: None) == {}
    assert done.results().computed["a: x"] == {"value": 1.0}


def table(value):
    return {"value": value}


def test_a_run_that_another_study_trains_is_waited_for(tmp_path):
    small = study_work_in(tmp_path, Small())
    run = small.design.runs[0]
    opened = RunFolder.create(small.folder.run_path(run), run.settings.model_dump())
    seen, waiting = [], []
    with ExitStack() as stack:
        stack.enter_context(opened.locked())

        def watch(view):
            seen.append(view.finished_runs)
            waiting.extend(view.active)
            if view.finished_runs == 1:
                stack.close()  # the other study lets go of the run

        assert small.work(Here(), watch) == {}
    assert 1 in seen
    assert "waiting for a: sum/seed=0 (another process)" in waiting
    assert small.view().finished_runs == 2
    assert small.view().finished_games == small.view().games


def test_a_folder_of_another_design_is_refused(tmp_path):
    class Grown(Tiny):
        def design(self, scale):
            return Design([planned("sum", 7)])

    with StudyFolder(tmp_path, "tiny", "smoke").locked(Grown().design("smoke")):
        pass
    with pytest.raises(UserError, match="another design of this study"):
        study_work_in(tmp_path).work(Here(), lambda view: None)
    with pytest.raises(UserError, match="another design of this study"):
        study_work_in(tmp_path).results()


def test_one_process_at_a_time(tmp_path):
    tiny = study_work_in(tmp_path)
    with (
        tiny.folder.locked(tiny.design),
        pytest.raises(UserError, match="another process is at work on it"),
    ):
        tiny.work(Here(), lambda view: None)


def test_a_disk_too_small_is_noticed_before_anything_is_made(tmp_path, monkeypatch):
    usage = study_work.shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(study_work.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(UserError, match=r"will take about 0\.\d GiB, and the disk has 0\.0 GiB"):
        study_work_in(tmp_path / "new").require_room()
    assert not (tmp_path / "new").exists()


def test_results_of_nothing(tmp_path):
    with pytest.raises(UserError, match="holds no study: expected one that has been begun"):
        study_work_in(tmp_path).results()


def test_keys_are_of_everything_that_results_depend_on():
    key = planned("sum", 0).key
    assert planned("value", 0).key != key
    assert planned("product", 0).key not in (key, planned("value", 0).key)
    assert planned("sum", 1).key != key
    settings = planned("sum", 0).settings
    play = settings.selfplay.model_copy(update={"threads": 3})
    assert run_key(settings.model_copy(update={"selfplay": play, "preset": "mine"})) == key


def test_products_and_single_changes():
    levels = {"a": (1, 2, 3), "b": ("x", "y")}
    assert len(list(full_product(levels))) == 6
    single = list(one_at_a_time(levels, {"a": 2, "b": "x"}))
    assert single[0] == {"a": 2, "b": "x"}
    assert sorted(map(str, single[1:])) == sorted(
        map(str, [{"a": 1, "b": "x"}, {"a": 3, "b": "x"}, {"a": 2, "b": "y"}])
    )


def test_unknown_parts_are_told():
    with pytest.raises(UserError, match=r'unknown part "A": expected one of a; did you mean "a"'):
        StudyWork.of(Tiny(), "smoke", Path("x"), ["A"])


def test_shares_of_cores_cover_all_of_them(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4, 11)))
    monkeypatch.setattr("zerolab.studies.engine.workers.available_cores", lambda: 7)
    for workers in range(1, 8):
        shares = shares_of_cores(workers)
        assert len(shares) == workers
        assert sorted(core for share in shares for core in share) == list(range(4, 11))
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1
    assert len(shares_of_cores(20)) == 20
    assert {core for share in shares_of_cores(20) for core in share} == set(range(4, 11))


def test_estimates_grow_with_the_work():
    little, more = planned("sum", 0).settings, planned("sum", 0, iterations=4).settings
    assert work_of(more).simulations == pytest.approx(2 * work_of(little).simulations)
    assert work_of(more).samples > work_of(little).samples
    assert run_seconds(more) > run_seconds(little) > 0
    assert run_bytes(more) > run_bytes(little) > 0
    assert 5 <= mean_plies(GAME) <= 9


def test_estimated_work_is_what_a_run_does(undisturbed):
    run = undisturbed.results().runs[0]
    records = {name: [each for each in run.records if each.stage == name]
               for name in ("selfplay", "learn")}  # fmt: skip
    work = work_of(run.planned.settings)
    assert work.positions == pytest.approx(run.positions, rel=0.5)
    assert work.samples == pytest.approx(sum(each.samples for each in records["learn"]), rel=0.5)


def test_pace_is_measured_time_relative_to_the_estimate():
    pace = Pace()
    assert pace.factor == 1
    pace.add(2, 6)
    pace.add(4, 6)
    assert pace.factor == 2
