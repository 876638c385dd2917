"""Copies of runs in storage that `pyarrow.fs` can reach: a local path, ``file://`` or ``s3://``.

A run is trained in a local folder, because its games are in a database and its lock needs a file
system. After every iteration, changed files are copied, ``state.json`` last. An interrupted copy is
therefore a run whose latest files are not committed yet, which resuming removes as after a kill.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import fs

from zerolab.core.errors import UserError, one_line, quoted
from zerolab.core.files import make_folder
from zerolab.store.checks import hex_digest, user_errors_on_read, user_errors_on_write
from zerolab.store.folder import RunProgress, read_state
from zerolab.store.run_folder import RunFolder, is_run

_STATE = "state.json"
_DIGESTS = "digests.json"
_DERIVED = "tensorboard"
_PART = ".part"
_BLOCK = 1 << 22


class RunStorage:
    """Copy of one run in storage, in a folder with the name of the run's folder."""

    def __init__(self, uri: str, folder: Path) -> None:
        """Raise UserError if the URI is malformed or the storage cannot be read and written."""
        self.uri = uri
        self._folder = folder
        with self._errors("use"):
            if "://" in uri:
                self._files, root = fs.FileSystem.from_uri(uri)
            else:
                self._files, root = fs.LocalFileSystem(), str(Path(uri).absolute())
        self._root = f"{root.rstrip('/')}/{folder.name}"
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        self._known: dict[str, tuple[int, int]] = {}
        """Sizes and times of local files that equal their copies."""
        self._digests = self._read_digests()
        with self._errors("write to"):
            self._write(f"{self._root}/.probe", b"")
            self._files.delete_file(f"{self._root}/.probe")

    def fetch(self) -> bool:
        """Copy the stored run into the local folder, unless that is a run; return whether it did.

        Raises UserError if the local run is behind the stored one.
        """
        with self._errors("read"):
            if self._info(_STATE).type != fs.FileType.File:
                return False
        stored = self._stored_progress()
        if is_run(self._folder):
            local = RunFolder.open(self._folder).progress
            if local.iteration < stored.iteration:
                raise UserError(
                    f"{self._folder} is at iteration {local.iteration}, but its copy in {self.uri}"
                    f" at iteration {stored.iteration}: expected another --run, or no such folder,"
                    " so that the copy is fetched"
                )
            return False
        with user_errors_on_write(self._folder):
            make_folder(self._folder.parent)
            part = Path(tempfile.mkdtemp(suffix=_PART, dir=self._folder.parent))
            try:
                for name in self._stored_names():
                    self._download(name, part)
                part.chmod(0o755)
                part.rename(self._folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        return True

    def _stored_progress(self) -> RunProgress:
        """Return the progress of the stored run; raise UserError if its state is damaged."""
        with tempfile.TemporaryDirectory() as temporary:
            self._download(_STATE, Path(temporary))
            return read_state(Path(temporary) / _STATE).progress

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
                self._write(self._path(_DIGESTS), json.dumps(self._digests).encode())

    def _local_names(self) -> Iterator[str]:
        """Yield the names of the files of the run, without hidden and derived ones."""
        for path in self._folder.rglob("*"):
            parts = path.relative_to(self._folder).parts
            is_hidden = any(part.startswith(".") or part.endswith(_PART) for part in parts)
            if path.is_file() and not is_hidden and parts[0] != _DERIVED:
                yield "/".join(parts)

    def _upload(self, name: str) -> bool:
        """Copy a file unless its copy is equal; return whether it was copied."""
        path = self._folder / name
        with user_errors_on_read(path):
            status = path.stat()
            known = status.st_size, status.st_mtime_ns
            if self._known.get(name) == known:
                return False
            content = path.read_bytes()
        digest, is_equal = hex_digest(content), False
        if self._digests.get(name) == digest:
            with self._errors("read"):
                is_equal = self._info(name).size == status.st_size
        if not is_equal:
            with self._errors("write to"):
                self._write(self._path(name), content)
        self._known[name], self._digests[name] = known, digest
        return not is_equal

    def _write(self, path: str, content: bytes) -> None:
        """Write a file atomically; objects of S3 appear only when they are complete."""
        target = path + _PART if self._is_local else path
        if self._is_local:
            self._files.create_dir(path.rpartition("/")[0], recursive=True)
        with self._files.open_output_stream(target) as stream:
            stream.write(content)
        if self._is_local:
            self._files.move(target, path)

    def _stored_names(self) -> Iterator[str]:
        with self._errors("read"):
            found = self._files.get_file_info(fs.FileSelector(self._root, recursive=True))
        for info in found:
            name = info.path.removeprefix(f"{self._root}/")
            parts = name.split("/")
            is_file = info.type == fs.FileType.File and not name.endswith(_PART)
            if is_file and name != _DIGESTS and not any(part in {"", ".", ".."} for part in parts):
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

    def _read_digests(self) -> dict[str, str]:
        """Return the digests of the stored files; after damage, all files are copied again."""
        with self._errors("read"):
            if self._info(_DIGESTS).type != fs.FileType.File:
                return {}
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
            raise UserError(
                f"cannot {verb} the storage {quoted(self.uri)} ({one_line(error)}): expected a"
                " folder, file:///PATH or s3://BUCKET/PATH that this machine can read and write"
            ) from None
