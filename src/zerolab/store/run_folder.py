"""Run folders and their commit protocol.

``state.json`` is the commit point. This file is replaced atomically once all files of a stage are
on disk. Later files belong to an unfinished stage: locking the run removes them, and the stage is
repeated.
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

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_not_symlink, make_folder, write_bytes
from zerolab.rules.catalogue import parse_game
from zerolab.store.arrays import (
    OPTIMIZER_KIND,
    WEIGHTS_KIND,
    NamedArrays,
    load_arrays,
    read_digest,
    save_arrays,
)
from zerolab.store.checks import damaged_file_error, user_errors_on_read, user_errors_on_write
from zerolab.store.examples import (
    Examples,
    UnfinishedGames,
    check_examples,
    load_examples,
    load_target_features,
    load_unfinished_games,
    read_full_search_count,
    save_examples,
    save_unfinished_games,
)
from zerolab.store.folder import (
    LEFTOVER_FILE_PATTERN,
    CommittedFiles,
    FolderKind,
    RunProgress,
    RunState,
    encode_metrics,
    extend_metrics_digest,
    is_locked,
    lock_folder,
    read_metrics,
    read_run_state,
    write_run_state,
)
from zerolab.store.games import GAMES_FILE_NAME, GameStore, relative_path_text

RUN_FOLDER_KIND = FolderKind("run", "config.toml", "--run")
CHANGEABLE_SETTINGS = (
    "iterations", "supervised.positions", "selfplay.processes", "selfplay.chunks", "device",
)  # fmt: skip
"""Settings that can change when a run is resumed."""

_POSITIONS = "positions"
_WRITTEN_FOLDERS = "checkpoints", "examples", "unfinished", _POSITIONS, "tensorboard"
_CHECKPOINT = re.compile(r"(\d{4,})(\.optimizer)?\.safetensors")
_NPZ_FILE = re.compile(r"(\d{4,})\.npz")


class _Checkpoint(NamedTuple):
    path: Path
    iteration: int
    is_optimizer: bool


class ExistingRunError(UserError):
    """Error for a new run in the folder of an existing run."""


class RunFolder:
    """A run on disk, which can be read without a lock but written only within `locked`."""

    def __init__(self, path: Path, config: Mapping[str, Any]) -> None:
        self.path = path
        self.config = config
        self.games = GameStore(path / GAMES_FILE_NAME, path)
        self._set_state(RunState())

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any]) -> RunFolder:
        """Create a run.

        Raises UserError if its name contains a ?, or if the folder has other files or is read-only.
        """
        if "?" in relative_path_text(path):
            raise UserError(f"{quoted(path)}: expected a name without ?, which begins options")
        with RUN_FOLDER_KIND.locked(path):
            if is_run(path):
                raise ExistingRunError(
                    f"{path} already contains a run: expected a new or empty folder"
                )
            run = cls(path, RUN_FOLDER_KIND.write_settings(path, config))
            run._create_files()
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run; raise UserError if it is missing, damaged or from a different version."""
        if not is_run(path):
            raise UserError(f"{path} is not a run: expected a folder with a config.toml")
        run = cls(path, RUN_FOLDER_KIND.read_settings(path))
        later_files = path / "state.json", path / "metrics.jsonl"
        if any(each.exists() for each in later_files) or run._checkpoints():
            run._set_state(read_run_state(path / "state.json"))
        return run

    def _set_state(self, state: RunState) -> None:
        self.progress = state.progress
        self._files = state.files
        self._latest = {"examples": state.files.examples, "networks": state.files.networks}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run against other processes, and remove the files of an unfinished stage.

        Raises UserError if another process is using the run, if metrics or games are damaged, or if
        a folder is a link; in that case, nothing is changed. The lock is released when its process
        ends, even if the process is killed.
        """
        with lock_folder(self.path):
            for name in _WRITTEN_FOLDERS:
                check_not_symlink(self.path / name)
            current = RunFolder.open(self.path)
            if current.config != self.config:
                raise UserError(f"{self.path} has just been changed by another process: try again")
            self._set_state(RunState(progress=current.progress, files=current._files))
            self._rewind()
            self._create_files()
            yield

    @property
    def is_locked(self) -> bool:
        """True if a process is using the run."""
        return is_locked(self.path)

    def commit(self, progress: RunProgress, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Append metrics and make `progress` the state of the run.

        This commits all files saved so far. Raises UserError if the disk is full or not writable;
        the run then keeps its previous state.
        """
        path, previous = self.path / "metrics.jsonl", self._files
        lines = encode_metrics(metrics)
        with user_errors_on_write(path), open(path, "ab") as file:
            file.truncate(previous.metrics_bytes)  # removes the lines of a failed commit
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        files = CommittedFiles(
            metrics_bytes=previous.metrics_bytes + len(lines),
            metrics_digest=extend_metrics_digest(previous.metrics_digest, metrics),
            game_stages=len(self.games.stages()),
            **self._latest,
        )
        state = RunState(progress=progress, files=files)
        write_run_state(self.path / "state.json", state)
        self._set_state(state)

    @property
    def latest_example_iteration(self) -> int:
        """Latest iteration with committed examples; 0 if there is none."""
        return self._files.examples

    def read_progress(self) -> RunProgress:
        """Return the progress on disk, which another process may have updated."""
        return read_run_state(self.path / "state.json").progress

    def solved_positions_path(self, name: str) -> Path:
        """Return the path of the solved positions called `name` in the settings.

        This is the copy in the run folder if there is one. Runs of studies have copies, so they
        stay complete when they are moved.
        """
        copy = self.path / _POSITIONS / name
        return copy if name and copy.is_file() else Path(name)

    def save_solved_positions(self, name: str, content: bytes) -> None:
        """Save a copy of solved positions in the run folder, unless one already exists."""
        path = self.path / _POSITIONS / name
        if not path.is_file():
            make_folder(path.parent)
            write_bytes(path, content)

    def path_of_copy_from_source_run(self, file_name: str) -> Path:
        """Return the path of the copy of a file from another run."""
        return self.path / file_name

    def save_copy_from_source_run(self, file_name: str, content: bytes) -> None:
        """Save a copy of another run's file, such as the network that a head learns to imitate."""
        path = self.path_of_copy_from_source_run(file_name)
        with user_errors_on_read(path):
            is_saved = path.is_file() and path.read_bytes() == content
        if not is_saved:
            write_bytes(path, content)

    def save_settings(self, config: Mapping[str, Any]) -> None:
        """Replace the saved settings."""
        self.config = RUN_FOLDER_KIND.write_settings(self.path, config)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the committed metrics, one table per line; raise UserError if they are damaged."""
        path = self.path / "metrics.jsonl"
        lines = read_metrics(path, self._files.metrics_bytes)
        if extend_metrics_digest("", lines) != self._files.metrics_digest:
            raise damaged_file_error(path, "its digest does not match")
        return lines

    def weights_path(self, iteration: int) -> Path:
        """Return the path of the network of an iteration."""
        return self.path / "checkpoints" / f"{iteration:04}.safetensors"

    def optimizer_path(self, iteration: int) -> Path:
        """Return the path of the optimiser state of a network."""
        return self.path / "checkpoints" / f"{iteration:04}.optimizer.safetensors"

    def examples_path(self, iteration: int) -> Path:
        """Return the path of the examples of an iteration."""
        return self.path / "examples" / f"{iteration:04}.npz"

    def unfinished_path(self, iteration: int) -> Path:
        """Return the path of the games that are unfinished at the end of an iteration."""
        return self.path / "unfinished" / f"{iteration:04}.npz"

    def save_network(
        self,
        iteration: int,
        weights: NamedArrays,
        optimizer: NamedArrays,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Save a network and its optimiser state.

        `settings` are the network settings, by default those of the run.
        """
        network = self.config.get("network", {}) if settings is None else settings
        metadata = {**self._metadata(iteration), "network": network}
        save_arrays(self.optimizer_path(iteration), OPTIMIZER_KIND, optimizer, **metadata)
        save_arrays(self.weights_path(iteration), WEIGHTS_KIND, weights, **metadata)
        self._latest["networks"] = iteration

    def load_weights(self, iteration: int) -> NamedArrays:
        """Return the network weights of an iteration; raise UserError if there are none."""
        path = self.weights_path(iteration)
        if not path.exists() and iteration != self.progress.best:
            available = ", ".join(map(str, self.network_iterations()))
            raise UserError(f"{self.path} has no network {iteration}: expected one of {available}")
        weights, metadata = load_arrays(path, WEIGHTS_KIND)
        self._check_origin(path, iteration, metadata)
        return weights

    def weights_digest(self, iteration: int) -> str:
        """Return the digest that identifies the network weights of an iteration."""
        return read_digest(self.weights_path(iteration), WEIGHTS_KIND)

    def load_optimizer_state(self, iteration: int) -> NamedArrays:
        """Return the optimiser state of an iteration."""
        path = self.optimizer_path(iteration)
        state, metadata = load_arrays(path, OPTIMIZER_KIND)
        self._check_origin(path, iteration, metadata)
        return state

    def network_iterations(self) -> list[int]:
        """Return the iterations whose networks exist."""
        return sorted(each.iteration for each in self._checkpoints() if not each.is_optimizer)

    def prune(self) -> None:
        """Remove files that are no longer needed.

        These are the networks of rejected candidates, the optimiser states of earlier networks, and
        unfinished games that a later iteration has continued.
        """
        best, current = self.progress.best, self.progress.iteration
        for path, iteration, is_optimizer in self._checkpoints():
            if best < iteration < current or (is_optimizer and iteration < best):
                _remove(path)
        for path, iteration in self._npz_files("unfinished"):
            if iteration < self.latest_example_iteration:
                _remove(path)

    def save_examples(
        self, iteration: int, examples: Examples, features: NDArray[np.float16] | None = None
    ) -> None:
        """Save the examples of an iteration, and features that a head learns to predict."""
        save_examples(
            self.examples_path(iteration), examples, features, **self._metadata(iteration)
        )
        self._latest["examples"] = iteration

    def load_examples(self, iteration: int) -> Examples:
        """Return the examples of an iteration; raise UserError if they are missing or damaged."""
        path = self.examples_path(iteration)
        examples, metadata = load_examples(path)
        self._check_origin(path, iteration, metadata)
        check_examples(path, examples, parse_game(metadata["game"]))
        return examples

    def load_target_features(self, iteration: int) -> NDArray[np.float16]:
        """Return the features of an iteration's examples; raise UserError like `load_examples`."""
        path = self.examples_path(iteration)
        features, metadata = load_target_features(path)
        self._check_origin(path, iteration, metadata)
        return features

    def read_full_search_count(self, iteration: int) -> int:
        """Return the number of an iteration's examples with a full search."""
        path = self.examples_path(iteration)
        count, metadata = read_full_search_count(path)
        self._check_origin(path, iteration, metadata)
        return count

    def save_unfinished_games(self, iteration: int, unfinished: UnfinishedGames) -> None:
        """Save the games that are unfinished at the end of an iteration."""
        path = self.unfinished_path(iteration)
        make_folder(path.parent)
        save_unfinished_games(path, unfinished, **self._metadata(iteration))

    def load_unfinished_games(self, iteration: int) -> UnfinishedGames:
        """Return the unfinished games of the latest iteration; raise UserError if damaged."""
        path = self.unfinished_path(iteration)
        unfinished, metadata = load_unfinished_games(path)
        self._check_origin(path, iteration, metadata)
        check_examples(path, unfinished.examples, parse_game(metadata["game"]))
        return unfinished

    def _metadata(self, iteration: int) -> dict[str, Any]:
        return {"game": self.config.get("game", ""), "iteration": iteration}

    def _check_origin(self, path: Path, iteration: int, metadata: Mapping[str, Any]) -> None:
        """Raise UserError for a file copied from another run or iteration."""
        game = self.config.get("game", "")
        if (metadata.get("game"), metadata.get("iteration")) != (game, iteration):
            raise UserError(
                f"{path} belongs to {metadata.get('game')}, iteration {metadata.get('iteration')}:"
                f" expected {game}, iteration {iteration}; restore it from a backup"
            )

    def _checkpoints(self) -> list[_Checkpoint]:
        paths = sorted((self.path / "checkpoints").glob("*"))
        matches = [(path, _CHECKPOINT.fullmatch(path.name)) for path in paths]
        return [_Checkpoint(path, int(name[1]), bool(name[2])) for path, name in matches if name]

    def _create_files(self) -> None:
        """Create the folders and the state of a new run, unless they exist."""
        for name in ("checkpoints", "examples"):
            make_folder(self.path / name)
        if not (self.path / "state.json").exists():
            write_run_state(self.path / "state.json", RunState())

    def _rewind(self) -> None:
        """Check metrics and games, then restore the state at the commit point."""
        metrics = self.path / "metrics.jsonl"
        check_not_symlink(metrics)
        self.metrics()
        self.games.rewind(self._files.game_stages)
        if metrics.exists():
            with user_errors_on_write(metrics):
                os.truncate(metrics, self._files.metrics_bytes)
        for path in [*self._uncommitted(), *self.path.rglob(LEFTOVER_FILE_PATTERN)]:
            _remove(path)

    def _uncommitted(self) -> Iterator[Path]:
        """Yield the files of networks, examples and games of an unfinished stage."""
        committed = self._files
        for checkpoint in self._checkpoints():
            if checkpoint.iteration > committed.networks:
                yield checkpoint.path
        for folder in ("examples", "unfinished"):
            for path, iteration in self._npz_files(folder):
                if iteration > committed.examples:
                    yield path

    def _npz_files(self, folder: str) -> list[tuple[Path, int]]:
        paths = sorted((self.path / folder).glob("*"))
        matches = [(path, _NPZ_FILE.fullmatch(path.name)) for path in paths]
        return [(path, int(name[1])) for path, name in matches if name]


def is_run(path: Path) -> bool:
    """Return True for a folder with a complete or incomplete run.

    Raises UserError if the folder cannot be read.
    """
    with user_errors_on_read(path):
        return RUN_FOLDER_KIND.matches(path) or (path / "state.json").is_file()


def _remove(path: Path) -> None:
    with user_errors_on_write(path):
        path.unlink()
