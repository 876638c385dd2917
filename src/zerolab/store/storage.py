"""Copies of folders in storage that `pyarrow.fs` can reach: a local path, ``file://``, ``s3://``.

A run is trained in a local folder, because its database of games and its lock need a file system.
After every iteration, changed files are copied, ``state.json`` last. After an interrupted copy, the
latest files are therefore uncommitted, and resuming removes them. Studies copy finished work in the
same way (`zerolab.studies.execution.StudyStorage`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import pyarrow
from pyarrow import fs

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import make_folder
from zerolab.core.resources import ProgressBarFactory
from zerolab.store.checks import user_errors_on_read, user_errors_on_write
from zerolab.store.folder import read_run_state
from zerolab.store.run_folder import CHANGEABLE_SETTINGS, RUN_FOLDER_KIND, RunFolder, is_run

STATE_FILE_NAME = "state.json"
"""File that commits a run's other files, and is therefore copied last."""
_DIGESTS = "digests.json"
_DERIVED = "tensorboard"
_PART = ".part"
_BLOCK = 1 << 22
_SECRET = re.compile(r"//[^/@\s]*:[^@\s]*@")
"""User and password in a URI."""


def no_progress_bar(
    title: str, total: int, unit: str
) -> AbstractContextManager[Callable[[int, str], None]]:
    """Return a progress bar that shows nothing."""
    return nullcontext(lambda done, note: None)


