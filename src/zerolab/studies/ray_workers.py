"""Workers on a Ray cluster.

Ray distributes tasks; what they need and make travels between their nodes and a keeper, an actor on
the machine of the study (see `studies.engine.travel`). A task whose process or node is lost is
begun again, and goes on from the files that have come back.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from zerolab.core.code_digests import code_digest
from zerolab.core.errors import UserError, one_line
from zerolab.core.files import make_folder
from zerolab.core.ray_cluster import Cluster, last_line, ray
from zerolab.networks.ray_nodes import check_nodes
from zerolab.store.folder import exclusive, is_locked
from zerolab.studies.engine.node import Job, LostError, perform_on_node, take_core
from zerolab.studies.engine.travel import Keeper, Piece, Summaries
from zerolab.studies.tasks import CompileTask, Outcome, PositionsTask, SliceTask, Task, TrainTask

_KEEPER_THREADS = 16
_PROBE = ".probe-"
_TRIES = 4
"""How often a task may be lost without having come further."""


@dataclass
class _Underway:
    task: Task
    tokens: dict[str, str] = field(default_factory=dict)
    state: bytes = b""
    """That of the run when the task was sent."""
    losses: int = 0
    places: int = 1
    """On how many nodes it is being done."""
    failure: list[str] | None = None


class RayWorkers:
    """Workers on a cluster: one per CPU, or `count` of them."""

    def __init__(self, address: str, count: int = 0) -> None:
        """Join the cluster at ``HOST:PORT``, or start one here for ``local``.

        Raises UserError where there is none, or it has fewer CPUs than `count`.
        """
        self.cluster = Cluster.joined(address, count)
        self.count = self.cluster.workers
        self._underway: dict[Any, _Underway] = {}
        self._stack = ExitStack()
        self._probes: dict[Path, str] = {}

    def __enter__(self) -> Self:
        """See `Workers`; raise UserError if a node differs from others; see `check_nodes`."""
        self._stack.callback(self.cluster.leave)
        with self._stack:
            self._do = ray.remote(_do)
            if not self.cluster.is_local:
                check_nodes(self.cluster)
            actor = ray.remote(Keeper).options(
                num_cpus=0,
                max_concurrency=_KEEPER_THREADS,
                max_restarts=-1,
                max_task_retries=-1,  # a new one knows no tokens: tasks are then begun again
                scheduling_strategy=self.cluster.on_this_node(),
            )
            self._keeper = actor.remote()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `Workers`."""
        with self._stack:
            for reference in self._underway:
                with suppress(ray.exceptions.RayError, ValueError):
                    ray.cancel(reference, force=True)

    def submit(self, task: Task) -> None:
        """See `Workers`."""
        self._send(_Underway(_with_full_paths(task)))

    def _send(self, underway: _Underway) -> None:
        """Begin a task, anew if it was lost."""
        task = underway.task
        underway.state = _state(task)
        underway.tokens = {folder: secrets.token_hex(16) for folder in _folders(task)}
        trains = isinstance(task, TrainTask)
        self._await([self._keeper.lend.remote(token, folder, trains)
                     for folder, token in underway.tokens.items()])  # fmt: skip
        probe = self._probe(next(iter(underway.tokens))) if underway.tokens else ""
        job = Job(task, code_digest(), probe, underway.tokens, underway.losses > 0)
        if isinstance(task, CompileTask):  # kernels are cached on the disk of every node
            places = [self._at(node["NodeID"], self._do) for node in self.cluster.nodes()]
        else:
            share = self.cluster.gpu_share
            places = [
                self._do.options(
                    num_cpus=1, num_gpus=share, max_retries=0, scheduling_strategy="SPREAD"
                )
            ]
        underway.places = len(places)
        for place in places:
            self._underway[place.remote(job, self._keeper)] = underway

    def _at(self, node: str, function: Any) -> Any:
        """Return a function that is called on a certain node, at once."""
        return function.options(
            num_cpus=0, max_retries=0, scheduling_strategy=self.cluster.on_node(node)
        )

    def _probe(self, folder: str) -> str:
        """Return the probe for the folder that a run lies in; see `Job.probe`."""
        parent = Path(folder).parent
        if parent not in self._probes:
            for former in parent.glob(f"{_PROBE}*"):
                if not is_locked(former):
                    shutil.rmtree(former, ignore_errors=True)
            probe = parent / f"{_PROBE}{secrets.token_hex(16)}"
            make_folder(probe)
            self._stack.callback(shutil.rmtree, probe, ignore_errors=True)
            self._stack.enter_context(exclusive(probe))
            self._probes[parent] = str(probe)
        return self._probes[parent]

    def _await(self, answers: Sequence[Any]) -> None:
        """Wait for the keeper; raise UserError where it is not there, as when the head has died."""
        try:
            ray.get(answers)
        except ray.exceptions.RayError as error:
            raise UserError(
                f"the Ray cluster at {self.cluster.address} does not work any more"
                f" ({one_line(last_line(error))}); what is finished is stored"
            ) from None

    def finished(self, seconds: float) -> list[Outcome]:
        """See `Workers`."""
        every = list(self._underway)
        if ray.wait(every, timeout=seconds)[0]:
            done, _ = ray.wait(every, num_returns=len(every), timeout=0)
            return [outcome for each in done if (outcome := self._outcome(each)) is not None]
        return []

    def _outcome(self, reference: Any) -> Outcome | None:
        """Return how a task has ended; None if it goes on, here or elsewhere."""
        underway = self._underway.pop(reference)
        outcome, reason = _result(reference, underway.task)
        underway.places -= 1
        if outcome is not None and outcome.failure is not None:
            underway.failure = outcome.failure
        if underway.places:
            return None
        self._await([self._keeper.revoke.remote(list(underway.tokens.values()))])
        if underway.failure is not None or isinstance(underway.task, CompileTask):
            return Outcome(underway.task, failure=underway.failure)
        if outcome is not None:
            return outcome
        underway.losses = 1 + (underway.losses if _state(underway.task) == underway.state else 0)
        if underway.losses == _TRIES:
            told = f"it was lost {_TRIES} times without having come further: {reason}"
            return Outcome(underway.task, failure=[told])
        self._send(underway)
        return None


