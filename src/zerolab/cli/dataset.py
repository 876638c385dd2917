"""`zerolab dataset`: files of solved positions."""

from __future__ import annotations

import json as json_format
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from zerolab.cli.meter import Update, meter
from zerolab.cli.parse import call
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.core.threads import available_cores
from zerolab.evaluation.collecting import Recipe
from zerolab.evaluation.dataset import Progress, make_dataset
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
    mirrored, and none has only best moves. A stopped command goes on when it is given again.

    Examples:
      zerolab dataset connect_four:5x5 --positions 10000 --one-per-game
      zerolab dataset othello:6x6 --positions 1000 --plies 20:

    Args:
        game: What to play, such as othello:6x6.
        positions: How many positions to collect.
        perfect: How likely a ply is a best move, from 0 to 1; other plies are random.
        one_per_game: Take one position of each game instead of all.
        plies: Collect from ply LOW to ply HIGH, as in 20: or 8:30; moves before LOW are random,
            and nothing is solved there, for games whose openings are too hard to solve.
        nodes: Leave out positions that take the solver more nodes; no limit by default.
        seed: What all draws derive from.
        out: Where to write; GAME-POSITIONS.parquet by default.
        processes: How many processes to use; one for each core by default.
        json: Print the manifest instead of a summary.
    """
    chosen = parse_game(game)
    if not 1 <= positions <= _MOST_POSITIONS:
        raise UserError(f"positions = {positions}: expected at least 1, at most {_MOST_POSITIONS}")
    workers = processes if processes is not None else available_cores()
    if not 1 <= workers <= _MOST_PROCESSES:
        raise UserError(f"processes = {workers}: expected at least 1, at most {_MOST_PROCESSES}")
    settings: dict[str, Any] = {"seed": seed, "perfect": perfect, "one_per_game": one_per_game}
    recipe = validate(Recipe, {**settings, "nodes": nodes, **_parse_plies(plies)})
    name = game_name(chosen)
    path = out or Path(f"{name.replace(':', '-')}-{positions}.parquet")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist")
    try:
        with meter(f"solving {name}", positions, "positions") as update:
            manifest = make_dataset(
                chosen, positions, recipe, path, workers, lambda done: _show(update, done)
            )
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise
    if json:
        json_format.dump(manifest, sys.stdout, indent=1)
        print()
    else:
        _summarise(path, manifest)


def _parse_plies(text: str) -> dict[str, int]:
    found = re.fullmatch(r"(\d{0,5}):(\d{0,5})", text)
    if found is None:
        raise UserError(f"--plies {text}: expected LOW:HIGH, as in 20: or 8:30 or :12")
    ends = zip(("first_ply", "last_ply"), found.groups(), strict=True)
    return {name: int(digits) for name, digits in ends if digits}


def _show(update: Update, progress: Progress) -> None:
    notes = [f"{progress.counts.games} games"]
    if progress.counts.unsolved:
        notes.append(f"{progress.counts.unsolved} too hard")
    update(progress.positions, ", ".join(notes))


def _summarise(path: Path, manifest: Mapping[str, Any]) -> None:
    found, wanted = manifest["positions"], manifest["requested"]
    if found < wanted:
        print(f"only {found} of {wanted} positions found: further games brought no new ones")
    print(
        f"{path}: {found} positions of {manifest['games']} games;"
        f" left out {manifest['duplicates']} equal or mirrored,"
        f" {manifest['all_optimal']} where every move is best, {manifest['unsolved']} not solved"
    )
    if found:
        print(
            f"{manifest['won']} won, {manifest['drawn']} drawn, {manifest['lost']} lost;"
            f" {manifest['correct_moves']:.2f} best moves on average; random play:"
            f" {manifest['random_strong']:.1%} strong, {manifest['random_weak']:.1%} weak"
        )


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and write the file."""
    call(dataset, "dataset", arguments)
