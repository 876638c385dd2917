"""Available cores, work in threads, and the fork server."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from zerolab.core import processes
from zerolab.core.processes import available_cores, pinned_to_one_core, run_in_threads


@pytest.mark.parametrize(("length", "parts"), [(0, 1), (1, 1), (10, 3), (2, 5), (7, 7)])
def test_thread_ranges_partition_the_work(length, parts):
    ranges = run_in_threads(range, length, parts)
    assert len(ranges) == parts
    assert [number for part in ranges for number in part] == list(range(length))


def test_threads_run_concurrently():
    barrier = threading.Barrier(3, timeout=20)
    assert run_in_threads(lambda begin, end: barrier.wait() >= 0, 3, 3) == [True] * 3


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_exception_is_raised_after_all_parts_finish(failing):
    finished = []

    def work(begin, end):
        finished.append(begin)
        if begin == failing:
            raise ValueError(begin)

    with pytest.raises(ValueError, match=str(failing)):
        run_in_threads(work, 3, 3)
    assert sorted(finished) == [0, 1, 2]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """System files of a process in the control group a/b on a machine with 64 cores.

    Its version 1 control group is docker/9, which appears as "/" in a container.
    """
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(
        "3:cpuset:/c\n2:cpu,cpuacct:/docker/9\n1:name=systemd:/a:b\n0::/a/b\nnonsense\n"
    )
    (tmp_path / "sys/fs/cgroup/a/b").mkdir(parents=True)
    quotas = processes.cpu_quotas
    monkeypatch.setattr(processes, "cpu_quotas", lambda: quotas(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    return tmp_path / "sys/fs/cgroup"


@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({}, 64),
        ({"a/b": "max 100000", "a": "max 100000"}, 64),
        ({"a/b": "150000 100000", "a": "max 100000"}, 2),
        ({"a/b": "max 100000", "a": "300000 100000"}, 3),
        ({"": "1000 100000"}, 1),
        ({"a/b": "nonsense", "a": "0 0"}, 64),
    ],
)
def test_cores_are_limited_by_every_control_group(machine, quotas, cores):
    for group, quota in quotas.items():
        (machine / group / "cpu.max").write_text(quota + "\n")
    assert available_cores() == cores


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({"docker/9": (-1, 100000), "": (-1, 100000)}, 64),
        ({"docker/9": (150000, 100000), "docker": (-1, 100000)}, 2),
        ({"docker/9": (-1, 100000), "docker": (300000, 100000)}, 3),
        ({"": (50000, 100000)}, 1),
        ({"docker/9": ("nonsense", 100000), "docker": (0, 0), "": ("", "")}, 64),
    ],
)
def test_cores_are_limited_by_control_groups_of_version_1(machine, mount, quotas, cores):
    for group, (quota, period) in quotas.items():
        folder = machine / mount / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (folder / "cpu.cfs_period_us").write_text(f"{period}\n")
    (machine / "cpuset/c").mkdir(parents=True)
    (machine / "cpuset/c/cpu.cfs_quota_us").write_text("100000\n")
    (machine / "cpuset/c/cpu.cfs_period_us").write_text("100000\n")
    assert available_cores() == cores


def test_cores_are_limited_by_both_versions_of_control_groups(machine):
    (machine / "a/b/cpu.max").write_text("800000 100000\n")
    folder = machine / "cpu/docker/9"
    folder.mkdir(parents=True)
    for name, value in {"quota": 500000, "period": 100000}.items():
        (folder / f"cpu.cfs_{name}_us").write_text(str(value))
    assert available_cores() == 5


def test_cores_are_limited_by_affinity(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert available_cores() == 1


def test_all_cores_are_available_without_affinity_or_control_groups(machine, monkeypatch):
    (machine.parents[2] / "proc/self/cgroup").unlink()
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert available_cores() == 12


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot pin threads")
def test_pinning_to_one_core_limits_threads_until_exit():
    before, core_counts = os.sched_getaffinity(0), []
    with pinned_to_one_core():
        thread = threading.Thread(target=lambda: core_counts.append(available_cores()))
        thread.start()
        thread.join()
        assert available_cores() == 1
    assert core_counts == [1]
    assert os.sched_getaffinity(0) == before


_SLOW = """
import signal, sys, time
from pathlib import Path
from zerolab.core.processes import exit_with_parent

