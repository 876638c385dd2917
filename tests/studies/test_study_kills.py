"""Killed workers and studies: isolation of failures and resumption."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

from tiny_studies import Small, execution_in

from promised import contents
from zerolab.core.processes import fork_server_context
from zerolab.store.folder import is_locked
from zerolab.studies.tasks import LocalWorkers


def kill_a_worker_once(root: Path, killed: list[int]):
    """Kill a worker process once a run has finished a stage."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not killed:
        if any(path.stat().st_size for path in root.glob("runs/*/metrics.jsonl")):
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)
        time.sleep(0.01)


def test_killed_worker_fails_only_its_task_and_the_study_resumes(tmp_path, undisturbed):
    tiny, killed = execution_in(tmp_path), []
    killer = threading.Thread(target=kill_a_worker_once, args=[tmp_path, killed])
    killer.start()
    failures = tiny.perform_all(LocalWorkers(2), lambda progress: None)
    killer.join()
    assert killed
    assert len(failures) <= 1  # none if it was between two tasks
    for lines in failures.values():
        assert "killed by signal 9" in lines[-1]
    assert tiny.folder.read_failures() == failures
    assert tiny.progress().finished_runs >= 3
    assert tiny.perform_all(LocalWorkers(2), lambda progress: None) == {}
    assert tiny.folder.read_failures() == {}
    assert contents(tmp_path) == contents(undisturbed.folder.root)


def test_workers_killed_at_their_start_are_replaced(tmp_path):
    """Depending on timing, they die before or during their first task."""
    small, killed = execution_in(tmp_path, Small()), set()

    def kill_the_first_three():
        deadline = time.monotonic() + 120
        while len(killed) < 3 and time.monotonic() < deadline:
            for worker in multiprocessing.active_children():
                if worker.pid not in killed and len(killed) < 3:
                    killed.add(worker.pid)
                    worker.kill()
            time.sleep(0.001)

    killer = threading.Thread(target=kill_the_first_three)
    killer.start()
    failures = small.perform_all(LocalWorkers(2), lambda progress: None)
    killer.join()
    assert len(killed) == 3
    assert len(failures) <= 3
    assert all("its worker ended unexpectedly" in lines[-1] for lines in failures.values())
    assert small.folder.read_failures() == failures
    assert small.perform_all(LocalWorkers(2), lambda progress: None) == {}
    assert not small.progress().is_unfinished


def _work(root):
    execution_in(root).perform_all(LocalWorkers(2), lambda progress: None)


def test_killed_study_leaves_no_process_and_resumes(tmp_path, undisturbed):
    process = fork_server_context(_work.__module__).Process(target=_work, args=[tmp_path])
    process.start()
    while process.is_alive() and not any(
        "gate" in path.read_text() for path in tmp_path.glob("runs/*/metrics.jsonl")
    ):
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    tiny = execution_in(tmp_path)
    deadline = time.monotonic() + 20
    while any(is_locked(path.parent) for path in tmp_path.glob("runs/*/.lock")):
        assert time.monotonic() < deadline, "a worker outlives the study"
        time.sleep(0.1)
    assert tiny.perform_all(LocalWorkers(2), lambda progress: None) == {}
    assert contents(tmp_path) == contents(undisturbed.folder.root)
