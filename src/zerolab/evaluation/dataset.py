"""Resumable creation of data sets of solved positions by several processes.

Games are played in chunks, and the positions of each finished chunk are saved as a part: a file in
the ``FILE.parts`` folder. At the end, the parts are merged in game order, so the result depends
only on the settings.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import check_output_path, check_valid_path, write_text
from zerolab.core.processes import map_in_processes
from zerolab.evaluation.accuracy import non_trivial_mask, random_move_grades
from zerolab.evaluation.collecting import (
    CollectedPositions,
    CollectionCounts,
    DatasetSettings,
    collect_positions,
)
from zerolab.evaluation.positions import (
    SCHEMA,
    SolvedPositions,
    content_digest,
    join_positions,
    read_positions,
    write_positions,
)
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.oracles.solver import UNLIMITED_BUDGET, SolverBudget, oracle_for
from zerolab.report.table import percent
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.compiled_rules import canonical_states
from zerolab.rules.rules import Game
from zerolab.store.folder import FolderKind, is_locked


def _dataset_manifest(positions: SolvedPositions, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a file: settings, counts, and the difficulty of the positions.

    `metadata` contains the settings and counts from the file's metadata, in any order.
    """
    best = positions.position_values
    best_move_counts = (positions.action_values == best[:, None]).sum(axis=1)
    plies, ply_counts = np.unique(positions.plies, return_counts=True)
    random = random_move_grades(positions)
    return {
        "schema": SCHEMA,
        "game": game_name(positions.game),
        "positions": len(positions),
        **dict(sorted(metadata.items())),
        "non_trivial": int(non_trivial_mask(positions).sum()),
        "correct_moves": _mean(best_move_counts),
        "random_strong": _mean(random.is_best),
        "random_weak": _mean(random.preserves_result),
        "won": int((best > 0).sum()),
        "drawn": int((best == 0).sum()),
        "lost": int((best < 0).sum()),
        "by_ply": {str(p): int(n) for p, n in zip(plies, ply_counts, strict=True)},
        "digest": content_digest(positions, metadata),
    }


