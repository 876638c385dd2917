"""Ledgers: small Parquet files with everything that a report needs from the finished work.

A ledger has one row per finished run, player without a run, and computation. Reports are generated
from ledgers alone, so results outlive the machine that produced them. Ledgers from several machines
can be merged if their seeds differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

import pyarrow as pa

from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.ratings.results import (
    EffectiveScore,
    MatchScore,
    RatedGame,
    effective_score_of,
    score_of,
)
from zerolab.store.checks import damaged_file_error, user_errors_on_read
from zerolab.store.folder import RunEnvironment
from zerolab.store.parquet import read_table, write_table
from zerolab.studies.looks import TakenLook, check_seeds, parse_looks
from zerolab.training.records import Record
from zerolab.training.reporting import parse_records

MAX_LEDGER_BYTES = 1 << 29
_MAX_GAMES = 1_000_000  # limit on the games of two players, per colour
SCHEMA = 1
LEDGER_FILE_KIND = "study ledger"

RowKind = Literal["run", "player", "computation"]
"""Subject of a row: a training run, a tournament player without a run, or a computation."""

_FIELDS = ("kind", "part", "label", "key", "details")
_COLUMNS = pa.schema([pa.field(name, pa.string(), nullable=False) for name in _FIELDS])


class PairScore(NamedTuple):
    """Games of a player against an opponent in a tournament."""

    tournament: str
    """Key of the tournament."""
    player: str
    """Name of the player in the tournament."""
    opponent: str
    moving_first: MatchScore
    """Score of the player in games in which it moved first."""
    moving_second: MatchScore
    """Score of the player in games in which it moved second."""
    effective_moving_first: EffectiveScore
    """Effective numbers of games in which the player moved first."""
    effective_moving_second: EffectiveScore
    """Effective numbers of games in which the player moved second."""


@dataclass(frozen=True)
class FinishedWorkRow:
    """Finished run, player or computation."""

    kind: RowKind
    part: str
    """Part of the study."""
    label: str
    """Name within the part."""
    key: str
    """Digest of everything that the result depends on (`run_key`); for a player, its spec."""
    seed: int | None = None
    """Seed of a run."""
    weights_digest: str = ""
    """Digest of a run's final network."""
    environments: Sequence[RunEnvironment] = ()
    """Hardware and software of a run."""
    records: Sequence[Record] = ()
    """Records of a run's stages."""
    scores: Sequence[PairScore] = ()
    """Tournament games of a run's networks or of a player."""
    measurements: Mapping[str, Any] = field(default_factory=dict)
    """Result of a computation, or measurements of a run for the report, by name."""

    @property
    def kind_part_and_label(self) -> tuple[str, str, str]:
        """Kind, part and label of the row, unique within a ledger."""
        return self.kind, self.part, self.label


class LedgerHeader(NamedTuple):
    """Study, scale and design of a ledger."""

    study: str
    scale: str
    design: str
    """Digest of the design for a single seed; it does not depend on the planned seeds."""


@dataclass(frozen=True)
class Ledger:
    """Finished part of a study."""

    header: LedgerHeader
    seeds: Sequence[int]
    """Planned seeds, in ascending order; empty for a study without runs."""
    rows: Sequence[FinishedWorkRow]
    planned_seed_count: int
    """Number of seeds required for the last look; see `Study.last_look_size`."""
    looks: Sequence[TakenLook] = ()
    """Looks at the claims so far."""


def write_ledger(path: Path, ledger: Ledger) -> None:
    """Write a ledger; equal ledgers result in identical bytes."""
    rows = sorted(ledger.rows, key=lambda row: row.kind_part_and_label)
    columns = {
        "kind": [row.kind for row in rows],
        "part": [row.part for row in rows],
        "label": [row.label for row in rows],
        "key": [row.key for row in rows],
        "details": [_details(row) for row in rows],
    }
    header = {
        "kind": LEDGER_FILE_KIND, "schema": SCHEMA, **ledger.header._asdict(),
        "seeds": list(ledger.seeds), "planned_count": ledger.planned_seed_count,
        "looks": [look.as_dict() for look in ledger.looks],
    }  # fmt: skip
    write_table(path, pa.table(columns, schema=_COLUMNS), header)


