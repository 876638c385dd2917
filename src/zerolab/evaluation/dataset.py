"""Files of solved positions, made by many processes; a killed command goes on where it was.

Games are played in chunks. A finished chunk is a file in the folder ``FILE.parts``; the parts are
then merged in the order of the games. So the file depends on the recipe alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zerolab.core.errors import UserError
from zerolab.core.files import make_folder, write_text
from zerolab.evaluation.boards import canonical_images
from zerolab.evaluation.collecting import Collected, Counts, Recipe, collect
from zerolab.evaluation.manifest import describe
from zerolab.evaluation.positions import (
    SCHEMA,
    Positions,
    joined,
    read_positions,
    write_positions,
)
from zerolab.evaluation.workers import in_order
from zerolab.oracles.catalogue import oracle_for
from zerolab.oracles.interface import NotSolvedError, Oracle
from zerolab.oracles.solver import UNLIMITED, Budget
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.interface import Game
from zerolab.store.checks import reading

CHUNK = 32
"""Games in a part. They are played in lockstep, and a command that is killed loses no more."""

PATIENCE = 64
"""After so many chunks without a new position there is none to be found."""

_PROBES = range(3)
"""Games whose first position to be solved shows whether it can be done at all."""

_PROBE_BUDGET = Budget(nodes=200_000_000)
"""The budget for those if there is no other: a minute or two."""

OracleMaker = Callable[[Game, Budget], Oracle]
"""Makes an oracle with a budget for each position, as `oracle_for` does."""


class Progress(NamedTuple):
    """How far a data set has come."""

    positions: int
    counts: Counts
    duplicates: int


class _Task(NamedTuple):
    """What a process has to know to play one chunk of games."""

    game: str
    recipe: Recipe
    number: int
    folder: Path
    make_oracle: OracleMaker


def make_dataset(
    game: Game,
    positions: int,
    recipe: Recipe,
    path: Path,
    processes: int = 1,
    report: Callable[[Progress], None] = lambda _: None,
    make_oracle: OracleMaker = oracle_for,
) -> dict[str, Any]:
    """Write a file of that many solved positions and its manifest ``FILE.json``; return the latter.

    The file is the same whatever the number of processes. It has no two positions that are equal
    or that a symmetry makes equal, and none where every move is best; it has fewer positions than
    asked for if no more are found. `make_oracle` is called in every process, by its module's name.
    Raises UserError if the file is there already with other settings, if the parts of a stopped
    command have other settings, or if the oracle solves nothing within its budget.
    """
    wanted = {"requested": positions, **recipe.model_dump()}
    if path.exists():
        return _finished(path, game, wanted)
    folder = path.with_name(f"{path.name}.parts")
    if not folder.exists():
        _probe(game, recipe, make_oracle(game, recipe.budget or _PROBE_BUDGET))
    _open_parts(folder, {"schema": SCHEMA, "game": game_name(game), **recipe.model_dump()})
    merge = _Merge(game, positions)
    tasks = (_Task(game_name(game), recipe, number, folder, make_oracle) for number in count())
    with in_order(_play_chunk, tasks, processes) as parts:
        for part in parts:
            merge.add(part)
            report(merge.progress)
            if merge.is_full or merge.is_exhausted:
                break
    about = {**wanted, **merge.progress.counts._asdict(), "duplicates": merge.duplicates}
    merged = merge.positions()
    if not len(merged):
        shutil.rmtree(folder)
        raise UserError(
            f"no position of {merge.progress.counts.games} games fits: games of {game_name(game)}"
            f" may be over before ply {recipe.first_ply}, or every move is a best one"
        )
    write_positions(path, merged, about)
    manifest = _write_manifest(path, merged, about)
    shutil.rmtree(folder)
    return manifest


def collect_in_memory(game: Game, positions: int, recipe: Recipe, oracle: Oracle) -> Positions:
    """Return so many solved positions, fewer if no more are found; see `make_dataset`.

    Raises NotSolvedError where the oracle's budget is too small from the first ply on.
    """
    _probe(game, recipe, oracle)
    merge = _Merge(game, positions)
    for number in count():
        merge.add(collect(game, oracle, recipe, _games_of(number)))
        if merge.is_full or merge.is_exhausted:
            break
    return merge.positions()


class _Merge:
    """Takes parts in the order of their games and leaves out what is there already."""

    def __init__(self, game: Game, wanted: int) -> None:
        self.duplicates = 0
        self._game = game
        self._wanted = wanted
        self._seen: set[bytes] = set()
        self._parts: list[Positions] = []
        self._counts = Counts()
        self._fruitless = 0

    def add(self, part: Collected) -> None:
        """Take what is new of a part."""
        new = []
        images = canonical_images(self._game, part.positions.states)
        for row, image in enumerate(images):
            key = image.tobytes()
            if key in self._seen:
                self.duplicates += 1
            elif not self.is_full:
                self._seen.add(key)
                new.append(row)
        self._parts.append(part.positions.take(np.array(new, np.int64)))
        self._counts = self._counts.plus(part.counts)
        self._fruitless = 0 if new else self._fruitless + 1

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(len(self._seen), self._counts, self.duplicates)

    @property
    def is_full(self) -> bool:
        """Whether there are as many positions as wanted."""
        return len(self._seen) >= self._wanted

    @property
    def is_exhausted(self) -> bool:
        """Whether the search for new positions is given up."""
        return self._fruitless >= PATIENCE

    def positions(self) -> Positions:
        """Return all positions taken."""
        return joined(self._parts)


def _probe(game: Game, recipe: Recipe, oracle: Oracle) -> None:
    """Raise NotSolvedError if the oracle's budget is too small where collecting begins."""
    first = recipe.model_copy(update={"last_ply": recipe.first_ply, "one_per_game": False})
    counts = collect(game, oracle, first, _PROBES).counts
    if counts.unsolved == counts.games:
        raise NotSolvedError(
            f"{game_name(game)} is not solved within the budget from ply {recipe.first_ply} on:"
            f" expected later plies, as in --plies {recipe.first_ply + 10}:, or a larger --nodes"
        )


