"""Workers on a Ray cluster (the extra ``cluster``): each run and each slice is a Ray task.

All machines work in the folder of the studies, which must lie on a file system that they share and
that locks files. A task whose process or node is lost begins again and resumes from its files.
"""

from __future__ import annotations

import getpass
import os
import platform
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from zerolab.core.code_digests import code_digest
from zerolab.core.errors import UserError, one_line
from zerolab.core.files import make_folder
from zerolab.core.processes import claim_cores
from zerolab.core.ray_cluster import Cluster, last_line, ray, working_nodes
from zerolab.networks.inference import processor_precision
from zerolab.store.folder import exclusive, is_locked
from zerolab.studies.tasks import CompileTask, Outcome, Task, TrainTask, perform

_PROBE = ".probe-"
_ATTEMPTS = 4
"""Number of times that a task may be lost without progress."""
_SECONDS_TO_END = 30.0


class _Job(NamedTuple):
    """A task on its way to a node."""

    task: Task
    code: str
    """Digest of zerolab's code on the machine of the study."""
    probe: str
    """Folder beside the runs that is locked while the study is at work."""
    is_repeated: bool
    """True if the task was lost before."""


@dataclass
class _Underway:
    """A submitted task."""

    task: Task
    state: bytes = b""
    """State of the run when the task was last submitted."""
    losses: int = 0
    """Number of losses since the run last made progress."""
    nodes: int = 1
    """Number of nodes that have yet to finish it."""
    failure: list[str] | None = None


