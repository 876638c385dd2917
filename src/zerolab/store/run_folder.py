"""A run's folder, and the rule that keeps it whole.

``state.json`` is the commit point: it is replaced in one step after everything a stage wrote is on
disk. Whatever lies beyond it when a run is opened for writing belongs to a stage that never
finished; it is removed, and the stage is done again.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import tomli_w
from filelock import FileLock, Timeout
from pydantic import Field

from zerolab.core.config import Settings, validate
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, write_text
from zerolab.store.arrays import Arrays, check_schema, load_arrays, save_arrays
from zerolab.store.examples import Examples, load_examples, save_examples
from zerolab.store.games import GameStore
from zerolab.store.metrics import format_metrics, read_metrics

SCHEMA = 1
_WEIGHTS = "weights"
_OPTIMIZER = "optimizer state"


class RunProgress(Settings):
    """How far a run has come; the content of state.json."""

    schema_version: int = SCHEMA
    iteration: int = Field(default=1, ge=1)
    """The iteration whose `stage` is next, counted from 1."""
    stage: Literal["selfplay", "learn", "gate", "measure"] = "selfplay"
    best: int = Field(default=0, ge=0)
    """The iteration that trained the network in force; 0 is the untrained one."""
    elo: float = 0.0
    """Training Elo of the network in force, the untrained one having 0."""
    metrics_bytes: int = Field(default=0, ge=0)
    finished: bool = False


class RunFolder:
    """A run on disk. Reading needs no lock; hold `locked` around everything that writes."""

    def __init__(self, path: Path, config: Mapping[str, Any], progress: RunProgress) -> None:
        self.path = path
        self.config = config
        self.progress = progress
        self.games = GameStore(path / "games.sqlite")

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """Make a new run; raise UserError if the folder has other content or cannot be written."""
        make_folder(path)
        if any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise UserError(f"{path} is not a run and not empty: expected a new or empty folder")
        for name in ("checkpoints", "examples"):
            make_folder(path / name)
        write_text(path / "config.toml", tomli_w.dumps(config))
        run = cls(path, config, RunProgress())
        run.commit(run.progress, [])
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run; raise UserError where it is none, is damaged, or is of a newer version."""
        if not is_run(path):
            raise UserError(f"{path} is not a run: expected a folder with a config.toml")
        state = path / "state.json"
        if not state.exists():
            raise UserError(
                f"{path} was never begun (state.json is missing); remove the folder and start anew"
            )
        try:
            config = tomllib.loads((path / "config.toml").read_text("utf-8"))
            saved = json.loads(state.read_text("utf-8"))
        except (ValueError, OSError) as error:
            raise UserError(f"{path} is damaged ({error}); restore it from a backup") from None
        found = saved.get("schema_version") if isinstance(saved, dict) else None
        check_schema(state, found, SCHEMA)
        return cls(path, config, validate(RunProgress, saved, source=str(state)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out, and remove what an unfinished stage has left behind.

        Raises UserError at once if another process is at work on the run. The lock ends with its
        process, however that ends.
        """
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise UserError(f"{self.path} is in use: another process trains this run") from None
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from None
        try:
            self.progress = RunFolder.open(self.path).progress
            self._remove_uncommitted()
            yield
        finally:
            lock.release()

    @property
    def is_locked(self) -> bool:
        """Whether some process is at work on the run."""
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        except OSError:
            return False
        lock.release()
        return False

    def commit(self, progress: RunProgress, metrics: Sequence[dict[str, Any]]) -> None:
        """Append lines of metrics and make `progress` the state of the run."""
        path = self.path / "metrics.jsonl"
        try:
            with open(path, "ab") as file:
                file.write(format_metrics(list(metrics)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error
        committed = progress.model_copy(update={"metrics_bytes": path.stat().st_size})
        write_text(self.path / "state.json", committed.model_dump_json(indent=1) + "\n")
        self.progress = committed

    def save_config(self, config: Mapping[str, Any]) -> None:
        """Replace the saved settings."""
        write_text(self.path / "config.toml", tomli_w.dumps(config))
        self.config = config

    def metrics(self) -> list[dict[str, Any]]:
        """Return the committed lines of metrics."""
        return read_metrics(self.path / "metrics.jsonl", self.progress.metrics_bytes)

    def weights_path(self, iteration: int) -> Path:
        """Return where the network of an iteration is kept."""
        return self.path / "checkpoints" / f"{iteration:04}.safetensors"

    def _optimizer_path(self, iteration: int) -> Path:
        return self.path / "checkpoints" / f"{iteration:04}.optimizer.safetensors"

    def _examples_path(self, iteration: int) -> Path:
        return self.path / "examples" / f"{iteration:04}.npz"

    def save_network(self, iteration: int, weights: Arrays, optimizer: Arrays) -> None:
        """Save a network and the state of its optimiser."""
        about = {"iteration": iteration, "game": self.config["game"]}
        save_arrays(self._optimizer_path(iteration), _OPTIMIZER, optimizer, **about)
        save_arrays(self.weights_path(iteration), _WEIGHTS, weights, **about)

    def load_weights(self, iteration: int) -> Arrays:
        """Return the weights of an iteration's network; raise UserError if there are none."""
        path = self.weights_path(iteration)
        if not path.exists() and iteration != self.progress.best:
            kept = ", ".join(map(str, self.networks()))
            raise UserError(f"{self.path} has no network {iteration}: expected one of {kept}")
        return load_arrays(path, _WEIGHTS)[0]

    def load_optimizer(self, iteration: int) -> Arrays:
        """Return the optimiser's state that belongs to an iteration's network."""
        return load_arrays(self._optimizer_path(iteration), _OPTIMIZER)[0]

    def networks(self) -> list[int]:
        """Return the iterations whose networks are kept."""
        names = (path.name for path in (self.path / "checkpoints").glob("????.safetensors"))
        return sorted(int(name[:4]) for name in names)

    def prune_checkpoints(self) -> None:
        """Remove the network of a rejected candidate and optimiser states no longer needed."""
        for path in (self.path / "checkpoints").iterdir():
            iteration = int(path.name[:4])
            rejected = self.progress.best < iteration < self.progress.iteration
            outdated = "optimizer" in path.name and iteration < self.progress.best
            if rejected or outdated:
                path.unlink()

    def save_examples(self, iteration: int, examples: Examples) -> None:
        """Save the examples of an iteration."""
        save_examples(self._examples_path(iteration), examples)

    def load_examples(self, iteration: int) -> Examples:
        """Return the examples of an iteration; raise UserError if they are missing or damaged."""
        return load_examples(self._examples_path(iteration))

    def _remove_uncommitted(self) -> None:
        progress = self.progress
        metrics = self.path / "metrics.jsonl"
        size = metrics.stat().st_size if metrics.exists() else 0
        if size < progress.metrics_bytes:
            raise UserError(
                f"{metrics} is damaged: {size} bytes, expected {progress.metrics_bytes};"
                " restore it from a backup"
            )
        if size > progress.metrics_bytes:
            with open(metrics, "r+b") as file:
                file.truncate(progress.metrics_bytes)
        for part in self.path.rglob(".*.part"):
            part.unlink()


def is_run(path: Path) -> bool:
    """Tell whether a folder holds a run."""
    return (path / "config.toml").is_file()