def manifest_lines(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return a summary of a manifest as lines of text."""
    count, requested = manifest["positions"], manifest["requested"]
    lines = [
        f"{path}: {count} positions from {manifest['games']} games;"
        f" excluded {manifest['duplicates']} duplicate or mirrored,"
        f" {manifest['all_optimal']} where every move is best, {manifest['unsolved']} unsolved",
        difficulty_line(manifest),
    ]
    warning = f"only {count} of {requested} positions found: further games had no new positions"
    return [warning, *lines] if count < requested else lines


def difficulty_line(manifest: Mapping[str, Any]) -> str:
    """Return a line with the results of a manifest's positions and the accuracy of random moves."""
    return (
        f"{manifest['won']} won, {manifest['drawn']} drawn, {manifest['lost']} lost;"
        f" {manifest['correct_moves']:.2f} best moves on average; random play:"
        f" {percent(manifest['random_strong'])} strong, {percent(manifest['random_weak'])} weak"
    )


def _mean(numbers: Any) -> float | None:
    return float(np.mean(numbers)) if len(numbers) else None


GAMES_PER_CHUNK = 32
"""Games per chunk. The games of a chunk are played together, and each process of a killed command
loses at most one chunk."""

_MAX_CHUNKS_WITHOUT_NEW = 64
"""Consecutive chunks without a new position after which collection ends."""

_PROBES = range(3)
"""Numbers of the games that are tried first: if none of their first positions can be solved within
the budget, the command fails."""

_PROBE_BUDGET = SolverBudget(nodes=200_000_000)
"""Default solver budget for the games in `_PROBES`; exhausting it takes one or two minutes."""

_DATASET_FOLDER_KIND = FolderKind("dataset", "dataset.toml", "--out")

OracleFactory = Callable[[Game, SolverBudget], Oracle]
"""Function that returns an oracle with a budget per position."""


class CollectionProgress(NamedTuple):
    """Number of positions collected so far, and counts of excluded positions."""

    position_count: int
    counts: CollectionCounts
    duplicates: int


class _Chunk(NamedTuple):
    """Arguments for a worker process that plays a chunk of games."""

    game: str
    settings: DatasetSettings
    chunk_number: int
    folder: Path
    make_oracle: OracleFactory


def make_dataset(
    game: Game,
    position_count: int,
    settings: DatasetSettings,
    path: Path,
    processes: int = 1,
    report: Callable[[CollectionProgress], None] = lambda _: None,
    make_oracle: OracleFactory = oracle_for,
) -> dict[str, Any]:
    """Write a file of solved positions and its manifest ``FILE.json``; return the manifest.

    The content of the file does not depend on the number of processes. Small sets use fewer
    processes, because starting one takes seconds. Positions where every move is best, and
    duplicates under symmetries, are excluded. If further games have no new positions, the file
    contains fewer positions than requested. `make_oracle` is imported and called in every process.
    Raises UserError if an existing file or the parts of an interrupted command have different
    settings, if the oracle cannot solve the game within its budget, or if no suitable position is
    found.
    """
    request = {"requested": position_count, **settings.model_dump()}
    complete = {**request, **settings.model_dump(exclude_none=False)}
    if path.exists():
        return _reuse_finished(path, game, complete)
    folder = _sibling(path, ".parts")
    if not folder.exists():
        _probe(game, settings, make_oracle(game, settings.solver_budget or _PROBE_BUDGET))
    name = game_name(game)
    chunks = (_Chunk(name, settings, number, folder, make_oracle) for number in count())
    with _DATASET_FOLDER_KIND.locked(folder):
        if path.exists():  # another process has just finished it
            return _reuse_finished(path, game, complete)
        _check_settings(folder, game, settings)
        builder = _collect(game, position_count, chunks, processes, report)
        collection = builder.collection()
        manifest = None
        if len(collection.positions):
            metadata = {**request, **collection.counts._asdict(), "duplicates": builder.duplicates}
            write_positions(path, collection.positions, metadata)
            manifest = write_manifest(path, collection.positions, metadata)
        shutil.rmtree(folder, ignore_errors=True)  # another process may be removing it as well
    if manifest is not None:
        return manifest
    raise UserError(
        f"none of {collection.counts.games} games has a suitable position: games of {name} can end"
        f" before ply {settings.first_ply}, or every move is a best move"
    )


def dataset_command(game: str, positions: int, settings: DatasetSettings) -> list[str]:
    """Return the command line that creates a data set with these settings."""
    last = "" if settings.last_ply == DatasetSettings().last_ply else settings.last_ply
    options = {
        "positions": positions, "seed": settings.seed, "plies": f"{settings.first_ply}:{last}",
        "perfect": settings.perfect, "nodes": settings.nodes,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    one = ["--one-per-game"] if settings.one_per_game else []
    return ["zerolab", "dataset", game, *words, *one]


def is_being_made(path: Path) -> bool:
    """Return whether another process is making the data set at `path`."""
    return is_locked(_sibling(path, ".parts"))


def stored_share(path: Path, position_count: int) -> float:
    """Return the share of `position_count` positions that is stored in parts, from 0 to 1.

    The share is an estimate, which assumes that all parts have as many new positions as the first
    one listed. It is 0 if there are no parts or the first one cannot be read.
    """
    parts = list(_sibling(path, ".parts").glob("*.parquet"))
    if not parts:
        return 0.0
    try:
        return min(1.0, len(parts) * len(read_positions(parts[0])[0]) / position_count)
    except UserError:
        return 0.0


def check_dataset_path(path: Path) -> None:
    """Raise UserError if a data set cannot be written to this path."""
    check_output_path(path)
    for ending in (".json", ".parts"):
        check_valid_path(_sibling(path, ending))
    if path.suffix != ".parquet":
        raise UserError(f"{quoted(path)}: expected a name that ends in .parquet")


def _sibling(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}{ending}")


def collect_in_memory(
    game: Game, position_count: int, settings: DatasetSettings, oracle: Oracle
) -> CollectedPositions:
    """Return `position_count` solved positions, or fewer if further games have no new ones.

    Raises NotSolvedError if the oracle's budget is too small for the first plies.
    """
    _probe(game, settings, oracle)
    builder = _DatasetBuilder(game, position_count)
    for chunk_number in count():
        builder.add(collect_positions(game, oracle, settings, _game_numbers(chunk_number)))
        if builder.is_over:
            break
    return builder.collection()


def _collect(
    game: Game,
    position_count: int,
    chunks: Iterator[_Chunk],
    processes: int,
    report: Callable[[CollectionProgress], None],
) -> _DatasetBuilder:
    """Play chunks until there are enough positions, or no new ones."""
    builder = _DatasetBuilder(game, position_count)
    processes = min(processes, -(-position_count // GAMES_PER_CHUNK))
    with map_in_processes(_play_chunk, chunks, processes) as parts:
        for part in parts:
            builder.add(part)
            report(builder.progress_so_far)
            if builder.is_over:
                break
    return builder


class _DatasetBuilder:
    """Builder of a data set from parts, which are joined in game order without duplicates."""

    def __init__(self, game: Game, requested: int) -> None:
        self.duplicates = 0
        self._game = game
        self._requested = requested
        self._known: set[bytes] = set()
        self._parts: list[SolvedPositions] = []
        self._counts = CollectionCounts()
        self._parts_without_new = 0

    def add(self, part: CollectedPositions) -> None:
        """Add the new positions of a part."""
        new = []
        images, _ = canonical_states(self._game, part.positions.states)
        for row, image in enumerate(images):
            key = image.tobytes()
            if key in self._known:
                self.duplicates += 1
            elif not self.is_full:
                self._known.add(key)
                new.append(row)
        self._parts.append(part.positions.take(np.array(new, np.int64)))
        self._counts = self._counts.plus(part.counts)
        self._parts_without_new = 0 if new else self._parts_without_new + 1

    @property
    def progress_so_far(self) -> CollectionProgress:
        """Numbers of positions collected and excluded so far."""
        return CollectionProgress(len(self._known), self._counts, self.duplicates)

    @property
    def is_full(self) -> bool:
        """True if the requested number of positions is reached."""
        return len(self._known) >= self._requested

    @property
    def is_over(self) -> bool:
        """True if there are enough positions, or if recent parts had no new ones."""
        return self.is_full or self._parts_without_new >= _MAX_CHUNKS_WITHOUT_NEW

    def collection(self) -> CollectedPositions:
        """Return the positions added so far, with the counts of all games."""
        return CollectedPositions(join_positions(self._parts), self._counts)


def _probe(game: Game, settings: DatasetSettings, oracle: Oracle) -> None:
    """Raise NotSolvedError if the oracle's budget is too small for the first plies."""
    first_ply_only = settings.model_copy(
        update={"last_ply": settings.first_ply, "one_per_game": False}
    )
    counts = collect_positions(game, oracle, first_ply_only, _PROBES).counts
    if counts.unsolved == counts.games:
        first = settings.first_ply
        later = min(first + 10, (first + compiled_rules.max_plies(game)) // 2)
        plies = f"later plies, such as --plies {later}:, or " if later > first else ""
        raise NotSolvedError(
            f"{game_name(game)} cannot be solved within the budget from ply {first}: expected"
            f" {plies}a larger --nodes"
        )


def _game_numbers(chunk_number: int) -> range:
    return range(GAMES_PER_CHUNK * chunk_number, GAMES_PER_CHUNK * (chunk_number + 1))


def _oracle(chunk: _Chunk) -> Oracle:
    """Return an oracle for a chunk.

    Without a budget, all chunks of this process share one oracle and its transposition table. With
    a budget, results depend on the content of this table, so every chunk has a new oracle.
    """
    if chunk.settings.solver_budget is None:
        return unlimited_oracle(chunk.game, chunk.make_oracle)
    return chunk.make_oracle(parse_game(chunk.game), chunk.settings.solver_budget)


@lru_cache(maxsize=1)
def unlimited_oracle(game: str, make_oracle: OracleFactory) -> Oracle:
    """Return this process's oracle without a budget for the game with the given name."""
    return make_oracle(parse_game(game), UNLIMITED_BUDGET)


def _play_chunk(chunk: _Chunk) -> CollectedPositions:
    """Return the part of a chunk, from the part's file if it exists; called in worker processes."""
    path = chunk.folder / f"{chunk.chunk_number:07}.parquet"
    game = parse_game(chunk.game)
    if path.exists():
        positions, metadata = read_positions(path, game)
        return CollectedPositions(positions, CollectionCounts(**metadata))
    part = collect_positions(
        game, _oracle(chunk), chunk.settings, _game_numbers(chunk.chunk_number)
    )
    write_positions(path, part.positions, part.counts._asdict())
    return part


def _check_settings(folder: Path, game: Game, settings: DatasetSettings) -> None:
    """Save the settings of new parts; raise UserError if existing parts have different settings."""
    table = {"game": game_name(game), **settings.model_dump(exclude_none=True)}
    if _DATASET_FOLDER_KIND.matches(folder):
        _DATASET_FOLDER_KIND.require_equal_settings(
            folder, _DATASET_FOLDER_KIND.read_settings(folder), table
        )
    else:
        _DATASET_FOLDER_KIND.write_settings(folder, table)


def _reuse_finished(path: Path, game: Game, request: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a finished file; raise UserError if its settings differ."""
    positions, metadata = read_positions(path, game)
    for key, value in request.items():
        if metadata.get(key) != value:
            raise UserError(
                f"{quoted(path)} already exists with {key} = {_shown(metadata.get(key))}, not"
                f" {_shown(value)}: expected another --out"
            )
    shutil.rmtree(_sibling(path, ".parts"), ignore_errors=True)
    return write_manifest(path, positions, metadata)


def _shown(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else quoted(value)
    return "no limit" if value is None else text


def write_manifest(
    path: Path, positions: SolvedPositions, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the manifest of a file of solved positions next to the file; return the manifest."""
    manifest = _dataset_manifest(positions, metadata)
    write_text(_sibling(path, ".json"), json.dumps(manifest, indent=1) + "\n")
    return manifest
