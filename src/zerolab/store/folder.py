"""Folders of resumable work, and the small files in them.

A folder is identified by its settings file. Work resumes with the same settings, and only one
process at a time can work in a folder.

Every line of metrics.jsonl contains the format version as ``schema``. Fields named ``wall_...`` are
wall-clock measurements; all other fields are equal in all runs with the same settings. The fields
are defined in `training.records`, from which docs/metrics.md is generated.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from filelock import FileLock, Timeout
from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_not_symlink, make_folder, write_text
from zerolab.core.nested_tables import flatten, parse_toml
from zerolab.store.checks import (
    check_schema_version,
    damaged_file_error,
    hex_digest,
    read_bytes,
    user_errors_on_read,
    user_errors_on_write,
)
from zerolab.store.games import SELF_PLAY_STAGE

LEFTOVER_FILE_PATTERN = f".*.{'[0-9a-f]' * 8}.part"
"""Glob pattern for temporary files that a killed `core.files.atomic_replace` leaves behind."""

_LOCK = ".lock"
_LOCK_SECONDS = 0.2  # not 0, because `is_locked` briefly takes the lock


class FolderKind(NamedTuple):
    """A kind of folder, such as tournament folders."""

    noun: str
    """Name in messages and in the settings file, such as ``tournament``."""
    settings_file: str
    """Settings file that identifies folders of this kind, such as ``tournament.toml``."""
    folder_option: str
    """Command-line option for the folder, such as ``--folder``."""

    def matches(self, path: Path) -> bool:
        """Return True for a folder of this kind; raise UserError if it cannot be read."""
        with user_errors_on_read(path):
            return (path / self.settings_file).is_file()

    def require_own_or_empty(self, path: Path) -> None:
        """Raise UserError for a folder that is neither of this kind nor empty.

        Hidden files are ignored.
        """
        with user_errors_on_read(path):
            has_content = any(not entry.name.startswith(".") for entry in path.iterdir())
        if has_content and not self.matches(path):
            raise UserError(
                f"{quoted(path)} is not a {self.noun} and not empty: expected a new or empty"
                f" folder; choose another {self.folder_option}"
            )

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Create the folder if necessary, and lock it against other processes.

        Temporary files of killed processes are removed. Raises UserError if the folder contains
        other files or another process is using it.
        """
        make_folder(path)
        self.require_own_or_empty(path)  # first, to avoid a lock file in an unrelated folder
        with lock_folder(path):
            for leftover in path.glob(LEFTOVER_FILE_PATTERN):
                with suppress(OSError):
                    leftover.unlink()
            yield

    def read_settings(self, path: Path) -> dict[str, Any]:
        """Return the saved settings; raise UserError like `read_settings_file`."""
        return read_settings_file(path / self.settings_file, self.noun)

    def write_settings(self, path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the saved settings atomically; return them as `read_settings` will."""
        return write_settings_file(path / self.settings_file, settings, self.noun)

    def require_equal_settings(
        self,
        path: Path,
        saved: Mapping[str, Any],
        requested: Mapping[str, Any],
        except_for: Container[str] = (),
        note: str = "",
    ) -> None:
        """Raise UserError for the first setting that differs.

        Settings with the dotted keys in `except_for` may differ; `note` mentions them in the error
        message.
        """
        before, after = (dict(flatten(each, into_lists=True)) for each in (saved, requested))
        for key in {**before, **after}:
            if key not in except_for and before.get(key) != after.get(key):
                raise UserError(
                    f"{key} = {_value_text(after, key)} differs from {_value_text(before, key)} in"
                    f" {quoted(path)}: a {self.noun} keeps its settings{note}; choose another"
                    f" {self.folder_option}"
                )


def _value_text(table: Mapping[str, Any], key: str) -> str:
    return quoted(table[key]) if key in table else "nothing"


def matches_or_is_unreadable(is_of_kind: Callable[[Path], bool], path: Path) -> bool:
    """Return True for a folder that is of the given kind or cannot be read.

    Listings include unreadable folders so that users notice them.
    """
    try:
        return is_of_kind(path)
    except UserError:
        return True


class FolderInUseError(UserError):
    """Error for a folder that another process is using."""


@contextmanager
def lock_folder(folder: Path, max_wait_seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Lock a folder against other processes, waiting up to `max_wait_seconds` for the lock.

    The lock is released when its process ends, even if the process is killed. Raises
    FolderInUseError if another process holds the lock, and UserError if the folder is not writable.
    """
    check_not_symlink(folder / _LOCK)
    lock = FileLock(folder / _LOCK, thread_local=False)  # any thread can release it
    with user_errors_on_write(folder):
        try:
            lock.acquire(timeout=max_wait_seconds, poll_interval=_LOCK_SECONDS / 10)
        except Timeout:
            raise FolderInUseError(f"{folder} is in use by another process") from None
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Return True if a process is using a folder, without writing anything."""
    if not (folder / _LOCK).exists() or (folder / _LOCK).is_symlink():
        return False
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


SCHEMA = 3
"""Schema version of state.json and of settings files."""

_MAX_BYTES = 1 << 20
_SETTINGS_HEAD = re.compile(r"# settings of a zerolab (\w+), schema (\d+), digest ([0-9a-f]+)\n")


FINAL_STAGE_NAME = "final_evaluation"
"""Name of the stage after the last iteration in state.json."""


class RunProgress(Settings):
    """Progress of a run after its last finished stage."""

    iteration: int = Field(default=1, ge=1)
    """Iteration of the next stage, counted from 1; `iterations` + 1 after the last iteration."""
    stage: str = SELF_PLAY_STAGE
    """Name of the next stage."""
    best: int = Field(default=0, ge=0)
    """Iteration that trained the best network; 0 for the initial network."""
    elo: float = 0.0
    """Training Elo of the best network, relative to the initial network."""
    positions: int = Field(default=0, ge=0)
    """Number of self-play positions in all iterations."""
    warm_start_over: bool = False
    """True if a warm-start match has ended the warm start."""
    finished: bool = False
    """True if all stages, including the final evaluation, are finished."""

    @property
    def current_iteration(self) -> int:
        """Latest iteration begun, counted from 1; after the last iteration, that one."""
        return self.iteration - (self.stage == FINAL_STAGE_NAME)


class CommittedFiles(Settings):
    """Extent of the files of finished stages; later content is removed on resume."""

    metrics_bytes: int = Field(default=0, ge=0)
    """Length of metrics.jsonl."""
    metrics_digest: str = ""
    """Digest of the metrics without wall-clock fields."""
    game_stages: int = Field(default=0, ge=0)
    """Number of stages in games.sqlite; not an iteration."""
    examples: int = Field(default=0, ge=0)
    """Latest iteration with examples; 0 if there is none."""
    networks: int = Field(default=0, ge=0)
    """Latest iteration with a network; the initial network is number 0."""


class RunState(Settings):
    """Content of state.json."""

    progress: RunProgress = RunProgress()
    files: CommittedFiles = CommittedFiles()


def write_run_state(path: Path, state: RunState) -> None:
    """Replace state.json atomically; raise UserError if it cannot be written."""
    fields = {"schema_version": SCHEMA, **state.model_dump()}
    write_text(path, json.dumps({**fields, "digest": _state_digest(fields)}, indent=1) + "\n")


def read_run_state(path: Path) -> RunState:
    """Read state.json; raise UserError if it is missing, damaged or from another version."""
    content = read_bytes(path, _MAX_BYTES)
    with user_errors_on_read(path):
        fields = json.loads(content.decode())
    if not isinstance(fields, dict):
        raise damaged_file_error(path, "it does not contain a table")
    check_schema_version(path, fields.get("schema_version"), SCHEMA)
    with user_errors_on_read(path):
        is_intact = fields.pop("digest", None) == _state_digest(fields)
    if not is_intact:
        raise damaged_file_error(path, "its digest does not match")
    del fields["schema_version"]
    return validate(RunState, fields, source=str(path))


def _state_digest(fields: Mapping[str, Any]) -> str:
    """Return a digest that is the same for equal runs.

    The digest excludes the length of the metrics, which depends on the wall clock.
    """
    files = {name: x for name, x in fields["files"].items() if name != "metrics_bytes"}
    return hex_digest(json.dumps({**fields, "files": files}, sort_keys=True).encode())


def write_settings_file(
    path: Path, settings: Mapping[str, Any], noun: str = "run"
) -> dict[str, Any]:
    """Replace a settings file atomically; return the settings as `read_settings_file` will.

    `noun` names the kind of folder with these settings, such as tournament.
    """
    body = tomli_w.dumps(settings)
    head = f"# settings of a zerolab {noun}, schema {SCHEMA}, digest {hex_digest(body.encode())}\n"
    write_text(path, head + body)
    return tomllib.loads(body)


def read_settings_file(path: Path, noun: str = "run") -> dict[str, Any]:
    """Read a settings file; raise UserError if it is missing, damaged or from another version."""
    content = read_bytes(path, _MAX_BYTES)
    with user_errors_on_read(path):
        text = content.decode()
        head = _SETTINGS_HEAD.match(text)
        if head is None or head[1] != noun:
            raise UserError(f"{path} is damaged, or was not written by zerolab for a {noun}")
        check_schema_version(path, int(head[2]), SCHEMA)
        body = text[head.end() :]
        if hex_digest(body.encode()) != head[3]:
            raise damaged_file_error(
                path, f"its digest does not match: the settings of a {noun} must not be edited"
            )
        return parse_toml(body)


_METRICS_SCHEMA = 1
_WALL_CLOCK_PREFIX = "wall_"

_MAX_METRICS_BYTES = 1 << 27


def read_metrics(path: Path, byte_count: int | None = None) -> list[dict[str, Any]]:
    """Return the lines in the first `byte_count` bytes, by default all lines, as dictionaries.

    Raises UserError if the file is shorter than `byte_count`, from a different version or damaged.
    The message contains the number of the damaged line.
    """
    content = read_bytes(path, _MAX_METRICS_BYTES) if path.exists() else b""
    if byte_count is not None and len(content) < byte_count:
        raise damaged_file_error(path, f"{len(content)} bytes, expected {byte_count}")
    return [
        _parse_metrics_line(path, *line)
        for line in enumerate(content[:byte_count].splitlines(), start=1)
    ]


def _parse_metrics_line(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise UserError(f"{path} is damaged at line {number}; restore it from a backup")
    check_schema_version(path, entry.pop("schema", None), _METRICS_SCHEMA)
    return entry


def encode_metrics(metrics: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the lines to append to metrics.jsonl."""
    lines = [json.dumps({"schema": _METRICS_SCHEMA, **entry}) + "\n" for entry in metrics]
    return "".join(lines).encode()


def extend_metrics_digest(previous: str, metrics: Iterable[Mapping[str, Any]]) -> str:
    """Return the digest of all metrics, given the digest `previous` of the earlier metrics.

    Digests exclude wall-clock fields.
    """
    for entry in metrics:
        fields = {name: x for name, x in entry.items() if not name.startswith(_WALL_CLOCK_PREFIX)}
        previous = hex_digest(previous.encode(), json.dumps(fields, sort_keys=True).encode())
    return previous


_ENVIRONMENT_SCHEMA = 1
_ENVIRONMENT_FILE = "environment.json"


class RunEnvironment(Settings):
    """Hardware and library versions, which can affect the last bits of results."""

    iteration: int = Field(ge=1)
    """First iteration that was trained, at least in part, in this environment."""
    device: str
    """Architecture of the processor, or name of the GPU."""
    processor: str = ""
    """Model of the processor; empty in files written by earlier versions."""
    precision: str
    """Numerical precision of the layers: float32 or bfloat16."""
    threads: int
    """Number of cores available for training."""
    python: str
    zerolab: str
    torch: str
    numba: str
    numpy: str


def read_environments(run: Path) -> list[RunEnvironment]:
    """Return the environments of the run in a folder, in order.

    Raises UserError if their file is damaged or from a different version.
    """
    path = run / _ENVIRONMENT_FILE
    if not path.exists():
        return []
    content = read_bytes(path, _MAX_BYTES)
    with user_errors_on_read(path):
        table: Any = json.loads(content.decode())
        schema, environments = table["schema_version"], list(table["environments"])
    check_schema_version(path, schema, _ENVIRONMENT_SCHEMA)
    if not all(isinstance(each, dict) for each in environments):
        raise damaged_file_error(path, "an environment is not a table")
    return [validate(RunEnvironment, each, source=str(path)) for each in environments]


def write_environments(run: Path, environments: Sequence[RunEnvironment]) -> None:
    """Replace the environments of the run in a folder."""
    content = {
        "schema_version": _ENVIRONMENT_SCHEMA,
        "environments": [each.model_dump() for each in environments],
    }
    write_text(run / _ENVIRONMENT_FILE, json.dumps(content, indent=1) + "\n")