def read_ledger(path: Path) -> Ledger:
    """Read a ledger; raise UserError if the file is missing, damaged or of a different kind."""
    header, table = read_table(
        path, _COLUMNS, LEDGER_FILE_KIND, SCHEMA, written_by="zerolab study", rows_at_once=1,
        max_bytes=MAX_LEDGER_BYTES,
    )  # fmt: skip
    with user_errors_on_read(path):
        identified = LedgerHeader(*(str(header[name]) for name in LedgerHeader._fields))
        seeds = check_seeds(header["seeds"])
        looks = parse_looks(header["looks"], seeds)
        planned_count = int(header["planned_count"])
        rows = [_readable_row(path, values) for values in table.to_pylist()]
        if len({row.kind_part_and_label for row in rows}) < len(rows):
            raise ValueError("two rows describe the same result")
    return Ledger(identified, seeds, rows, planned_count, looks)


def merge_ledgers(ledgers: Mapping[Path, Ledger]) -> Ledger:
    """Return several ledgers merged into one.

    The planned seeds are those of all ledgers. The looks of the ledger with the most seeds in its
    last look are kept, followed by one look that combines the last looks of all ledgers. Raises
    UserError if the ledgers belong to different studies, scales or designs, if two of them contain
    the same run, or if games without a seed differ.
    """
    (first_path, first), *others = ledgers.items()
    merged = {row.kind_part_and_label: (first_path, row) for row in first.rows}
    for path, ledger in others:
        if ledger.header != first.header:
            raise UserError(
                f"{quoted(path)} belongs to {_describe(ledger.header)}, and {quoted(first_path)} to"
                f" {_describe(first.header)}: expected ledgers of one study, scale and design"
            )
        for row in ledger.rows:
            known_path, known = merged.setdefault(row.kind_part_and_label, (path, row))
            if known is not row:
                merged[row.kind_part_and_label] = known_path, _joined(known, row, known_path, path)
    seeds = sorted({seed for ledger in ledgers.values() for seed in ledger.seeds})
    rows = [row for _, row in merged.values()]
    planned_count = max(len(seeds), *(ledger.planned_seed_count for ledger in ledgers.values()))
    return Ledger(first.header, seeds, rows, planned_count, _merged_looks(list(ledgers.values())))


def _joined(
    one: FinishedWorkRow, other: FinishedWorkRow, one_path: Path, other_path: Path
) -> FinishedWorkRow:
    """Merge two rows of the same result without a seed, keeping the games of both.

    For computations, which may measure times, the first ledger's row is kept.
    """
    paths = f"both {quoted(one_path)} and {quoted(other_path)}"
    if one.kind == "run":
        raise UserError(
            f"{one.part}: {one.label} is in {paths}: expected ledgers of different seeds"
        )
    scores = {(each.tournament, each.player, each.opponent): each for each in one.scores}
    for each in other.scores:
        if scores.setdefault((each.tournament, each.player, each.opponent), each) != each:
            scores.clear()
            break
    if one.key != other.key or (one.scores and not scores):
        raise UserError(
            f"{one.part}: {one.label} is in {paths} with different results: leave one of them out"
        )
    return replace(one, scores=sorted(scores.values()))


def _merged_looks(ledgers: Sequence[Ledger]) -> list[TakenLook]:
    """Return the looks of the largest ledger, then one that combines the last looks of all."""
    looked = [ledger for ledger in ledgers if ledger.looks]
    if not looked:
        return []
    # Ties are broken, so that the order of the ledgers does not matter.
    largest = max(looked, key=lambda ledger: (len(ledger.looks[-1].seeds), ledger.looks[-1].seeds))
    last = [ledger.looks[-1] for ledger in looked]
    if len(last) == 1:
        return list(largest.looks)
    seeds = sorted({seed for look in last for seed in look.seeds})
    planned_count = max(len(seeds), *(look.planned_seed_count for look in last))
    spent = sorted(share for ledger in looked for share in _spent_shares(ledger.looks))
    return [*largest.looks, TakenLook(seeds, planned_count, spent)]


