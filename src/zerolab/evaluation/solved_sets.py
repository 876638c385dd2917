"""Public test sets with the exact value of every move, solved once and cached.

The solved positions of a set are saved while it is solved, in the folder of zerolab's caches, under
the digest of the set. An interrupted command therefore continues where it was stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.core.kernel_cache import cache_root
from zerolab.core.processes import map_in_processes
from zerolab.evaluation.dataset import (
    OracleMaker,
    difficulty_line,
    unlimited_oracle,
    write_manifest,
)
from zerolab.evaluation.positions import Positions, read_positions, write_positions
from zerolab.evaluation.public_sets import PublicSet
from zerolab.oracles.solver import oracle_for
from zerolab.rules.catalogue import game_name
from zerolab.rules.compiled_rules import smallest_images
from zerolab.rules.rules import action_count

_POSITIONS_PER_CHUNK = 10
_SAVE_SECONDS = 20.0
"""Minimum time between two writes of the cache before the end."""


def cache_folder() -> Path | None:
    """Return the folder of solved sets, which may not exist; None without a home directory."""
    root = cache_root()
    return None if root is None else root / "solved-sets"


def solve_set(
    public: PublicSet,
    processes: int = 1,
    report: Callable[[int], None] = lambda _: None,
    make_oracle: OracleMaker = oracle_for,
    folder: Path | None = None,
) -> Positions:
    """Return the solved positions of a set.

    Every position is a game of one position, but positions that are equal under symmetries have the
    same game number, so that intervals do not count them as independent.

    `report` is called with the number of solved positions. `make_oracle` is imported and called in
    every process. `folder` has the cached positions of earlier calls; None solves the set again.
    Raises UserError naming the first line whose score is not that of the solver.
    """
    path = None if folder is None else folder / f"{public.digest}.parquet"
    values = _cached_values(path, public)
    if len(values) < len(public):
        values = _solve_rest(public, values, processes, report, make_oracle, path)
    _check_scores(public, values)
    return _as_positions(public, values)


def _solve_rest(
    public: PublicSet,
    values: NDArray[np.int32],
    processes: int,
    report: Callable[[int], None],
    make_oracle: OracleMaker,
    path: Path | None,
) -> NDArray[np.int32]:
    """Return the values of all positions, given those of the first k, int32[k, actions]."""
    unlimited_oracle(game_name(public.game), make_oracle)  # warns if it is a slow substitute
    saved_at = time.monotonic()
    chunks = list(_chunks(public, len(values), make_oracle))
    report(len(values))
    with map_in_processes(_solve_chunk, iter(chunks), min(processes, len(chunks))) as parts:
        for part in parts:
            values = np.concatenate([values, part])
            report(len(values))
            if time.monotonic() - saved_at >= _SAVE_SECONDS or len(values) == len(public):
                _save(path, public, values)
                saved_at = time.monotonic()
    return values


class _Chunk(NamedTuple):
    """Arguments for a worker process that solves some positions."""

    game: str
    states: NDArray[np.uint64]
    make_oracle: OracleMaker


def _chunks(public: PublicSet, first: int, make_oracle: OracleMaker) -> Iterator[_Chunk]:
    name = game_name(public.game)
    for begin in range(first, len(public), _POSITIONS_PER_CHUNK):
        yield _Chunk(name, public.states[begin : begin + _POSITIONS_PER_CHUNK], make_oracle)


def _solve_chunk(chunk: _Chunk) -> NDArray[np.int32]:
    """Return int32[n, actions]: the values of the moves; called in worker processes."""
    return unlimited_oracle(chunk.game, chunk.make_oracle).action_values(chunk.states)


def _as_positions(public: PublicSet, values: NDArray[np.int32]) -> Positions:
    """Return the first k positions of a set with their values, int32[k, actions]."""
    count = len(values)
    offsets = public.offsets[: count + 1]
    images, _ = smallest_images(public.game, public.states[:count])
    _, game_numbers = np.unique(images, axis=0, return_inverse=True)
    return Positions(
        public.game,
        game_numbers.reshape(-1).astype(np.int64),
        public.moves[: offsets[-1]],
        offsets,
        public.states[:count],
        values,
    )


def _cached_values(path: Path | None, public: PublicSet) -> NDArray[np.int32]:
    """Return the cached values of the first k positions of a set, int32[k, actions]."""
    if path is not None and path.is_file():
        with suppress(UserError):  # a damaged file, or one of another version, is replaced
            positions, _ = read_positions(path, public.game)
            count = len(positions)
            if np.array_equal(positions.states, public.states[:count]):
                return positions.action_values
    return np.empty((0, action_count(public.game)), np.int32)


def _save(path: Path | None, public: PublicSet, values: NDArray[np.int32]) -> None:
    if path is not None:
        with suppress(UserError):  # a set can be solved where nothing can be cached
            make_folder(path.parent)
            write_positions(path, _as_positions(public, values), {"set": public.digest})


def _check_scores(public: PublicSet, values: NDArray[np.int32]) -> None:
    """Raise UserError if a score of the set is not the solver's."""
    wrong = values.max(axis=1) != public.scores
    if public.move_scores is not None:
        wrong |= (values != public.move_scores).any(axis=1)
    if not wrong.any():
        return
    row = int(wrong.argmax())
    best = int(values[row].max())
    if best != public.scores[row]:
        reason = f"score {public.scores[row]}, but the solver finds {best}"
    else:
        assert public.move_scores is not None
        action = int((values[row] != public.move_scores[row]).argmax())
        reason = (
            f"move score {public.move_scores[row, action]} of column {action + 1}, but the solver"
            f" finds {values[row, action]}"
        )
    others = f" ({int(wrong.sum())} of {len(public)} lines disagree)"
    raise public.error(row, reason + others)


def write_solved_set(path: Path, public: PublicSet, positions: Positions) -> dict[str, Any]:
    """Write the solved positions of a set to a Parquet file, and its manifest; return it."""
    about = {"source": public.path.name, "set": public.digest}
    write_positions(path, positions, about)
    return write_manifest(path, positions, about)


def solved_set_lines(path: Path, manifest: dict[str, Any]) -> list[str]:
    """Return a summary of the manifest of a solved set as lines of text."""
    count, source = manifest["positions"], manifest["source"]
    return [
        f"{path}: {count} positions of {source}; the solver confirms every score",
        difficulty_line(manifest),
    ]
