"""Folders that travel: from where a study keeps its files to a node of a cluster, and back.

A `Keeper` serves the files of the folders that it lends, each under a token of its own. A
`FolderCopy` on a node begins with those files, and sends back what has changed, in pieces of at
most `PIECE_BYTES`; pieces that the keeper has already stay where they are. The keeper replaces
files whole, ``state.json`` after all others, and then removes what is gone: so a run's folder is
consistent at every moment (see `store.run_folder`), and a lost node costs what followed its last
message.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import atomic_replace, make_folder
from zerolab.store.checks import damaged, digest, reading, writing
from zerolab.store.run_folder import RUN, RunFolder, is_run
from zerolab.store.state import RunState, write_state

PIECE_BYTES = 1 << 20
_MESSAGE_BYTES = 16 << 20
_LARGEST = 1 << 36
_STATE = "state.json"
_PLAYER_FILES = RUN.settings_file, _STATE, "metrics.jsonl"
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/){0,2}[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TIMES_SENDING = 10.0
"""How much longer than sending has taken a run goes on before it sends within an iteration."""
_SETTLED_SECONDS = 1.0
"""A file that was written more recently may be written again within the clock's resolution."""


class FileSummary(NamedTuple):
    """The content of a file in short."""

    size: int
    pieces: tuple[str, ...]
    """Digests of its pieces."""


Summaries = dict[str, FileSummary]
"""Of the files of a folder, by their paths inside it."""

_EMPTY = FileSummary(0, ())


class Piece(NamedTuple):
    """A part of a file, `PIECE_BYTES` long but for the last one."""

    name: str
    number: int
    data: bytes


class Lender(Protocol):
    """What a node asks of a `Keeper`, wherever that is."""

    def begin(self, token: str, networks: Sequence[int] = ()) -> Summaries:
        """See `Keeper.begin`."""
        ...

    def read(self, token: str, wanted: Sequence[tuple[str, int]]) -> list[Piece]:
        """See `Keeper.read`."""
        ...

    def stage(self, token: str, pieces: Sequence[Piece]) -> None:
        """See `Keeper.stage`."""
        ...

    def commit(
        self, token: str, files: Summaries, removed: Sequence[str], pieces: Sequence[Piece]
    ) -> None:
        """See `Keeper.commit`."""
        ...


@dataclass
class _Loan:
    folder: Path
    is_for_training: bool
    names: Sequence[str] = ()
    """The only files that may be read where it is not for training."""
    stack: ExitStack = field(default_factory=ExitStack)
    guard: threading.Lock = field(default_factory=threading.Lock)
    staged: dict[str, set[int]] = field(default_factory=dict)
    """Which pieces of files have come that are not committed yet."""

    def part(self, name: str) -> Path:
        """Return where the pieces of a file wait for the others; a resumed run removes it."""
        path = self.folder / name
        return path.with_name(f".{path.name}.{id(self):x}.part")


class RevokedError(Exception):
    """A token is not valid: whoever has it was taken for lost, or the keeper was begun anew."""