class RayWorkers:
    """Workers on a cluster: one per CPU, or `count` of them."""

    def __init__(self, address: str, folder: Path, count: int = 0) -> None:
        """Join the cluster at ``HOST:PORT``, or start one on this machine for ``local``.

        `folder` is the root folder of studies. Raises UserError if there is no such cluster or if
        it has fewer CPUs than `count`.
        """
        self.cluster = Cluster.join(address, count)
        self.count = self.cluster.workers
        self._folder = folder.absolute()
        self._underway: dict[Any, _Underway] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Check all nodes; raise UserError if they differ or do not share the folder."""
        self._stack.callback(self.cluster.leave)
        with self._stack:
            if not self.cluster.is_local:
                self.cluster.require_equal_machines(processor_precision)
            self._probe = self._stack.enter_context(_locked_probe(self._folder))
            for node, is_shared in self.cluster.call_on_nodes(_shares, self._probe):
                if not is_shared:
                    raise UserError(_not_shared(node["NodeManagerAddress"], self._folder))
            self._perform = ray.remote(_perform)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            for reference in self._underway:
                with suppress(ray.exceptions.RayError, ValueError):
                    ray.cancel(reference, force=True)

    def submit(self, task: Task) -> None:
        self._send(_Underway(task))

    def _send(self, underway: _Underway) -> None:
        """Submit a task, again if it was lost."""
        task = underway.task
        underway.state = _run_state(task)
        job = _Job(task, code_digest(), self._probe, is_repeated=underway.losses > 0)
        if isinstance(task, CompileTask):  # each node has its own cache of kernels
            cpus, gpus = 0, 0.0
            strategies = [self.cluster.on_node(node["NodeID"]) for node in working_nodes()]
        else:
            cpus, gpus = 1, self.cluster.gpu_share
            strategies = ["SPREAD"]
        underway.nodes = len(strategies)
        for strategy in strategies:
            remote = self._perform.options(
                num_cpus=cpus, num_gpus=gpus, max_retries=0, scheduling_strategy=strategy
            )
            self._underway[remote.remote(job)] = underway

    def finished(self, seconds: float) -> list[Outcome]:
        every = list(self._underway)
        if not ray.wait(every, timeout=seconds)[0]:
            return []
        done, _ = ray.wait(every, num_returns=len(every), timeout=0)
        return [outcome for each in done if (outcome := self._outcome(each)) is not None]

    def _outcome(self, reference: Any) -> Outcome | None:
        """Return the outcome of a task; None if it continues on another node."""
        underway = self._underway.pop(reference)
        outcome, reason = _result(reference, underway.task)
        underway.nodes -= 1
        if outcome is not None and outcome.failure is not None:
            underway.failure = outcome.failure
        if underway.nodes:
            return None
        if underway.failure is not None or isinstance(underway.task, CompileTask):
            return Outcome(underway.task, failure=underway.failure)
        if outcome is not None:
            return outcome
        has_progressed = _run_state(underway.task) != underway.state
        underway.losses = 1 if has_progressed else underway.losses + 1
        if underway.losses == _ATTEMPTS:
            message = f"it was lost {_ATTEMPTS} times without progress: {reason}"
            return Outcome(underway.task, failure=[message])
        self._send(underway)
        return None


def _result(reference: Any, task: Task) -> tuple[Outcome | None, str]:
    """Return the outcome of a Ray task; None and the reason if it was lost."""
    try:
        outcome: Outcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Outcome(task, failure=[last_line(error)]), ""
    except ray.exceptions.RayError as error:
        return None, one_line(error)
    return outcome, ""


def _run_state(task: Task) -> bytes:
    """Return the state of a run, which changes when the run progresses; empty for other tasks."""
    if isinstance(task, TrainTask):
        with suppress(OSError):
            return (Path(task.folder) / "state.json").read_bytes()
    return b""


@contextmanager
def _locked_probe(folder: Path) -> Iterator[str]:
    """Yield the path of a folder with a random name in `folder`, locked by this process.

    A node that sees the lock works in the same folder; see `_shares`.
    """
    for former in folder.glob(f"{_PROBE}*"):  # of killed studies
        if not is_locked(former):
            shutil.rmtree(former, ignore_errors=True)
    probe = folder / f"{_PROBE}{secrets.token_hex(16)}"
    make_folder(probe)
    try:
        with exclusive(probe):
            yield str(probe)
    finally:
        shutil.rmtree(probe, ignore_errors=True)


# Functions that run on nodes


def _perform(job: _Job) -> Outcome:
    """Perform a task on this node."""
    if code_digest() != job.code:
        return Outcome(
            job.task,
            failure=[
                f"node {platform.node()} has another version of zerolab than the machine of the"
                " study: install the same version on all nodes"
            ],
        )
    if not _shares(job.probe):
        folder = Path(job.probe).parent
        return Outcome(job.task, failure=[_not_shared(platform.node(), folder)])
    claim_cores(_core_locks(ray.get_runtime_context().get_node_id()), _single_cores())
    if job.is_repeated and isinstance(job.task, TrainTask):
        _await_unlocked(Path(job.task.folder))
    return perform(job.task)


def _shares(probe: str) -> bool:
    """Return whether this machine sees the probe of the study and the lock on it."""
    return is_locked(Path(probe))


def _not_shared(node: str, folder: Path) -> str:
    return (
        f"node {node} does not share {folder} with the machine of the study: expected --folder on a"
        " file system that all nodes share and that locks files"
    )


def _await_unlocked(run: Path) -> None:
    """Wait for the end of a process that was lost but may still be at work."""
    end = time.monotonic() + _SECONDS_TO_END
    while is_locked(run) and time.monotonic() < end:
        time.sleep(_SECONDS_TO_END / 100)


@cache
def _single_cores() -> list[list[int]]:
    """Return the cores that this process may use before it is pinned, each by itself.

    Learning on another number of cores would change the last bits of the weights.
    """
    if not hasattr(os, "sched_getaffinity"):
        return []
    return [[core] for core in sorted(os.sched_getaffinity(0))]


def _core_locks(node: str) -> Path:
    """Return the folder of the locks on the cores of a node, shared by all studies of a user."""
    # Users in containers may have no name; Windows does not number users.
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"zerolab-cores-{node}-{user}"
    make_folder(folder)
    return folder