def _games_of(chunk: int) -> range:
    return range(CHUNK * chunk, CHUNK * (chunk + 1))


def _oracle(task: _Task) -> Oracle:
    """Return an oracle for a chunk.

    Without a budget it is the same for all chunks of this process, and remembers what it solved.
    What is solved within a budget depends on that memory, so every chunk then begins without one.
    """
    if task.recipe.budget is None:
        return _unlimited_oracle(task.game, task.make_oracle)
    return task.make_oracle(parse_game(task.game), task.recipe.budget)


@lru_cache(maxsize=1)
def _unlimited_oracle(game: str, make_oracle: OracleMaker) -> Oracle:
    return make_oracle(parse_game(game), UNLIMITED)


def _play_chunk(task: _Task) -> Collected:
    """Return a part, from its file if it is there; runs in a process of its own."""
    path = task.folder / f"{task.number:07}.parquet"
    game = parse_game(task.game)
    if path.exists():
        positions, about = read_positions(path, game)
        return Collected(positions, Counts(**about))
    part = collect(game, _oracle(task), task.recipe, _games_of(task.number))
    write_positions(path, part.positions, part.counts._asdict())
    return part


def _open_parts(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder of the parts, or check that it is that of the same recipe."""
    make_folder(folder)
    noted = folder / "settings.json"
    if not noted.exists():
        write_text(noted, json.dumps(settings))
        return
    with reading(noted):
        former = dict(json.loads(noted.read_text("utf-8")))
    for key, value in settings.items():
        if former.get(key) != value:
            raise UserError(
                f"{folder} has parts with {key} = {former.get(key)}, not {value}: ask for the same"
                " to go on, choose another --out, or delete the folder"
            )


def _finished(path: Path, game: Game, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a file that was finished before with the same settings."""
    positions, about = read_positions(path, game)
    for key, value in wanted.items():
        if about.get(key) != value:
            raise UserError(
                f"{path} exists, with {key} = {about.get(key)}, not {value}: choose another --out"
            )
    shutil.rmtree(path.with_name(f"{path.name}.parts"), ignore_errors=True)
    return _write_manifest(path, positions, about)


def _write_manifest(path: Path, positions: Positions, about: dict[str, Any]) -> dict[str, Any]:
    manifest = describe(positions, about)
    write_text(path.with_name(f"{path.name}.json"), json.dumps(manifest, indent=1) + "\n")
    return manifest