def _spent_shares(looks: Sequence[TakenLook]) -> list[float]:
    """Return shares of seeds at which tests would spend at least the level that `looks` spent."""
    merged = next((look.merged_seed_shares for look in reversed(looks)
                   if look.merged_seed_shares), [])  # fmt: skip
    return [*merged, looks[-1].seed_share]


def _describe(header: LedgerHeader) -> str:
    return f"{header.study} at the {header.scale} scale (design {header.design})"


def _details(row: FinishedWorkRow) -> str:
    table = {
        "seed": row.seed,
        "weights": row.weights_digest,
        "environments": [each.model_dump() for each in row.environments],
        "records": [each.as_dict() for each in row.records],
        "scores": [[*each[:3], *map(list, each[3:])] for each in row.scores],
        "numbers": dict(row.measurements),
    }
    return json.dumps(table, separators=(",", ":"), allow_nan=False)


def _readable_row(path: Path, values: Mapping[str, str]) -> FinishedWorkRow:
    try:
        return _row(**values)
    except UserError as error:
        raise damaged_file_error(path, error) from error


def _row(kind: str, part: str, label: str, key: str, details: str) -> FinishedWorkRow:
    """Parse a row of a file; raise UserError or a `DECODING_ERRORS` type if it is damaged."""
    if kind not in get_args(RowKind):
        raise ValueError(f"a row has the unknown kind {quoted(kind)}")
    table = json.loads(details, parse_constant=_refuse_constant, parse_float=_finite)
    seed = table["seed"]
    return FinishedWorkRow(
        cast("RowKind", kind), part, label, key,
        None if seed is None else int(seed),
        str(table["weights"]),
        [validate(RunEnvironment, each) for each in table["environments"]],
        parse_records(table["records"], "a record of a run"),
        [_score(*each) for each in table["scores"]],
        dict(table["numbers"]),
    )  # fmt: skip


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _score(
    tournament: str,
    player: str,
    opponent: str,
    first: Sequence[int],
    second: Sequence[int],
    effective_first: Sequence[float],
    effective_second: Sequence[float],
) -> PairScore:
    """Parse a score in a file; raise ValueError if its numbers of games are impossible."""
    pair = PairScore(
        str(tournament), str(player), str(opponent),
        MatchScore(*map(int, first)), MatchScore(*map(int, second)),
        EffectiveScore(*map(float, effective_first)), EffectiveScore(*map(float, effective_second)),
    )  # fmt: skip
    for played, effective in ((pair.moving_first, pair.effective_moving_first),
                              (pair.moving_second, pair.effective_moving_second)):  # fmt: skip
        if not all(min(many, 1) <= few <= many <= _MAX_GAMES
                   for few, many in zip(effective, played, strict=True)):  # fmt: skip
            raise ValueError(f"impossible numbers of games for {pair.player}")
    return pair


def pair_scores(tournament: str, games: Iterable[RatedGame]) -> dict[str, list[PairScore]]:
    """Return the scores of all pairs in a tournament, by player, from all games."""
    games_by_pair: dict[tuple[str, str], list[RatedGame]] = {}
    for game in games:
        games_by_pair.setdefault((game.first, game.second), []).append(game)
    pairs = games_by_pair.keys() | {pair[::-1] for pair in games_by_pair}
    by_player: dict[str, list[PairScore]] = {}
    for player, opponent in sorted(pairs):
        first = games_by_pair.get((player, opponent), [])
        second = games_by_pair.get((opponent, player), [])
        pair = PairScore(
            tournament, player, opponent,
            score_of(player, first), score_of(player, second),
            effective_score_of(player, first), effective_score_of(player, second),
        )  # fmt: skip
        by_player.setdefault(player, []).append(pair)
    return by_player