class FolderStorage:
    """Copy of a folder in storage, under the name of the folder."""

    noun: ClassVar[str] = "a folder"
    """Name of the copied content, for messages."""
    folder_option: ClassVar[str] = "--folder"
    """Command-line option for the local folder, for messages."""

    def __init__(self, uri: str, folder: Path) -> None:
        """Raise UserError if the storage cannot be used or contains other files under that name."""
        self.uri = _SECRET.sub("//", uri)
        """URI without user and password."""
        self._folder = folder
        with self._errors("use"):
            if "://" in uri:
                self._files, root = fs.FileSystem.from_uri(uri)
            else:
                self._files, root = fs.LocalFileSystem(), Path(uri).absolute().as_posix()
        name = Path(os.path.abspath(folder)).name  # noqa: PTH100  keeps the name of a link
        self._root = f"{root.rstrip('/')}/{name}"
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        # Path.resolve() raises RuntimeError for a loop of links.
        here, there = Path(os.path.realpath(folder)), Path(os.path.realpath(self._root))
        if self._is_local and (here.is_relative_to(there) or there.is_relative_to(here)):
            raise UserError(
                f"--storage {quoted(self.uri)}: the copy would be in {there}, and {self.noun} is"
                f" in {here}; expected separate folders"
            )
        self._known: dict[str, tuple[int, int]] = {}
        """Sizes and times of local files that equal their copies."""
        self._sizes = dict(self._stored_files())
        """Sizes in bytes of the files that were stored at the beginning, by name."""
        stored = set(self._sizes)
        listed = self._read_digests()
        if stored and listed is None and STATE_FILE_NAME not in stored:
            raise UserError(
                f"{name} in {quoted(self.uri)} is not empty and is not a copy of {self.noun}:"
                f" expected another --storage or {self.folder_option}"
            )
        self._digests = {name: (listed or {}).get(name, "") for name in stored}
        """Digests of stored files by name; empty for a file without a stored digest."""
        with self._errors("write to"):
            self._write_digests()

    def upload(self, names: Iterable[str], *, remove_others: bool) -> None:
        """Copy the changed files among `names`, in this order.

        Files in storage with other names are removed if `remove_others` is set. Raises UserError if
        the storage cannot be written.
        """
        names = list(names)
        changed = False
        for name in names:
            changed |= self._upload(name)
        with self._errors("write to"):
            for name in self._digests.keys() - set(names) if remove_others else ():
                del self._digests[name]
                self._known.pop(name, None)
                changed = True
                if self._info(name).type == fs.FileType.File:
                    self._files.delete_file(self._path(name))
            if changed:
                self._write_digests()

    def download(
        self,
        folders: Iterable[str],
        files: Iterable[str] = (),
        progress_bar: ProgressBarFactory = no_progress_bar,
    ) -> None:
        """Download folders and files of the copy; "" stands for the entire copy.

        Each local folder must be missing or empty. Folders and files appear only when complete.
        Raises UserError if a file cannot be read or written, or if a folder's ``state.json`` is
        damaged.
        """
        prefixes = {subfolder: f"{subfolder}/" if subfolder else "" for subfolder in folders}
        names = {
            subfolder: [name for name in self._digests if name.startswith(prefix)]
            for subfolder, prefix in prefixes.items()
        }
        files = list(files)
        wanted = {*files, *(name for inside in names.values() for name in inside)}
        total = sum(self._sizes.get(name, 0) for name in wanted)
        done = 0
        with progress_bar(f"fetching {self.noun}", _mebibytes(total), "MiB") as update:

            def report(size: int) -> None:
                nonlocal done
                done += size
                update(_mebibytes(done), "")

            for subfolder, prefix in prefixes.items():
                self._fetch_folder(subfolder, prefix, names[subfolder], report)
            for name in files:
                self._fetch_file(name, report)

    def _fetch_folder(
        self, subfolder: str, prefix: str, names: Iterable[str], report: Callable[[int], None]
    ) -> None:
        target = self._folder / subfolder
        with user_errors_on_write(target):
            make_folder(target.parent)
            part = Path(tempfile.mkdtemp(suffix=_PART, dir=target.parent))
            try:
                for name in names:
                    self._download(name, part / name.removeprefix(prefix), report)
                if (part / STATE_FILE_NAME).exists():
                    read_run_state(part / STATE_FILE_NAME)  # raises UserError for a damaged copy
                part.chmod(0o755)
                part.rename(target)
            finally:
                shutil.rmtree(part, ignore_errors=True)

    def _fetch_file(self, name: str, report: Callable[[int], None]) -> None:
        target = self._folder / name
        part = target.with_name(target.name + _PART)
        with user_errors_on_write(target):
            try:
                self._download(name, part, report)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)

    @property
    def stored_file_names(self) -> frozenset[str]:
        """Names of the files in the copy, relative to it."""
        return frozenset(self._digests)

    def has_file(self, name: str) -> bool:
        """Return whether the storage now contains a file, which another machine may have added."""
        with self._errors("read"):
            return bool(self._info(name).type == fs.FileType.File)

    def local_file_names(self, subfolder: str = "") -> Iterator[str]:
        """Yield the names of the files in the folder or in a folder within it.

        Hidden and derived files are left out.
        """
        for path in (self._folder / subfolder).rglob("*"):
            name = path.relative_to(self._folder).as_posix()
            if path.is_file() and _is_plain(name) and _DERIVED not in name.split("/"):
                yield name

    def _upload(self, name: str) -> bool:
        """Copy a file unless its copy is equal; return whether it was copied."""
        path = self._folder / name
        with user_errors_on_read(path), open(path, "rb") as source:
            status = path.stat()
            known = status.st_size, status.st_mtime_ns
            if self._known.get(name) == known:
                return False
            digest, is_equal = hashlib.file_digest(source, _new_digest).hexdigest(), False
            if self._digests.get(name) == digest:
                with self._errors("read"):
                    is_equal = self._info(name).size == status.st_size
            if not is_equal:
                source.seek(0)
                with self._errors("write to"):
                    self._write(self._path(name), source)
        self._known[name], self._digests[name] = known, digest
        return not is_equal

    def _write_digests(self) -> None:
        content = json.dumps(self._digests, sort_keys=True).encode()
        self._write(self._path(_DIGESTS), BytesIO(content))

    def _write(self, path: str, source: BinaryIO) -> None:
        """Write a file atomically.

        pyarrow finalises an S3 object even if its upload is interrupted, so objects also have a
        temporary name until they are complete.
        """
        part = path + _PART
        if self._is_local:
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(part) as stream:
            shutil.copyfileobj(source, stream, _BLOCK)
        self._files.move(part, path)

    def _stored_files(self) -> Iterator[tuple[str, int]]:
        """Yield the names and sizes of the stored files."""
        with self._errors("read"):
            selector = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
            found = self._files.get_file_info(selector)
        for info in found:
            name = info.path.removeprefix(f"{self._root}/")
            if info.type == fs.FileType.File and name != _DIGESTS and _is_plain(name):
                yield name, info.size

    def _download(
        self, name: str, path: Path, report: Callable[[int], None] = lambda size: None
    ) -> None:
        """Download a file; `report` receives the size of each part in bytes."""
        make_folder(path.parent)
        with (
            self._errors("read"),
            self._files.open_input_stream(self._path(name)) as source,
            open(path, "wb") as target,
        ):
            while block := source.read(_BLOCK):
                target.write(block)
                report(len(block))

    def _read_digests(self) -> dict[str, Any] | None:
        """Return the stored digests, if any; if they are damaged, all files are copied again."""
        with self._errors("read"):
            if self._info(_DIGESTS).type != fs.FileType.File:
                return None
            with self._files.open_input_stream(self._path(_DIGESTS)) as stream:
                content = stream.read()
        try:
            digests = json.loads(content)
        except (ValueError, RecursionError):
            return {}
        return digests if isinstance(digests, dict) else {}

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _info(self, name: str) -> Any:
        return self._files.get_file_info(self._path(name))

    @contextmanager
    def _errors(self, verb: str) -> Iterator[None]:
        """Convert errors of the storage to UserError."""
        try:
            yield
        except (OSError, pyarrow.ArrowException) as error:
            reason = _SECRET.sub("//", one_line(error))
            raise UserError(
                f"cannot {verb} the storage {quoted(self.uri)} ({reason}): expected a"
                " folder, file:///PATH or s3://BUCKET/PATH that this machine can read and write"
            ) from None


