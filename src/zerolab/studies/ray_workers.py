"""Workers on a Ray cluster (requires the ``cluster`` extra); each study task is one Ray task.

All machines work in the same studies folder, which must be on a shared file system with file locks.
A task whose process or node is lost is restarted and resumes from its files.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from zerolab.core.code_digests import package_digest
from zerolab.core.errors import UserError, one_line
from zerolab.core.files import make_folder
from zerolab.core.ray_cluster import (
    RayCluster,
    last_error_line,
    pin_to_free_cores,
    ray,
    worker_nodes,
)
from zerolab.core.resources import DEVICE_VARIABLE
from zerolab.evaluation.dataset import is_being_made
from zerolab.networks.inference import cpu_precision_name
from zerolab.store.folder import is_locked, lock_folder
from zerolab.studies.tasks import (
    CompileTask,
    DatasetTask,
    Task,
    TaskOutcome,
    TrainTask,
    perform_task,
)

_PROBE = ".probe-"
_ATTEMPTS = 4
"""Number of attempts without progress after which a lost task fails."""
_SECONDS_TO_END = 30.0


class _Job(NamedTuple):
    """Message that sends a task to a node."""

    task: Task
    code: str
    """Digest of zerolab's code on the machine that runs the study."""
    probe: str
    """Path of a folder that stays locked while the study is running."""
    is_repeated: bool
    """True if the task was lost before."""


@dataclass
class _Submission:
    """Submitted task."""

    task: Task
    state: bytes = b""
    """State of the run when the task was last submitted."""
    times_lost: int = 0
    """Number of times that the task was lost since the run last made progress."""
    nodes: int = 1
    """Number of nodes that have not finished the task."""
    error_lines: list[str] | None = None
    """Last lines of an error message from any node."""


