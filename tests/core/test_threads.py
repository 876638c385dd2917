"""Work split among threads, and the cores there are for them."""

from __future__ import annotations

import os
import threading

import pytest

from zerolab.core import processes
from zerolab.core.processes import available_cores, on_one_core, run_in_threads


@pytest.mark.parametrize(("length", "parts"), [(0, 1), (1, 1), (10, 3), (2, 5), (7, 7)])
def test_parts_cover_the_whole_once(length, parts):
    ranges = run_in_threads(range, length, parts)
    assert len(ranges) == parts
    assert [number for part in ranges for number in part] == list(range(length))


def test_parts_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=20)
    assert run_in_threads(lambda begin, end: meeting.wait() >= 0, 3, 3) == [True] * 3


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_is_raised_once_all_parts_are_done(failing):
    done = []

    def work(begin, end):
        done.append(begin)
        if begin == failing:
            raise ValueError(begin)

    with pytest.raises(ValueError, match=str(failing)):
        run_in_threads(work, 3, 3)
    assert sorted(done) == [0, 1, 2]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The files of a process in the control group a/b, on a machine of 64 cores.

    Its group of version 1 is docker/9, which a container sees under the name "/".
    """
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(
        "3:cpuset:/c\n2:cpu,cpuacct:/docker/9\n1:name=systemd:/a:b\n0::/a/b\nnonsense\n"
    )
    (tmp_path / "sys/fs/cgroup/a/b").mkdir(parents=True)
    quotas = processes._cpu_quotas
    monkeypatch.setattr(processes, "_cpu_quotas", lambda: quotas(tmp_path))
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


def test_cores_are_those_the_process_is_bound_to(machine, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5})
    assert available_cores() == 1


def test_systems_without_affinity_or_control_groups_use_all_cores(machine, monkeypatch):
    (machine.parents[2] / "proc/self/cgroup").unlink()
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert available_cores() == 12


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system cannot bind threads")
def test_on_one_core_threads_have_one_core():
    before, found = os.sched_getaffinity(0), []
    with on_one_core():
        thread = threading.Thread(target=lambda: found.append(available_cores()))
        thread.start()
        thread.join()
        assert available_cores() == 1
    assert found == [1]
    assert os.sched_getaffinity(0) == before