class Keeper:
    """Serves files to nodes, and stores what they send back; any thread may call it.

    A node knows tokens, not paths. Whatever is asked with a token that is not, or no longer, valid
    raises RevokedError: a node that was taken for lost changes nothing.
    """

    def __init__(self) -> None:
        self._loans: dict[str, _Loan] = {}

    def lend(self, token: str, folder: str, is_for_training: bool) -> None:
        """Make a token valid: for training a run, or for reading what a player needs of it."""
        self._loans[token] = _Loan(Path(folder), is_for_training)

    def revoke(self, tokens: Iterable[str]) -> None:
        """End the validity of tokens, and the locks on their folders."""
        for token in tokens:
            loan = self._loans.pop(token, None)
            if loan is not None:
                with loan.guard:
                    loan.stack.close()

    def sees(self, path: str) -> bool:
        """Return whether there is such a file here, too."""
        return Path(path).is_file()

    def begin(self, token: str, networks: Sequence[int] = ()) -> Summaries:
        """Return what is lent; a run to train is locked until its token is revoked.

        Of the run of a player, that is what its settings, its state and its records are in, and
        `networks` by their iterations. Raises UserError where another process is at work on a run
        to train, or where files are missing or damaged.
        """
        with self._using(token) as loan:
            if loan.is_for_training:
                loan.stack.enter_context(_held(loan.folder))
                return FolderScan(loan.folder).summaries()
            run = RunFolder(loan.folder, {})
            weights = (run.weights_path(each).relative_to(loan.folder) for each in networks)
            loan.names = [*_PLAYER_FILES, *(path.as_posix() for path in weights)]
            with reading(loan.folder):
                return {name: _summary(loan.folder / name) for name in loan.names}

    def read(self, token: str, wanted: Sequence[tuple[str, int]]) -> list[Piece]:
        """Return pieces of files by name and number."""
        with self._using(token) as loan:
            return [_read_piece(_inside(loan, name), name, index) for name, index in wanted]

    def stage(self, token: str, pieces: Sequence[Piece]) -> None:
        """Put pieces beside the files that they will belong to."""
        with self._using(token) as loan:
            _stage(loan, pieces)

    def commit(
        self, token: str, files: Summaries, removed: Sequence[str], pieces: Sequence[Piece]
    ) -> None:
        """Bring a run's folder from one consistent state to the next.

        `files` are all that have changed, `pieces` those of their parts that have changed and were
        not staged before. Raises UserError, with the folder as it was or on the way between both
        states, where something does not fit or cannot be written.
        """
        with self._using(token) as loan:
            _stage(loan, pieces)
            if not (loan.folder / _STATE).exists() and RUN.settings_file in files:
                _store(loan, RUN.settings_file, files[RUN.settings_file])
                write_state(loan.folder / _STATE, RunState())  # only then other files may follow
            for name in sorted(files, key=lambda name: (name == _STATE, name)):
                _store(loan, name, files[name])
            for name in removed:
                path = _inside(loan, name)
                with writing(path):
                    path.unlink(missing_ok=True)

    @contextmanager
    def _using(self, token: str) -> Iterator[_Loan]:
        loan = self._loans.get(token)
        if loan is None:
            raise RevokedError
        with loan.guard:
            yield loan


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the lock on a run that exists, at its commit point, or on an empty folder."""
    make_folder(folder)
    holder = RunFolder.open(folder).locked() if is_run(folder) else RUN.locked(folder)
    with holder:
        yield


def _inside(loan: _Loan, name: str) -> Path:
    """Return the path of a file; raise UserError for one that is not the loan's to touch."""
    path = loan.folder / name
    is_listed = loan.is_for_training or name in loan.names
    if not (is_listed and _NAME.fullmatch(name)) or path.is_symlink() or path.parent.is_symlink():
        raise UserError(f"{quoted(name)} is no file of {quoted(loan.folder)} that may be used here")
    return path