Path("begun").touch()
time.sleep(1)

def work():
    exit_with_parent()
    sys.exit(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
_PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from zerolab.core.processes import fork_server_context

if __name__ == "__main__":
    signals = []
    signal.signal(signal.SIGINT, lambda *_: signals.append(1))
    context = fork_server_context("slow_to_import")
    while not Path("begun").exists():
        time.sleep(0.01)
    os.killpg(0, signal.SIGINT)
    import slow_to_import
    process = context.Process(target=slow_to_import.work)
    process.start()
    process.join()
    sys.exit(process.exitcode + 2 * (not signals))
"""

_ENDLESS = """
import time
from pathlib import Path

Path("begun").touch()
time.sleep(120)
"""
_ENDS_DURING_IMPORTS = """
import os, sys, threading, time
from pathlib import Path
from zerolab.cli.process import exit_without_waiting
from zerolab.core.processes import fork_server_context

if __name__ == "__main__":
    context = fork_server_context("endless")
    process = context.Process(target=print, args=[context.Lock()], daemon=True)
    threading.Thread(target=process.start, daemon=True).start()
    while not Path("begun").exists():
        time.sleep(0.01)
    {end}
"""
_SLOW_TO_FINALIZE = """
import time

class Slow:
    def __del__(self):
        time.sleep(120)

slow = Slow()
"""
_ENDS_AFTER_WORK = """
from zerolab.core.processes import fork_server_context

if __name__ == "__main__":
    context = fork_server_context("slow_to_finalize")
    process = context.Process(target=print)
    process.start()
    process.join()
"""
_ENDS_DURING_A_REQUEST = """
import os
from multiprocessing import forkserver
from zerolab.core.processes import fork_server_context

if __name__ == "__main__":
    context = fork_server_context("json")
    lock = context.Lock()
    forkserver.connect_to_new_process([])
    os._exit(2)
"""

_STARTS_ANOTHER_PROCESS = """
import subprocess, sys
from multiprocessing import forkserver
from zerolab.core.processes import fork_server_context

if __name__ == "__main__":
    other = "import sys, zerolab.core.processes; sys.exit(3)"
    forkserver.ensure_running = lambda: sys.exit(subprocess.call([sys.executable, "-c", other]))
    fork_server_context("json")
"""

needs_fork = pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(),
    reason="needs the start method forkserver",
)


def run(program, folder, **modules):
    """Run a program; return its exit code and output, including descendants'.

    Wait until every process that has the output pipe open has ended.
    """
    for name, text in {"program": program, **modules}.items():
        (folder / f"{name}.py").write_text(text)
    process = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return process.returncode, process.stdout


@needs_fork
def test_ctrl_c_during_imports_does_not_end_fork_server(tmp_path):
    assert run(_PROGRAM, tmp_path, slow_to_import=_SLOW) == (0, "")


@needs_fork
@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(2)", 2),
        ("exit_without_waiting(2)", 2),
        ("os.kill(os.getpid(), 9)", -9),
    ],
)
def test_program_that_ends_during_imports_leaves_no_process(tmp_path, end, code):
    assert run(_ENDS_DURING_IMPORTS.format(end=end), tmp_path, endless=_ENDLESS) == (code, "")


@needs_fork
def test_finished_program_leaves_no_process(tmp_path):
    module = {"slow_to_finalize": _SLOW_TO_FINALIZE}
    assert run(_ENDS_AFTER_WORK, tmp_path, **module) == (0, "\n")


@needs_fork
def test_program_that_ends_during_request_prints_no_traceback(tmp_path):
    assert run(_ENDS_DURING_A_REQUEST, tmp_path) == (2, "")


@needs_fork
def test_process_started_beside_server_keeps_its_exit_code(tmp_path):
    assert run(_STARTS_ANOTHER_PROCESS, tmp_path) == (3, "")


@needs_fork
def test_errors_while_forked_process_starts_are_printed(tmp_path):
    """Every forked process imports the program's main file again, which may fail."""
    broken = """
        from zerolab.core.processes import fork_server_context
        if __name__ != "__main__":
            open("missing")
        context = fork_server_context("json")
        process = context.Process(target=print)
        process.start()
        process.join()
    """
    code, text = run(textwrap.dedent(broken), tmp_path)
    assert code == 0
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'missing'" in text
