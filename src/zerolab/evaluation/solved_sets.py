"""Public test sets with the exact value of every move, and error rates of players on them.

While a set is being solved, its solved positions are saved in zerolab's cache folder under the
digest of the set, so a repeated command resumes where an interrupted one stopped.

A *weak error* is a move that changes the result under perfect play, called a mistake in
[AlphaZeroJl] and [AlphaGPU]. A *strong error* is a move that is not a best move. The error rates
are 1 minus the weak and the strong accuracy, as defined in `evaluation.accuracy`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zerolab.core.errors import UserError, quoted
from zerolab.core.files import make_folder
from zerolab.core.kernel_cache import cache_root
from zerolab.core.processes import available_cores, map_in_processes
from zerolab.evaluation.accuracy import AccuracyReport
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import (
    CollectionProgress,
    OracleFactory,
    difficulty_line,
    make_dataset,
    unlimited_oracle,
    write_manifest,
)
from zerolab.evaluation.position_statistics import MeanEstimate
from zerolab.evaluation.positions import SolvedPositions, read_positions, write_positions
from zerolab.evaluation.public_sets import PublicSet
from zerolab.oracles.oracle import NotSolvedError
from zerolab.oracles.solver import oracle_for
from zerolab.report.table import Cell, Column, Interval, Table
from zerolab.rules.catalogue import game_name
from zerolab.rules.compiled_rules import canonical_states
from zerolab.rules.rules import Game, action_count
from zerolab.store.checks import hex_digest

_POSITIONS_PER_CHUNK = 10
_SAVE_SECONDS = 20.0
"""Minimum time in seconds between writes of the cache, except before the last one."""


def solved_set_cache_folder() -> Path | None:
    """Return the folder of solved sets, which may not exist; None if there is no home directory."""
    root = cache_root()
    return None if root is None else root / "solved-sets"


def collect_cached_positions(
    game: Game, count: int, settings: DatasetSettings, report: Callable[[CollectionProgress], None]
) -> tuple[SolvedPositions, str]:
    """Return the positions that `zerolab dataset` collects, and the digest in their manifest.

    They are kept in the cache, unless it is not writable or another process is filling it.
    """
    request = json.dumps([game_name(game), count, settings.model_dump(mode="json")], sort_keys=True)
    name = f"{hex_digest(request.encode())}.parquet"

    def collect(folder: Path) -> tuple[SolvedPositions, str]:
        path = folder / name
        manifest = make_dataset(game, count, settings, path, available_cores(), report)
        return read_positions(path, game)[0], str(manifest["digest"])

    with TemporaryDirectory() as temporary:
        cache = _writable_cache(name, game)
        if cache is not None:
            try:
                return collect(cache)
            except NotSolvedError:
                raise
            except UserError:  # the cache is in use, read-only or damaged
                pass
        return collect(Path(temporary))


def _writable_cache(name: str, game: Game) -> Path | None:
    """Return the cache folder after removing a damaged file, or None if nothing can be cached."""
    folder = solved_set_cache_folder()
    if folder is None:
        return None
    try:
        make_folder(folder)
    except UserError:
        return None
    path = folder / name
    if path.exists():
        try:
            read_positions(path, game)
        except UserError:
            path.unlink(missing_ok=True)
    return folder


def solve_set(
    public: PublicSet,
    processes: int = 1,
    report: Callable[[int], None] = lambda _: None,
    make_oracle: OracleFactory = oracle_for,
    folder: Path | None = None,
) -> SolvedPositions:
    """Return the solved positions of a set.

    Every position counts as a separate game, but positions that are equal under symmetries share
    a game number, so that intervals do not treat them as independent.

    `report` is called with the number of solved positions. `make_oracle` is imported and called in
    every process. `folder` contains the cached positions of earlier calls; if it is None, all
    positions are solved again. Raises UserError naming the first line whose score differs from the
    solver's.
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
    make_oracle: OracleFactory,
    path: Path | None,
) -> NDArray[np.int32]:
    """Return the values of all positions, given those of the first k, int32[k, actions]."""
    unlimited_oracle(game_name(public.game), make_oracle)  # warns here if it is a slow fallback
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
    make_oracle: OracleFactory


