"""What a node of a cluster does with a task of a study; it knows nothing of who brought it.

A task works in the study's own folder where the node has it, too: that is tried, not assumed.
Otherwise the files it needs travel (see `studies.engine.travel`).
"""

from __future__ import annotations

import getpass
import os
import platform
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from filelock import FileLock, Timeout

from zerolab.core.code_digests import code_digest
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.store.checks import digest
from zerolab.store.folder import is_locked
from zerolab.store.run_folder import RunFolder
from zerolab.studies.engine.travel import FolderCopy, Lender
from zerolab.studies.tasks import (
    Entrant,
    OnCommit,
    Outcome,
    SliceTask,
    Task,
    TrainTask,
    entrant_network,
    perform,
)

_CACHE_FOLDERS = 256
"""Networks of players that a node keeps; the ones used least recently are removed."""
_SECONDS_TO_END = 30.0


class LostError(BaseException):
    """The connection to the study's folder is lost; no error of the task that it is raised in."""


class Source(Lender, Protocol):
    """The study's machine, as a node sees it. Methods raise `LostError` when it does not answer."""

    def sees(self, path: str) -> bool:
        """See `Keeper.sees`."""
        ...


class Job(NamedTuple):
    """A task on its way to a node."""

    task: Task
    code: str
    """See `code_digest`; of the machine that the task comes from."""
    probe: str
    """A folder beside the runs, which has a random name and is locked while the study goes on."""
    tokens: Mapping[str, str]
    """By the folders of runs: see `Keeper.lend`."""
    is_again: bool = False
    """Whether it was begun before, on a node or by a process that was lost."""


def perform_on_node(job: Job, source: Source) -> Outcome | None:
    """Do a task of a study here; None where the study's machine was lost on the way."""
    if code_digest() != job.code:
        told = f"node {platform.node()} has another version of zerolab than the study's machine"
        return Outcome(job.task, failure=[f"{told}: install the same one on all nodes"])
    try:
        return perform(_Here(job, source))._replace(task=job.task)
    except LostError:
        return None


@dataclass(frozen=True)
class _Here:
    """A task in the folders of this node."""

    job: Job
    source: Source

    @property
    def title(self) -> str:
        return self.job.task.title

    def run(self, on_commit: OnCommit) -> Any:
        task = self.job.task
        if not self.job.tokens:
            return task.run(on_commit)
        if shares_folder(self.job.probe, self.source):
            if self.job.is_again and isinstance(task, TrainTask):
                _await_unlocked(Path(task.folder))
            return task.run(on_commit)
        if isinstance(task, TrainTask):
            self._train(task)
            return None
        assert isinstance(task, SliceTask)
        return self._play(task)

    def _train(self, task: TrainTask) -> None:
        with tempfile.TemporaryDirectory(prefix="zerolab-") as temporary:
            path = Path(temporary) / Path(task.folder).name
            copy = FolderCopy(self.source, self.job.tokens[task.folder], path)
            copy.begin()
            copy.fetch()
            try:
                replace(task, folder=str(path)).run(copy.send_after_stage)
            except UserError as error:
                raise UserError(str(error).replace(str(path), task.folder)) from None
            copy.send()

    def _play(self, task: SliceTask) -> Any:
        entrants = [
            each if each.run is None else each._replace(run=str(self._player(each, each.run)))
            for each in task.entrants
        ]
        return replace(task, entrants=entrants).run()

    def _player(self, entrant: Entrant, run: str) -> Path:
        """Return a folder with what a player needs of its run; one that is here already serves."""
        with tempfile.TemporaryDirectory(prefix="zerolab-") as temporary:
            head = FolderCopy(self.source, self.job.tokens[run], Path(temporary))
            head.begin()
            head.fetch()
            network = entrant_network(entrant, RunFolder.open(head.folder))
        cache_folder = _cache_folder()
        copy = FolderCopy(self.source, self.job.tokens[run], cache_folder / secrets.token_hex(8))
        known = cache_folder / digest(repr(sorted(copy.begin([network]).items())).encode())
        if not copy.is_at(known):
            _trim(cache_folder)
            copy.fetch()
            with FileLock(f"{cache_folder}.lock"):
                if not copy.is_at(known):  # no other process, which may be using it, was faster
                    shutil.rmtree(known, ignore_errors=True)
                    copy.folder.rename(known)
            shutil.rmtree(copy.folder, ignore_errors=True)
        with suppress(OSError):  # another process trims
            os.utime(known)
        return known


def _await_unlocked(run: Path) -> None:
    """Give a process that was lost, but may not have noticed, time to end."""
    end = time.monotonic() + _SECONDS_TO_END
    while is_locked(run) and time.monotonic() < end:
        time.sleep(_SECONDS_TO_END / 100)


def _cache_folder() -> Path:
    """Return this user's folder of players; what lies in it is checked before it is used."""
    return _own_folder("zerolab-players")


def _own_folder(name: str) -> Path:
    """Return a folder of this user for temporary files that processes share."""
    # Containers run as users without a name; Windows numbers none.
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"{name}-{user}"
    make_folder(folder)
    return folder


def _trim(folder: Path) -> None:
    """Keep the folders that were used last."""
    with suppress(OSError):  # another process trims, too
        every = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in every[_CACHE_FOLDERS:]:
            shutil.rmtree(path, ignore_errors=True)


_shares: dict[str, bool] = {}


def shares_folder(probe: str, source: Source) -> bool:
    """Return whether this node can work in the study's own folder.

    It can if it sees the probe, whose name nobody can guess, sees that the study's machine holds a
    lock on it, and if a file that is written into it is seen over there.
    """
    if probe not in _shares:
        _shares[probe] = _try_to_share(probe, source)
    return _shares[probe]


def _try_to_share(probe: str, source: Source) -> bool:
    answer = Path(probe) / f"{secrets.token_hex(16)}.answer"
    try:
        if not is_locked(Path(probe)):
            return False
        answer.write_bytes(b"")
        return source.sees(str(answer))
    except OSError:
        return False
    finally:
        with suppress(OSError):
            answer.unlink()


_held: list[FileLock] = []
_cores: list[int] = []
"""Those that this process might use before it was pinned."""


def take_core(node: str) -> None:
    """Pin this process to a core of the node that is free, and keep that for good.

    Where none is, because idle processes of another study have them, it shares one until it is
    called again. Learning on another number of cores would change the last bits of the weights.
    """
    if _held or not hasattr(os, "sched_setaffinity"):
        return
    folder = _own_folder(f"zerolab-cores-{node}")
    if not _cores:
        _cores.extend(sorted(os.sched_getaffinity(0)))
    for core in _cores:
        lock = FileLock(folder / str(core), thread_local=False)
        with suppress(Timeout):
            lock.acquire(timeout=0)
            _held.append(lock)
            os.sched_setaffinity(0, [core])
            return
    os.sched_setaffinity(0, [_cores[os.getpid() % len(_cores)]])
