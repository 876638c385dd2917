"""`zerolab dataset`: files of solved positions."""

from __future__ import annotations

import json as json_format
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from zerolab.cli.output import say
from zerolab.cli.parse import call
from zerolab.cli.process import resumable
from zerolab.cli.progress_bar import Update, progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.threads import available_cores
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import CollectionProgress, check_dataset_path, make_dataset
from zerolab.evaluation.manifest import summary
from zerolab.rules.catalogue import game_name, parse_game

_MOST_POSITIONS = 30_000_000
_MOST_PROCESSES = 1024


def dataset(
    game: tyro.conf.Positional[str],
    *,
    positions: int,
    perfect: float = 0.5,
    one_per_game: bool = False,
    plies: Annotated[str, tyro.conf.arg(metavar="LOW:HIGH")] = "0:",
    nodes: int | None = None,
    seed: int = 0,
    out: Path | None = None,
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Write a Parquet file of solved positions, and a manifest beside it.

    Games are played in which each ply is a best move or a random one. No two positions are equal or
    mirrored, and none has only best moves. To resume a stopped command, repeat it.

    Examples:
      zerolab dataset connect_four:5x5 --positions 10000 --one-per-game
      zerolab dataset othello:6x6 --positions 1000 --plies 20:

    Args:
        game: What to play, such as othello:6x6.
        positions: How many positions to collect.
        perfect: Probability that a ply is a best move; other plies are random.
        one_per_game: Take one position of each game instead of all.
        plies: Collect from ply LOW to ply HIGH, as in 20: or 8:30; moves before LOW are random
            and nothing is solved there, for games that are too hard to solve from the start.
        nodes: Leave out positions that take the solver more nodes; no limit by default.
        seed: What all random streams derive from.
        out: Where to write; GAME-POSITIONS.parquet by default.
        processes: Processes to use; one per core by default.
        json: Print the manifest instead of a summary.
    """
    chosen = parse_game(game)
    _check_number("positions", positions, _MOST_POSITIONS)
    workers = processes if processes is not None else available_cores()
    _check_number("processes", workers, _MOST_PROCESSES)
    given = {"seed": seed, "perfect": perfect, "one_per_game": one_per_game, "nodes": nodes}
    settings = validate(DatasetSettings, {**given, **_parse_plies(plies)})
    name = game_name(chosen)
    path = out or Path(f"{name.replace(':', '-')}-{positions}.parquet")
    check_dataset_path(path)
    with (
        resumable("finished chunks are saved", "the same command"),
        progress_bar(f"solving {name}", positions, "positions") as update,
    ):
        manifest = make_dataset(
            chosen, positions, settings, path, workers, lambda done: _show(update, done)
        )
    if json:
        json_format.dump(manifest, sys.stdout, indent=1)
        print()
    else:
        say(*summary(path, manifest))


def _check_number(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise UserError(f"{name} = {quoted(value)}: expected at least 1, at most {most}")


def _parse_plies(text: str) -> dict[str, int]:
    found = re.fullmatch(r"(\d{0,5}):(\d{0,5})", text)
    if found is None:
        raise UserError(f"--plies {quoted(text)}: expected LOW:HIGH, as in 20: or 8:30 or :12")
    ends = zip(("first_ply", "last_ply"), found.groups(), strict=True)
    return {name: int(digits) for name, digits in ends if digits}


def _show(update: Update, progress: CollectionProgress) -> None:
    notes = [f"{progress.counts.games} games"]
    if progress.counts.unsolved:
        notes.append(f"{progress.counts.unsolved} too hard")
    update(progress.positions, ", ".join(notes))


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and write the file."""
    call(dataset, "dataset", arguments)
