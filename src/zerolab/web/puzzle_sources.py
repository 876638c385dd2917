"""Positions from which puzzles are made: files, solved sets, stored games, and random games."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np

from zerolab.core.errors import UserError
from zerolab.evaluation.positions import read_positions
from zerolab.evaluation.puzzles import (
    BASELINES,
    puzzle_position,
    random_positions,
    read_puzzles,
)
from zerolab.play.tournament import TOURNAMENT, Tournament
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.games import GameStore
from zerolab.store.listing import FoundGame, GameFilter, find_games
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import Folders, latest_progress, list_runs

_MAX_FILES = 50
_MAX_SOLVED = 300  # positions of each solved set
_MAX_GAMES = 100  # of each run and tournament, the latest ones
_MAX_RANDOM = 1500
_MAX_RUNS = 6  # whose networks grade puzzles


def possible_puzzles(folders: Folders, game: Game) -> Iterator[Position]:
    """Yield positions of a game that may be puzzles; damaged files and folders are skipped."""
    yield from _from_files(folders, game)
    yield from _from_solved_sets(folders, game)
    for store in _stores(folders, game):
        with suppress(UserError):
            for played in find_games(store, GameFilter(), limit=_MAX_GAMES, latest_first=True):
                yield _second_half(game, played)
    yield from islice(random_positions(game, 0), _MAX_RANDOM)


def graders(folders: Folders, game: Game) -> list[str]:
    """Return specs of the agents that grade puzzles: the best networks of runs, and baselines."""
    runs = [each for each in list_runs(folders) if each.game == game_name(game)]
    runs.sort(key=latest_progress, reverse=True)
    networks = []
    for run in runs[:_MAX_RUNS]:
        with suppress(UserError):
            networks.append(f"{run.path}@{RunFolder.open(Path(run.path)).progress.best}")
    return [*BASELINES, *networks]


def _from_files(folders: Folders, game: Game) -> Iterator[Position]:
    """Yield the positions of files that `zerolab puzzles` has written to the folder puzzles.

    The files may come from anywhere, so that their answers and grades are ignored.
    """
    for path in sorted(folders.puzzles.glob("*.jsonl"))[:_MAX_FILES]:
        with suppress(UserError):
            for puzzle in read_puzzles(path):
                if puzzle.game == game_name(game):
                    yield puzzle_position(puzzle)


def _from_solved_sets(folders: Folders, game: Game) -> Iterator[Position]:
    for path in _solved_sets(folders):
        with suppress(UserError):
            positions, _ = read_positions(path, game)
            for row in range(min(len(positions), _MAX_SOLVED)):
                yield Position(game, positions.states[row], positions.line(row))


def _solved_sets(folders: Folders) -> list[Path]:
    places = [*folders.runs, folders.studies]
    found = (path for place in places for form in ("*", "*/*") for path in place.glob(form))
    return sorted(path for path in found if path.suffix == ".parquet" and path.is_file())[
        :_MAX_FILES
    ]


def _stores(folders: Folders, game: Game) -> Iterator[GameStore]:
    """Yield the games of runs and tournaments of a game, the latest run first."""
    runs = [each for each in list_runs(folders) if each.game == game_name(game)]
    for run in sorted(runs, key=latest_progress, reverse=True):
        with suppress(UserError):
            yield RunFolder.open(Path(run.path)).games
    if not folders.tournaments.is_dir():
        return
    for path in sorted([folders.tournaments, *folders.tournaments.iterdir()]):
        with suppress(UserError):
            tournament = Tournament.load(path) if TOURNAMENT.matches(path) else None
            if tournament is None:
                continue
            if game_name(parse_game(tournament.settings.game)) == game_name(game):
                yield tournament.store


def _second_half(game: Game, played: FoundGame) -> Position:
    """Return a position of the second half of a game; it depends only on the game."""
    plies = len(played.actions)
    drawn = np.random.default_rng([*played.actions, played.number])
    position = Position.start(game)
    for action in played.actions[: int(drawn.integers(plies // 2, plies))] if plies else ():
        position = position.play(action)
    return position
