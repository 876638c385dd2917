"""Copies of runs in storage that `pyarrow.fs` can reach: a local path, ``file://`` or ``s3://``.

A run is trained in a local folder, because its games are in a database and its lock needs a file
system. After every iteration, changed files are copied, ``state.json`` last. An interrupted copy is
therefore a run whose latest files are not committed yet, which resuming removes as after a kill.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow
from pyarrow import fs

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import make_folder
from zerolab.store.checks import user_errors_on_read, user_errors_on_write
from zerolab.store.folder import read_state
from zerolab.store.run_folder import CHANGEABLE_SETTINGS, RUN, RunFolder, is_run

_STATE = "state.json"
_DIGESTS = "digests.json"
_DERIVED = "tensorboard/"
_PART = ".part"
_BLOCK = 1 << 22
_SECRET = re.compile(r"//[^/@\s]*:[^@\s]*@")
"""User and password in a URI."""


class RunStorage:
    """Copy of one run in storage, in a folder with the name of the run's folder."""

    def __init__(self, uri: str, folder: Path) -> None:
        """Raise UserError if the storage cannot be used, or its folder is not the copy of a run."""
        self.uri = _SECRET.sub("//", uri)
        """URI without user and password."""
        self._folder = folder
        with self._errors("use"):
            if "://" in uri:
                self._files, root = fs.FileSystem.from_uri(uri)
            else:
                self._files, root = fs.LocalFileSystem(), Path(uri).absolute().as_posix()
        self._root = f"{root.rstrip('/')}/{folder.resolve().name}"
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        here, there = folder.resolve(), Path(self._root).resolve()
        if self._is_local and (here.is_relative_to(there) or there.is_relative_to(here)):
            raise UserError(
                f"--storage {quoted(self.uri)}: the copy would be in {there}, and the run is in"
                f" {here}; expected separate folders"
            )
        self._known: dict[str, tuple[int, int]] = {}
        """Sizes and times of local files that equal their copies."""
        stored = set(self._stored_names())
        listed = self._read_digests()
        if stored and listed is None and _STATE not in stored:
            raise UserError(
                f"{folder.resolve().name} in {quoted(self.uri)} is not the copy of a run and not"
                " empty: expected another --storage or --run"
            )
        self._digests = {name: (listed or {}).get(name, "") for name in stored}
        """Digests of stored files by name; empty if a copy was interrupted after the file."""
        with self._errors("write to"):
            self._write_digests()

    def fetch(self) -> bool:
        """Copy the stored run into the local folder, unless that is a run; return whether it did.

        Raises UserError if the local run is behind the stored one or another run, or if the folder
        has other content.
        """
        if _STATE not in self._digests:
            return False
        if is_run(self._folder):
            self._require_copy_of(RunFolder.open(self._folder))
            return False
        with user_errors_on_write(self._folder):
            make_folder(self._folder.parent)
            if self._folder.exists():
                RUN.require_own_or_empty(self._folder)
            part = Path(tempfile.mkdtemp(suffix=_PART, dir=self._folder.parent))
            try:
                for name in self._digests:
                    self._download(name, part)
                read_state(part / _STATE)  # raises UserError for a damaged copy
                part.chmod(0o755)
                part.rename(self._folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        return True

    def _require_copy_of(self, run: RunFolder) -> None:
        """Raise UserError unless the stored run is an earlier state of the local one."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            self._download(_STATE, folder)
            stored = read_state(folder / _STATE).progress
            self._download(RUN.settings_file, folder)
            settings = RUN.read_settings(folder)
        if run.progress.iteration < stored.iteration:
            raise UserError(
                f"{run.path} is at iteration {run.progress.iteration}, but its copy in {self.uri}"
                f" at iteration {stored.iteration}: expected another --run, or no such folder,"
                " so that the copy is fetched"
            )
        note = f", and {self.uri} has the copy of another run"
        RUN.require_equal_settings(run.path, run.config, settings, CHANGEABLE_SETTINGS, note)

    def push(self) -> None:
        """Copy all changed files of the local run; call it only between stages.

        Raises UserError if the storage cannot be written.
        """
        names = sorted(self._local_names(), key=lambda name: (name == _STATE, name))
        changed = False
        for name in names:
            changed |= self._upload(name)
        with self._errors("write to"):
            for name in self._digests.keys() - set(names):
                del self._digests[name]
                changed = True
                if self._info(name).type == fs.FileType.File:
                    self._files.delete_file(self._path(name))
            if changed:
                self._write_digests()

    def _local_names(self) -> Iterator[str]:
        """Yield the names of the files of the run, without hidden and derived ones."""
        for path in self._folder.rglob("*"):
            name = path.relative_to(self._folder).as_posix()
            if path.is_file() and _is_plain(name) and not name.startswith(_DERIVED):
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
        """Write a file atomically; objects of S3 appear only when they are complete."""
        target = path + _PART if self._is_local else path
        if self._is_local:
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(target) as stream:
            shutil.copyfileobj(source, stream, _BLOCK)
        if self._is_local:
            self._files.move(target, path)

    def _stored_names(self) -> Iterator[str]:
        """Yield the names of the stored files of the run."""
        with self._errors("read"):
            selector = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
            found = self._files.get_file_info(selector)
        for info in found:
            name = info.path.removeprefix(f"{self._root}/")
            if info.type == fs.FileType.File and name != _DIGESTS and _is_plain(name):
                yield name

    def _download(self, name: str, folder: Path) -> None:
        path = folder / name
        make_folder(path.parent)
        with (
            self._errors("read"),
            self._files.open_input_stream(self._path(name)) as source,
            open(path, "wb") as target,
        ):
            while block := source.read(_BLOCK):
                target.write(block)

    def _read_digests(self) -> dict[str, Any] | None:
        """Return the list of digests, if any; after damage, all files are copied again."""
        with self._errors("read"):
            if self._info(_DIGESTS).type != fs.FileType.File:
                return None
            with self._files.open_input_stream(self._path(_DIGESTS)) as stream:
                content = stream.read()
        try:
            digests = json.loads(content)
        except ValueError:
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


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _is_plain(name: str) -> bool:
    """Return True for a relative path that stays in its folder and is not hidden or temporary."""
    is_foreign = "\\" in name or ":" in name
    return not is_foreign and all(
        part and part[0] != "." and not part.endswith(_PART) for part in name.split("/")
    )