def _do(job: Job, keeper: Any) -> Outcome | None:
    """Do a task on whatever node this is."""
    take_core(ray.get_runtime_context().get_node_id())
    return perform_on_node(job, _Connection(keeper))


class _Connection:
    """A keeper as a node sees it."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            return ray.get(getattr(self._actor, method).remote(*arguments))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, UserError):
                raise UserError(str(error.cause)) from None
            raise LostError(str(error)) from error
        except ray.exceptions.RayError as error:
            raise LostError(str(error)) from error

    def sees(self, path: str) -> bool:
        return bool(self._ask("sees", path))

    def begin(self, token: str, networks: Sequence[int] = ()) -> Summaries:
        found: Summaries = self._ask("begin", token, networks)
        return found

    def read(self, token: str, wanted: Sequence[tuple[str, int]]) -> list[Piece]:
        pieces: list[Piece] = self._ask("read", token, wanted)
        return pieces

    def stage(self, token: str, pieces: Sequence[Piece]) -> None:
        self._ask("stage", token, pieces)

    def commit(
        self, token: str, files: Summaries, removed: Sequence[str], pieces: Sequence[Piece]
    ) -> None:
        self._ask("commit", token, files, removed, pieces)


def _result(reference: Any, task: Task) -> tuple[Outcome | None, str]:
    """Return the outcome of a Ray task, or None and what it was lost by."""
    try:
        outcome: Outcome | None = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Outcome(task, failure=[last_line(error)]), ""
    except ray.exceptions.RayError as error:
        return None, one_line(error)
    return outcome, "the machine of the study did not answer"


def _folders(task: Task) -> list[str]:
    """Return the folders of runs that a task needs."""
    if isinstance(task, TrainTask):
        return [task.folder]
    if isinstance(task, SliceTask):
        return [each.run for each in task.entrants if each.run is not None]
    return []


def _with_full_paths(task: Task) -> Task:
    """Return a task that means the same in any working directory."""
    if isinstance(task, TrainTask):
        return replace(task, folder=str(Path(task.folder).absolute()))
    if isinstance(task, PositionsTask):
        return replace(task, path=str(Path(task.path).absolute()))
    if isinstance(task, SliceTask):
        entrants = [
            each._replace(run=str(Path(each.run).absolute())) if each.run else each
            for each in task.entrants
        ]
        return replace(task, entrants=entrants)
    return task


def _state(task: Task) -> bytes:
    """Return what changes when a run comes further; nothing for other tasks."""
    if isinstance(task, TrainTask):
        with suppress(OSError):
            return (Path(task.folder) / "state.json").read_bytes()
    return b""
