"""`zerolab dataset`: files of solved positions, from games or from public test sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import tyro

from zerolab.cli.output import print_json, say
from zerolab.cli.process import resume_advice
from zerolab.cli.progress import ProgressCallback, progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.processes import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import (
    CollectionProgress,
    check_dataset_path,
    make_dataset,
    manifest_lines,
)
from zerolab.evaluation.positions import Positions
from zerolab.evaluation.public_sets import USUAL_GAME, PublicSet, read_public_set
from zerolab.evaluation.solved_sets import (
    cache_folder,
    solve_set,
    solved_set_lines,
    write_solved_set,
)
from zerolab.rules.catalogue import game_name, parse_game

_MOST_POSITIONS = 30_000_000
_MOST_PROCESSES = 1024


def dataset(
    game: tyro.conf.Positional[str | None] = None,
    *,
    positions: int | None = None,
    from_: Annotated[Path | None, tyro.conf.arg(name="from", metavar="FILE")] = None,
    perfect: float = 0.5,
    one_per_game: bool = False,
    plies: Annotated[str, tyro.conf.arg(metavar="LOW:HIGH")] = "0:",
    nodes: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Write a Parquet file of solved positions and a manifest.

    The positions come from games in which each ply is either a best move or a random move. The file
    contains no duplicate or symmetric positions, and no positions in which every move is a best
    move. Repeat the command to resume it.

    With --from, the positions are those of a public test set. Every line is checked, and its score
    is compared with the solver's.

    Examples:
      zerolab dataset connect_four:5x5 --positions 10000 --one-per-game
      zerolab dataset othello:6x6 --positions 1000 --plies 20:
      zerolab dataset --from Test_L1_R1

    Args:
        game: Game, such as othello:6x6; with --from, connect_four:6x7 by default.
        positions: Number of positions to collect.
        from_: Test set to solve, with lines such as "4455 3": moves and score, as published by
            Pons; or JSON lines as on Kaggle (docs/evaluation.md).
        perfect: Probability that a ply is a best move; all other plies are random.
        one_per_game: Collect one position from each game instead of all.
        plies: Plies LOW to HIGH from which to collect, such as 20: or 8:30. Moves before LOW are
            random, and those positions are not solved, so that games that are too hard to solve
            from the start can be used.
        nodes: Maximum number of nodes for solving a position; unsolved positions are skipped. No
            limit by default.
        seed: Seed of all random streams.
        out: File to write; GAME-POSITIONS.parquet or GAME-FILE.parquet by default.
        processes: Number of processes; one per core by default.
        json: Print the manifest instead of a summary.
    """
    workers = processes if processes is not None else available_cores()
    _check_number("processes", workers, _MOST_PROCESSES)
    if from_ is not None:
        unused = (positions, perfect, one_per_game, plies, nodes, seed)
        _check_unused(dict(zip(_COLLECTING, unused, strict=True)))
        _write_public_set(from_, game or USUAL_GAME, out, workers, json)
        return
    if game is None or positions is None:
        raise UserError("expected a game and --positions N, or --from FILE")
    parsed_game = parse_game(game)
    _check_number("positions", positions, _MOST_POSITIONS)
    options = {"seed": seed, "perfect": perfect, "one_per_game": one_per_game, "nodes": nodes}
    settings = validate(DatasetSettings, {**options, **_parse_plies(plies)})
    name = game_name(parsed_game)
    path = out or Path(f"{name.replace(':', '-')}-{positions}.parquet")
    check_dataset_path(path)
    with (
        resume_advice("finished chunks are saved", "the same command"),
        progress_bar(f"solving {name}", positions, "positions") as update,
    ):
        manifest = make_dataset(
            parsed_game, positions, settings, path, workers,
            lambda progress: _show_collection(update, progress),
        )  # fmt: skip
    if json:
        print_json(manifest)
    else:
        say(*manifest_lines(path, manifest))


_COLLECTING = {
    "positions": None,
    "perfect": 0.5,
    "one_per_game": False,
    "plies": "0:",
    "nodes": None,
    "seed": 0,
}
"""Options for collecting positions, with their defaults."""


def _check_unused(options: Mapping[str, object]) -> None:
    """Raise UserError if an option for collecting positions has been set."""
    for name, value in options.items():
        if value != _COLLECTING[name]:
            option = name.replace("_", "-")
            raise UserError(f"--{option} has no effect with --from: expected only one of them")


def _write_public_set(
    source: Path, game: str, out: Path | None, processes: int, as_json: bool
) -> None:
    """Solve a public test set and write its positions and manifest."""
    public = read_public_set(source, parse_game(game))
    path = out or Path(f"{game_name(public.game).replace(':', '-')}-{source.stem}.parquet")
    check_dataset_path(path)
    manifest = write_solved_set(path, public, solve_public_set(public, processes))
    if as_json:
        print_json(manifest)
    else:
        say(*solved_set_lines(path, manifest))


def solve_public_set(public: PublicSet, processes: int | None = None) -> Positions:
    """Return the solved positions of a test set, from the cache if possible, showing progress."""
    title = f"solving {public.path.name}"
    with (
        resume_advice("solved positions are cached", "the same command"),
        progress_bar(title, len(public), "positions") as update,
    ):
        return solve_set(
            public,
            processes or available_cores(),
            lambda solved: update(solved, ""),
            folder=cache_folder(),
        )


def _check_number(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UserError(f"{name} = {quoted(value)}: expected at least 1 and at most {most}")


def _parse_plies(text: str) -> dict[str, int]:
    match = re.fullmatch(r"(\d{0,5}):(\d{0,5})", text)
    if match is None:
        raise UserError(f"--plies {quoted(text)}: expected LOW:HIGH, such as 20:, 8:30 or :12")
    ends = zip(("first_ply", "last_ply"), match.groups(), strict=True)
    return {name: int(digits) for name, digits in ends if digits}


def _show_collection(update: ProgressCallback, progress: CollectionProgress) -> None:
    notes = [f"{progress.counts.games} games"]
    if progress.counts.unsolved:
        notes.append(f"{progress.counts.unsolved} too hard")
    update(progress.position_count, ", ".join(notes))