def _chunks(public: PublicSet, first: int, make_oracle: OracleFactory) -> Iterator[_Chunk]:
    name = game_name(public.game)
    for begin in range(first, len(public), _POSITIONS_PER_CHUNK):
        yield _Chunk(name, public.states[begin : begin + _POSITIONS_PER_CHUNK], make_oracle)


def _solve_chunk(chunk: _Chunk) -> NDArray[np.int32]:
    """Return int32[n, actions]: the values of the moves; called in worker processes."""
    return unlimited_oracle(chunk.game, chunk.make_oracle).action_values(chunk.states)


def _as_positions(public: PublicSet, values: NDArray[np.int32]) -> SolvedPositions:
    """Return the first k positions of a set with their values, int32[k, actions]."""
    count = len(values)
    offsets = public.offsets[: count + 1]
    images, _ = canonical_states(public.game, public.states[:count])
    _, game_numbers = np.unique(images, axis=0, return_inverse=True)
    return SolvedPositions(
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
        with suppress(UserError):  # a damaged file, or one from a different version, is replaced
            positions, _ = read_positions(path, public.game)
            count = len(positions)
            if np.array_equal(positions.states, public.states[:count]):
                return positions.action_values
    return np.empty((0, action_count(public.game)), np.int32)


def _save(path: Path | None, public: PublicSet, values: NDArray[np.int32]) -> None:
    if path is not None:
        with suppress(UserError):  # the set is solved even if nothing can be cached
            make_folder(path.parent)
            write_positions(path, _as_positions(public, values), {"set": public.digest})


def _check_scores(public: PublicSet, values: NDArray[np.int32]) -> None:
    """Raise UserError if a score of the set differs from the solver's."""
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
    count = int(wrong.sum())
    others = f" ({count} of {len(public)} lines {'disagrees' if count == 1 else 'disagree'})"
    raise public.line_error(row, reason + others)


def require_file_of_set(path: Path, public: PublicSet) -> None:
    """Raise UserError if a file exists that does not contain the solved positions of a set."""
    if path.exists() and read_positions(path, public.game)[1].get("set") != public.digest:
        raise UserError(f"{quoted(path)} exists with other positions: expected a different --out")


def write_solved_set(path: Path, public: PublicSet, positions: SolvedPositions) -> dict[str, Any]:
    """Write the solved positions of a set to a Parquet file; write and return its manifest."""
    metadata = {"source": public.path.name, "set": public.digest}
    write_positions(path, positions, metadata)
    return write_manifest(path, positions, metadata)


def solved_set_lines(path: Path, manifest: dict[str, Any]) -> list[str]:
    """Return a summary of the manifest of a solved set as lines of text."""
    count, source = manifest["positions"], manifest["source"]
    return [
        f"{path}: {count} positions from {source}; the solver confirms every score",
        difficulty_line(manifest),
    ]


class PublishedErrors(NamedTuple):
    """Published weak error rates of an agent, by test set."""

    reference_key: str
    """Key in docs/references.md."""
    simulations: int
    """Simulations per move."""
    training_effort: str
    """Duration and hardware of the training."""
    error_rates: Mapping[str, float]


PONS_SET_NAMES: Mapping[str, str] = {
    "34dc73828dadc1d5186a97c39cda04e6": "Begin-Easy",
    "b6fc88e45d6d2ee2daabfd3ab24298aa": "Begin-Medium",
    "04e5917b567b6b3a2e91eb2f54d64102": "Begin-Hard",
    "490ad4890542bbb3a598a1439ca05c0d": "Middle-Easy",
    "300c06bf8272a386ead33b847f3ead62": "Middle-Medium",
    "9bdb4afe9533786f52abc4e94d24a041": "End-Easy",
}
"""Names of the test sets of [Pons] by `PublicSet.digest`.

The files are Test_L1_R1, Test_L1_R2, Test_L1_R3, Test_L2_R1, Test_L2_R2 and Test_L3_R1.
"""

PUBLISHED_ERRORS: tuple[PublishedErrors, ...] = (
    PublishedErrors(
        "AlphaZeroJl",
        600,
        "15 iterations of about an hour each, RTX 2070; read off its figure",
        {
            "Begin-Easy": 0.0,
            "Middle-Easy": 0.0,
            "End-Easy": 0.0,
            "Begin-Medium": 0.02,
            "Middle-Medium": 0.025,
            "Begin-Hard": 0.07,
        },
    ),
    PublishedErrors("AlphaGPU", 600, "two to three hours on one GPU", {"Begin-Hard": 0.07}),
)


def public_set_name(public: PublicSet) -> str:
    """Return the name of a known test set, otherwise the name of its file."""
    return PONS_SET_NAMES.get(public.digest, public.path.name)


class SetAccuracy(NamedTuple):
    """Accuracy of an agent's players on one test set."""

    file: str
    name: str
    """Name of a known set, otherwise the name of the file."""
    positions: int
    reports: list[AccuracyReport]

    def as_dict(self) -> dict[str, Any]:
        """Return the measured and the published rates for JSON."""
        published = {
            each.reference_key: each.error_rates[self.name]
            for each in PUBLISHED_ERRORS
            if self.name in each.error_rates
        }
        return {
            "file": self.file,
            "set": self.name,
            "positions": self.positions,
            "players": [_rates(report) for report in self.reports],
            "published_weak_errors": published,
        }


def _rates(report: AccuracyReport) -> dict[str, Any]:
    weak, strong = (
        _complement(each) for each in (report.all_positions.weak, report.all_positions.strong)
    )
    regret = report.all_positions.regret
    rates = {"weak_errors": weak, "strong_errors": strong, "regret": regret}
    values = {name: each and each.as_dict() for name, each in rates.items()}
    return {"name": report.name, **values}


def _complement(estimate: MeanEstimate | None) -> MeanEstimate | None:
    """Return the share of errors for a share of correct moves."""
    if estimate is None:
        return None
    value, low, high = (max(0.0, 1.0 - share) for share in estimate.interval)  # avoids -0.0 %
    return MeanEstimate(Interval(value, high, low), estimate.sample_count)


def error_tables(results: Sequence[SetAccuracy], simulations: int | None) -> list[Table]:
    """Return one table per player, with one row per set.

    The tables of players that search include the published rates for the sets. `simulations` is the
    number of simulations per move of the agent's search, if it has one.
    """
    return [
        _error_table(results, report.name, simulations)
        for report in results[0].reports
        if report.has_intervals
    ]


def _error_table(results: Sequence[SetAccuracy], player: str, simulations: int | None) -> Table:
    is_alone = player == "network"
    title = "network alone" if is_alone else player
    if simulations and not is_alone:
        title += f", {simulations} simulations per move"
    known = {result.name for result in results}
    published = [
        each for each in PUBLISHED_ERRORS if not is_alone and known & set(each.error_rates)
    ]
    columns: list[str | Column] = [
        "set",
        "positions",
        Column("result changed", ".1%"),
        Column("not a best move", ".1%"),
        Column("regret per move", ".3f"),
        *(
            Column(f"[{each.reference_key}], {each.simulations} simulations", ".1%")
            for each in published
        ),
    ]
    rows = [
        [
            result.name,
            result.positions,
            *_player_cells(result, player),
            *(each.error_rates.get(result.name) for each in published),
        ]
        for result in results
    ]
    notes = [
        f"[{each.reference_key}], result changed: {each.training_effort}" for each in published
    ]
    return Table("errors", title, columns, rows, "; ".join(notes))


def _player_cells(result: SetAccuracy, player: str) -> list[Cell]:
    report = next(each for each in result.reports if each.name == player)
    estimates = (
        _complement(report.all_positions.weak),
        _complement(report.all_positions.strong),
        report.all_positions.regret,
    )
    return [None if each is None else each.interval for each in estimates]