class RayWorkers:
    """Workers on a Ray cluster, by default one per CPU."""

    def __init__(self, address: str, folder: Path, count: int = 0) -> None:
        """Join the cluster at ``HOST:PORT``, or start a cluster on this machine for ``local``.

        `folder` is the root folder of studies. Raises UserError if the cluster does not exist or
        has fewer than `count` CPUs.
        """
        self.cluster = RayCluster.join(address, count)
        self.count = self.cluster.worker_count
        self._folder = folder.absolute()
        self._submissions: dict[Any, _Submission] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Check all nodes; raise UserError if machines differ or do not share the folder."""
        self._stack.callback(self.cluster.leave)
        with self._stack:
            if not self.cluster.is_local:
                self.cluster.require_equal_machines(cpu_precision_name)
            self._probe = self._stack.enter_context(_locked_probe(self._folder))
            for node, is_shared in self.cluster.call_on_nodes(_shares, self._probe):
                if not is_shared:
                    raise UserError(_not_shared(node["NodeManagerAddress"], self._folder))
            self._perform = ray.remote(_perform_job)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            for reference in self._submissions:
                with suppress(ray.exceptions.RayError, ValueError):
                    ray.cancel(reference, force=True)

    def submit(self, task: Task) -> None:
        self._send(_Submission(task))

    def _send(self, submission: _Submission) -> None:
        """Submit a task for the first time, or resubmit a lost task."""
        task = submission.task
        submission.state = _run_state(task)
        job = _Job(task, package_digest(), self._probe, is_repeated=submission.times_lost > 0)
        if isinstance(task, CompileTask):  # each node has a separate cache of kernels
            cpus, gpus = 0, 0.0
            strategies = [
                self.cluster.hard_node_affinity(node["NodeID"]) for node in worker_nodes()
            ]
        else:
            cpus, gpus = 1, self.cluster.gpu_share
            strategies = ["SPREAD"]
        submission.nodes = len(strategies)
        for strategy in strategies:
            remote = self._perform.options(
                num_cpus=cpus, num_gpus=gpus, max_retries=0, scheduling_strategy=strategy
            )
            self._submissions[remote.remote(job)] = submission

    def wait_for_outcomes(self, seconds: float) -> list[TaskOutcome]:
        references = list(self._submissions)
        if not ray.wait(references, timeout=seconds)[0]:
            return []
        done, _ = ray.wait(references, num_returns=len(references), timeout=0)
        outcomes = (self._outcome(reference) for reference in done)
        return [outcome for outcome in outcomes if outcome is not None]

    def _outcome(self, reference: Any) -> TaskOutcome | None:
        """Return the outcome of a task, or None if the task continues or was submitted again."""
        submission = self._submissions.pop(reference)
        outcome, reason = _result(reference, submission.task)
        submission.nodes -= 1
        if outcome is not None and outcome.error_lines is not None:
            submission.error_lines = outcome.error_lines
        if submission.nodes:
            return None
        if submission.error_lines is not None or isinstance(submission.task, CompileTask):
            return TaskOutcome(submission.task, error_lines=submission.error_lines)
        if outcome is not None:
            return outcome
        has_progressed = _run_state(submission.task) != submission.state
        submission.times_lost = 1 if has_progressed else submission.times_lost + 1
        if submission.times_lost == _ATTEMPTS:
            message = f"it was lost {_ATTEMPTS} times without progress: {reason}"
            return TaskOutcome(submission.task, error_lines=[message])
        self._send(submission)
        return None


def _result(reference: Any, task: Task) -> tuple[TaskOutcome | None, str]:
    """Return the outcome of a Ray task, or None and the reason if the task was lost."""
    try:
        outcome: TaskOutcome = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return TaskOutcome(task, error_lines=[last_error_line(error)]), ""
    except ray.exceptions.RayError as error:
        return None, one_line(error)
    return outcome, ""


def _run_state(task: Task) -> bytes:
    """Return the stored state of the run that a task trains, or nothing for other tasks."""
    if isinstance(task, TrainTask):
        with suppress(OSError):
            return (Path(task.run_path) / "state.json").read_bytes()
    return b""


@contextmanager
def _locked_probe(folder: Path) -> Iterator[str]:
    """Create a randomly named folder in `folder`, lock it and yield its path.

    A node that observes the lock works in the same folder; see `_shares`.
    """
    for stale in folder.glob(f"{_PROBE}*"):  # left by killed studies
        if not is_locked(stale):
            shutil.rmtree(stale, ignore_errors=True)
    probe = folder / f"{_PROBE}{secrets.token_hex(16)}"
    make_folder(probe)
    try:
        with lock_folder(probe):
            yield str(probe)
    finally:
        shutil.rmtree(probe, ignore_errors=True)


# Functions that run on nodes


def _perform_job(job: _Job) -> TaskOutcome:
    """Perform a task on this node."""
    if package_digest() != job.code:
        return TaskOutcome(
            job.task,
            error_lines=[
                f"node {platform.node()} has a different version of zerolab from the machine that"
                " runs the study: install the same version on all nodes"
            ],
        )
    if not _shares(job.probe):
        folder = Path(job.probe).parent
        return TaskOutcome(job.task, error_lines=[_not_shared(platform.node(), folder)])
    os.environ.pop(DEVICE_VARIABLE, None)  # Ray already shows each worker only the assigned GPUs
    pin_to_free_cores()  # learning on several cores would change the last bits of the weights
    if job.is_repeated:
        _await_released(job.task)
    return perform_task(job.task)


def _shares(probe: str) -> bool:
    """Return whether the study's probe exists on this machine and is locked."""
    return is_locked(Path(probe))


def _not_shared(node: str, folder: Path) -> str:
    return (
        f"node {node} does not share {folder} with the machine that runs the study: expected"
        " --folder on a file system with file locks that all nodes share"
    )


def _await_released(task: Task) -> None:
    """Wait up to 30 seconds for a lost process, which may still be running, to release a task."""
    deadline = time.monotonic() + _SECONDS_TO_END
    while _is_in_use(task) and time.monotonic() < deadline:
        time.sleep(_SECONDS_TO_END / 100)


def _is_in_use(task: Task) -> bool:
    """Return whether a process is working on the run or data set of a task."""
    if isinstance(task, DatasetTask):
        return is_being_made(Path(task.path))
    return isinstance(task, TrainTask) and is_locked(Path(task.run_path))
