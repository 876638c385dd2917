"""A run's folder, and the rule that keeps it consistent.

``state.json`` is the commit point: it is replaced atomically once all files of a stage are on disk.
Anything beyond it when a run is locked belongs to an unfinished stage and is removed, and the stage
is repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.core.files import check_no_link, make_folder, write_bytes
from zerolab.store.arrays import OPTIMIZER, WEIGHTS, Arrays, load_arrays, read_digest, save_arrays
from zerolab.store.checks import damaged, reading, writing
from zerolab.store.examples import (
    Examples,
    Unfinished,
    count_full,
    load_examples,
    load_features,
    load_unfinished,
    save_examples,
    save_unfinished,
)
from zerolab.store.folder import LEFTOVERS, FolderKind, exclusive, is_locked
from zerolab.store.games import GameStore
from zerolab.store.state import (
    CommittedFiles,
    RunProgress,
    RunState,
    extend_digest,
    format_metrics,
    read_metrics,
    read_state,
    write_state,
)

RUN = FolderKind("run", "config.toml", "--run")

_POSITIONS = "positions"
_CHECKPOINT = re.compile(r"(\d{4,})(\.optimizer)?\.safetensors")
_OF_ITERATION = re.compile(r"(\d{4,})\.npz")


class _Checkpoint(NamedTuple):
    path: Path
    iteration: int
    is_optimizer: bool


class ExistingRunError(UserError):
    """The folder of a new run holds one already."""


class RunFolder:
    """A run on disk. Reading needs no lock; hold `locked` around everything that writes."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config
        self.games = GameStore(path / "games.sqlite", path)
        self._use(RunState())

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """Create a run; raise UserError if the folder has other content or cannot be written."""
        with RUN.locked(path):
            if is_run(path):
                raise ExistingRunError(
                    f"{path} already holds a run: expected a new or empty folder"
                )
            run = cls(path, RUN.write_settings(path, config))
            run._begin()
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run; raise UserError if there is none, or it is damaged or newer."""
        if not is_run(path):
            raise UserError(f"{path} is not a run: expected a folder with a config.toml")
        run = cls(path, RUN.read_settings(path))
        if run._is_begun():
            run._use(read_state(path / "state.json"))
        return run

    def _use(self, state: RunState) -> None:
        self.progress = state.progress
        self._files = state.files
        self._latest = {"examples": state.files.examples, "networks": state.files.networks}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out, and remove the files of an unfinished stage.

        Raises UserError if another process is working on the run, or if metrics or games are
        damaged, which then stay as they are. The lock ends with its process, even if it is killed.
        """
        with exclusive(self.path):
            now = RunFolder.open(self.path)
            if now.config != self.config:
                raise UserError(f"{self.path} was changed by another process just now: try again")
            self._use(RunState(progress=now.progress, files=now._files))
            self._rewind()
            self._begin()
            yield

    @property
    def is_locked(self) -> bool:
        """True if a process is working on the run."""
        return is_locked(self.path)

    def commit(self, progress: RunProgress, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Append lines of metrics and make `progress` the state of the run.

        All files saved so far become part of it. Raises UserError if the disk is full or cannot be
        written; the run then keeps its former state.
        """
        path, former = self.path / "metrics.jsonl", self._files
        lines = format_metrics(metrics)
        with writing(path), open(path, "ab") as file:
            file.truncate(former.metrics_bytes)  # lines of an earlier commit that failed
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        files = CommittedFiles(
            metrics_bytes=former.metrics_bytes + len(lines),
            metrics_digest=extend_digest(former.metrics_digest, metrics),
            game_stages=len(self.games.stages()),
            **self._latest,
        )
        state = RunState(progress=progress, files=files)
        write_state(self.path / "state.json", state)
        self._use(state)

    @property
    def latest_examples(self) -> int:
        """The latest iteration whose examples are committed; 0 for none."""
        return self._files.examples

    def latest_progress(self) -> RunProgress:
        """Return the current progress, which another process may have changed."""
        return read_state(self.path / "state.json").progress

    def positions_path(self, name: str) -> Path:
        """Return the path of solved positions named in settings: in the run's folder or elsewhere.

        A run that has its own copy, as those of studies have, stays whole when it is moved.
        """
        own = self.path / _POSITIONS / name
        return own if name and own.is_file() else Path(name)

    def keep_positions(self, name: str, content: bytes) -> None:
        """Copy solved positions into the run's folder, unless they are there already."""
        path = self.path / _POSITIONS / name
        if not path.is_file():
            make_folder(path.parent)
            write_bytes(path, content)

    def source_path(self, name: str) -> Path:
        """Return the path of the run's copy of a file from another run."""
        return self.path / name

    def keep_source(self, name: str, content: bytes) -> None:
        """Save a copy of another run's file, such as the network whose features are learnt."""
        path = self.source_path(name)
        with reading(path):
            is_there = path.is_file() and path.read_bytes() == content
        if not is_there:
            write_bytes(path, content)

    def save_config(self, config: Mapping[str, Any]) -> None:
        """Replace the saved settings."""
        self.config = RUN.write_settings(self.path, config)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the committed lines of metrics; raise UserError if they are damaged."""
        path = self.path / "metrics.jsonl"
        lines = read_metrics(path, self._files.metrics_bytes)
        if extend_digest("", lines) != self._files.metrics_digest:
            raise damaged(path, "its digest does not match")
        return lines

    def weights_path(self, iteration: int) -> Path:
        """Return the path of the network of an iteration."""
        return self.path / "checkpoints" / f"{iteration:04}.safetensors"

    def optimizer_path(self, iteration: int) -> Path:
        """Return the path of the optimiser state of a network."""
        return self.path / "checkpoints" / f"{iteration:04}.optimizer.safetensors"

    def _examples_path(self, iteration: int) -> Path:
        return self.path / "examples" / f"{iteration:04}.npz"

    def _unfinished_path(self, iteration: int) -> Path:
        return self.path / "unfinished" / f"{iteration:04}.npz"

    def save_network(
        self,
        iteration: int,
        weights: Arrays,
        optimizer: Arrays,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a network and the state of its optimiser.

        `settings` are those of the network, by default those in the run's settings.
        """
        network = self.config.get("network", {}) if settings is None else settings
        about = {**self._about(iteration), "network": network}
        save_arrays(self.optimizer_path(iteration), OPTIMIZER, optimizer, **about)
        save_arrays(self.weights_path(iteration), WEIGHTS, weights, **about)
        self._latest["networks"] = iteration

    def load_weights(self, iteration: int) -> Arrays:
        """Return the weights of an iteration's network; raise UserError if there are none."""
        path = self.weights_path(iteration)
        if not path.exists() and iteration != self.progress.best:
            kept = ", ".join(map(str, self.networks()))
            raise UserError(f"{self.path} has no network {iteration}: expected one of {kept}")
        weights, about = load_arrays(path, WEIGHTS)
        self._check_origin(path, iteration, about)
        return weights

    def weights_digest(self, iteration: int) -> str:
        """Return the digest that identifies the weights of an iteration's network."""
        return read_digest(self.weights_path(iteration), WEIGHTS)

    def has_optimizer(self, iteration: int) -> bool:
        """Return True if the optimiser's state of an iteration is kept; former ones are removed."""
        return self.optimizer_path(iteration).is_file()

    def load_optimizer(self, iteration: int) -> Arrays:
        """Return the optimiser's state of an iteration's network."""
        path = self.optimizer_path(iteration)
        state, about = load_arrays(path, OPTIMIZER)
        self._check_origin(path, iteration, about)
        return state

    def networks(self) -> list[int]:
        """Return the iterations whose networks are kept."""
        return sorted(each.iteration for each in self._checkpoints() if not each.is_optimizer)

    def prune(self) -> None:
        """Remove files that are no longer needed.

        These are networks of rejected candidates, optimiser states of earlier networks, and
        unfinished games that were continued since.
        """
        best, current = self.progress.best, self.progress.iteration
        for path, iteration, is_optimizer in self._checkpoints():
            if best < iteration < current or (is_optimizer and iteration < best):
                _remove(path)
        for path, iteration in self._npz_files("unfinished"):
            if iteration < self.latest_examples:
                _remove(path)

    def save_examples(
        self, iteration: int, examples: Examples, features: NDArray[np.float16] | None = None
    ) -> None:
        """Save the examples of an iteration, with the features of their positions, if any."""
        save_examples(self._examples_path(iteration), examples, features, **self._about(iteration))
        self._latest["examples"] = iteration

    def load_examples(self, iteration: int) -> Examples:
        """Return the examples of an iteration; raise UserError if they are missing or damaged."""
        path = self._examples_path(iteration)
        examples, about = load_examples(path)
        self._check_origin(path, iteration, about)
        return examples

    def load_features(self, iteration: int) -> NDArray[np.float16]:
        """Return the features of an iteration's examples; raise UserError as `load_examples`."""
        path = self._examples_path(iteration)
        features, about = load_features(path)
        self._check_origin(path, iteration, about)
        return features

    def count_full_examples(self, iteration: int) -> int:
        """Return the number of fully searched examples of an iteration."""
        path = self._examples_path(iteration)
        count, about = count_full(path)
        self._check_origin(path, iteration, about)
        return count

    def save_unfinished(self, iteration: int, unfinished: Unfinished) -> None:
        """Save the games that continue after an iteration."""
        path = self._unfinished_path(iteration)
        make_folder(path.parent)
        save_unfinished(path, unfinished, **self._about(iteration))

    def load_unfinished(self, iteration: int) -> Unfinished:
        """Return the games that continue after an iteration, the latest one with examples.

        Raises UserError if they are missing or damaged.
        """
        path = self._unfinished_path(iteration)
        unfinished, about = load_unfinished(path)
        self._check_origin(path, iteration, about)
        return unfinished

    def _about(self, iteration: int) -> dict[str, Any]:
        return {"game": self.config.get("game", ""), "iteration": iteration}

    def _check_origin(self, path: Path, iteration: int, about: Mapping[str, Any]) -> None:
        """Raise UserError for a file copied from another run or iteration."""
        game = self.config.get("game", "")
        if (about.get("game"), about.get("iteration")) != (game, iteration):
            raise UserError(
                f"{path} is of {about.get('game')}, iteration {about.get('iteration')}:"
                f" expected {game}, iteration {iteration}; restore it from a backup"
            )

    def _checkpoints(self) -> list[_Checkpoint]:
        paths = sorted((self.path / "checkpoints").glob("*"))
        named = [(path, _CHECKPOINT.fullmatch(path.name)) for path in paths]
        return [_Checkpoint(path, int(name[1]), bool(name[2])) for path, name in named if name]

    def _is_begun(self) -> bool:
        """Return True if anything was written after config.toml."""
        return (
            (self.path / "state.json").exists()
            or (self.path / "metrics.jsonl").exists()
            or bool(self._checkpoints())
        )

    def _begin(self) -> None:
        """Create the other files and folders of a run, unless they exist."""
        for name in ("checkpoints", "examples"):
            make_folder(self.path / name)
        if not (self.path / "state.json").exists():
            write_state(self.path / "state.json", RunState())

    def _rewind(self) -> None:
        """Check metrics and games, then go back to the commit point."""
        metrics = self.path / "metrics.jsonl"
        check_no_link(metrics)
        self.metrics()
        self.games.rewind(self._files.game_stages)
        if metrics.exists():
            with writing(metrics):
                os.truncate(metrics, self._files.metrics_bytes)
        for path in [*self._uncommitted(), *self.path.rglob(LEFTOVERS)]:
            _remove(path)

    def _uncommitted(self) -> Iterator[Path]:
        """Yield the networks, examples and games of stages that have not finished."""
        latest = self._files
        yield from (each.path for each in self._checkpoints() if each.iteration > latest.networks)
        for folder in ("examples", "unfinished"):
            numbered = self._npz_files(folder)
            yield from (path for path, iteration in numbered if iteration > latest.examples)

    def _npz_files(self, folder: str) -> list[tuple[Path, int]]:
        paths = sorted((self.path / folder).glob("*"))
        named = [(path, _OF_ITERATION.fullmatch(path.name)) for path in paths]
        return [(path, int(name[1])) for path, name in named if name]


def is_run(path: Path) -> bool:
    """Return True for a folder with a run, complete or not.

    Raises UserError if the folder cannot be read.
    """
    with reading(path):
        return RUN.is_in(path) or (path / "state.json").is_file()


def _remove(path: Path) -> None:
    with writing(path):
        path.unlink()