class RunStorage(FolderStorage):
    """Copy of one run."""

    noun = "a run"
    folder_option = "--run"

    def fetch(self, progress_bar: ProgressBarFactory = no_progress_bar) -> bool:
        """Copy the stored run here unless there is a local run; return whether it was copied.

        Raises UserError if the local run is behind the stored one or is a different run, or if the
        folder contains other files.
        """
        if STATE_FILE_NAME not in self._digests:
            return False
        if is_run(self._folder):
            self._require_copy_of(RunFolder.open(self._folder))
            return False
        if self._folder.exists():
            with user_errors_on_write(self._folder):
                RUN_FOLDER_KIND.require_own_or_empty(self._folder)
                if hidden := next(self._folder.iterdir(), None):
                    raise UserError(
                        f"{quoted(self._folder)} has a hidden file, {quoted(hidden.name)}: expected"
                        " an empty folder, or none, so that the copy can be fetched"
                    )
        self.download([""], progress_bar=progress_bar)
        return True

    def _require_copy_of(self, run: RunFolder) -> None:
        """Raise UserError unless the stored run is an earlier state of the local one."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for name in (STATE_FILE_NAME, RUN_FOLDER_KIND.settings_file):
                self._download(name, folder / name)
            stored = read_run_state(folder / STATE_FILE_NAME).progress
            settings = RUN_FOLDER_KIND.read_settings(folder)
        if run.progress.iteration < stored.iteration:
            raise UserError(
                f"{run.path} is at iteration {run.progress.iteration}, but its copy in {self.uri}"
                f" is at iteration {stored.iteration}: expected another --run; or remove the folder"
                " to fetch the copy"
            )
        note = f", and {self.uri} contains the copy of another run"
        RUN_FOLDER_KIND.require_equal_settings(
            run.path, run.config, settings, CHANGEABLE_SETTINGS, note
        )

    def push(self) -> None:
        """Copy all changed files of the local run; call it only between stages.

        Raises UserError if the storage cannot be written.
        """
        names = sorted(self.local_file_names(), key=lambda name: (name == STATE_FILE_NAME, name))
        self.upload(names, remove_others=True)


def _mebibytes(size: int) -> int:
    """Return a number of bytes in MiB, rounded up."""
    return -(-size >> 20)


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _is_plain(name: str) -> bool:
    """Return True for a relative path that stays in its folder and is not hidden or temporary."""
    is_foreign = "\\" in name or ":" in name
    return not is_foreign and all(
        part and part[0] != "." and not part.endswith(_PART) for part in name.split("/")
    )