def _stage(loan: _Loan, pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        path = _inside(loan, piece.name)
        if not loan.is_for_training or len(piece.data) > PIECE_BYTES or piece.number < 0:
            raise UserError(f"{quoted(path)}: this piece cannot be stored")
        make_folder(path.parent)
        part = loan.part(piece.name)
        with writing(part), open(part, "r+b" if part.exists() else "wb") as file:
            file.seek(piece.number * PIECE_BYTES)
            file.write(piece.data)
        loan.staged.setdefault(piece.name, set()).add(piece.number)


def _store(loan: _Loan, name: str, summary: FileSummary) -> None:
    """Put a file together, of staged pieces and those of its former content; then replace it."""
    path, came = _inside(loan, name), loan.staged.pop(name, set())
    if not loan.is_for_training or not 0 <= summary.size <= _LARGEST:
        raise UserError(f"{quoted(path)}: a file of {summary.size:,} bytes cannot be stored")
    part = loan.part(name)
    make_folder(path.parent)
    with atomic_replace(path) as temporary:
        part.touch()
        part.replace(temporary)
        with open(temporary, "r+b") as file:
            for index in range(len(summary.pieces)):
                if index not in came and path.exists():
                    file.seek(index * PIECE_BYTES)
                    file.write(_read_piece(path, name, index).data)
            file.truncate(summary.size)
        if _summary(temporary) != summary:
            raise damaged(path, "it was changed on its way")


class FolderScan:
    """Finds what a folder holds; files that have not been written since are not read again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[tuple[int, ...], FileSummary]] = {}

    def summaries(self) -> Summaries:
        """Return all files but hidden ones."""
        known, self._known = self._known, {}
        found: Summaries = {}
        for path in sorted(self._folder.rglob("*")):
            name = path.relative_to(self._folder).as_posix()
            if not _NAME.fullmatch(name) or path.is_symlink() or not path.is_file():
                continue
            status = path.stat()
            key = status.st_ino, status.st_size, status.st_mtime_ns
            is_known = name in known and known[name][0] == key
            found[name] = known[name][1] if is_known else _summary(path)
            if time.time() - status.st_mtime > _SETTLED_SECONDS:
                self._known[name] = key, found[name]
        return found


def _summary(path: Path) -> FileSummary:
    size, pieces = 0, []
    with open(path, "rb") as file:
        while data := file.read(PIECE_BYTES):
            size += len(data)
            pieces.append(digest(data))
    return FileSummary(size, tuple(pieces))


def _read_piece(path: Path, name: str, index: int) -> Piece:
    with reading(path), open(path, "rb") as file:
        file.seek(index * PIECE_BYTES)
        return Piece(name, index, file.read(PIECE_BYTES))


class FolderCopy:
    """A folder on a node that begins as a copy of one that a keeper lends."""

    def __init__(self, keeper: Lender, token: str, folder: Path) -> None:
        self.folder = folder
        self._keeper = keeper
        self._token = token
        self._scan = FolderScan(folder)
        self._sent: Summaries = {}
        self._due = 0.0

    def is_at(self, folder: Path) -> bool:
        """Return whether a folder holds what was begun with, so that nothing need be fetched."""
        return folder.is_dir() and FolderScan(folder).summaries() == self._sent

    def begin(self, networks: Sequence[int] = ()) -> Summaries:
        """Ask what is lent; see `Keeper.begin`."""
        self._sent = self._keeper.begin(self._token, networks)
        return self._sent

    def fetch(self) -> None:
        """Fetch all files; raise UserError where one arrives damaged."""
        make_folder(self.folder)
        for name in self._sent:
            if not _NAME.fullmatch(name):
                raise UserError(f"{quoted(name)} cannot be the name of a file that travels")
            make_folder((self.folder / name).parent)
            (self.folder / name).write_bytes(b"")
        every = [(name, index) for name, each in self._sent.items()
                 for index in range(len(each.pieces))]  # fmt: skip
        at_once = _MESSAGE_BYTES // PIECE_BYTES
        for first in range(0, len(every), at_once):
            for piece in self._keeper.read(self._token, every[first : first + at_once]):
                with open(self.folder / piece.name, "r+b") as file:
                    file.seek(piece.number * PIECE_BYTES)
                    file.write(piece.data)
        for name, each in self._sent.items():
            if _summary(self.folder / name) != each:
                raise damaged(self.folder / name, "it was changed on its way")

    def send(self) -> None:
        """Send what has changed; at return it is on the keeper's disk."""
        found = self._scan.summaries()
        changed = {name: each for name, each in found.items() if self._sent.get(name) != each}
        removed = sorted(self._sent.keys() - found.keys())
        if not changed and not removed:
            return
        batch: list[Piece] = []
        for piece in self._new_pieces(changed):
            if sum(len(each.data) for each in batch) + len(piece.data) > _MESSAGE_BYTES:
                self._keeper.stage(self._token, batch)
                batch = []
            batch.append(piece)
        self._keeper.commit(self._token, changed, removed, batch)
        self._sent = found

    def send_after_stage(self, ends_iteration: bool) -> None:
        """Send what has changed at the end of an iteration, so that no more than one can be lost.

        After other stages, do so unless sending has taken more than its share of the time so far:
        runs with short stages, or very many runs at once, need not wait for more than they must.
        """
        if ends_iteration or time.monotonic() >= self._due:
            begin = time.monotonic()
            self.send()
            end = time.monotonic()
            self._due = end + _TIMES_SENDING * (end - begin)

    def _new_pieces(self, changed: Summaries) -> Iterator[Piece]:
        for name, summary in changed.items():
            former = self._sent.get(name, _EMPTY).pieces
            for index, each in enumerate(summary.pieces):
                if former[index : index + 1] != (each,):
                    yield _read_piece(self.folder / name, name, index)
