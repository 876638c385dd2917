"""The laboratory's puzzles, made from its positions and graded in the background.

When a page requests the puzzles for a game, a task begins, unless the puzzles are complete. The
task solves positions one at a time, and only while nobody else is using the solver. It then grades
the puzzles by letting agents choose moves in them; these searches run after all other searches.
Puzzles are stored in the server's folder, so each is solved and graded only once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from zerolab.agents.analysis import Analysis
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.evaluation.positions import read_positions
from zerolab.evaluation.puzzles import (
    BASELINE_GRADER_SPECS,
    LOOK_ALIKE_JUDGE_SPEC,
    TRIES_PER_AGENT,
    Puzzle,
    PuzzleCollection,
    count_look_alikes,
    miss_share,
    puzzle_position,
    random_positions,
    read_puzzles,
    write_puzzles,
)
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play.tournament import TOURNAMENT_FOLDER_KIND, Tournament
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.store.games import GameStore
from zerolab.store.listing import FoundGame, GameFilter, list_matching_games
from zerolab.store.run_folder import RunFolder
from zerolab.web.folders import Folders, latest_progress_time, list_runs
from zerolab.web.live_search import SearchRequest
from zerolab.web.requests import BusyError, Client, NotFoundError, Quota, error_message
from zerolab.web.searches import SearchPool
from zerolab.web.solving import SolverEndedError, SolverProcess

PUZZLES_PER_GAME = 40
_MAX_GAMES_WITH_PUZZLES = 100
"""Maximum number of games with puzzles, so that their files cannot fill the disk."""
_MAX_TASKS, _MAX_PER_ADDRESS, _MAX_PER_PAGE = 8, 4, 2
_SECONDS = 2.0  # time limit for solving a position
_MAX_UNSOLVED = 60  # consecutive unsolved positions after which a game is considered too hard
_SOLVER_TRIES = 2  # attempts at a position that crashes the solver process
_PAUSE = 0.1
_CLIENT = Client("", "puzzles")

PuzzleMakingState = Literal["waiting", "solving", "grading", "complete", "stopped"]
_TO_DO: tuple[PuzzleMakingState, ...] = ("waiting", "solving", "grading")

_Result = TypeVar("_Result")


class GamePuzzles:
    """Puzzles for a game, and the state of the work on them."""

    def __init__(self, game: Game, puzzles: list[Puzzle]) -> None:
        self.game = game
        self.collection = PuzzleCollection(PUZZLES_PER_GAME, puzzles)
        is_complete = self.collection.is_complete and all(each.misses for each in puzzles)
        self.state: PuzzleMakingState = "complete" if is_complete else "waiting"
        self.tried = 0
        """Number of positions tried since the server started."""
        self.problem = ""
        """Reason why the work has stopped, or an empty string."""

    @property
    def puzzles(self) -> dict[str, Puzzle]:
        """Puzzles by key."""
        return self.collection.puzzles

    def find(self, key: str) -> Puzzle:
        """Return a puzzle; raise NotFoundError if there is none with this key."""
        if key not in self.puzzles:
            raise NotFoundError(f"there is no puzzle {key}: expected one from the Puzzles page")
        return self.puzzles[key]


class PuzzleMaker:
    """Puzzles for all games, with a background task for each requested game."""

    def __init__(self, folders: Folders, solver: SolverProcess, search_pool: SearchPool) -> None:
        """Solve with `solver` and grade with the agents that `search_pool` runs."""
        self._folders = folders
        self._solver = solver
        self._search_pool = search_pool
        self._by_game: dict[str, GamePuzzles] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._quota = Quota("sets of puzzles", _MAX_TASKS, _MAX_PER_ADDRESS, _MAX_PER_PAGE)
        self._turn = asyncio.Lock()
        """Lock held during each piece of work, so that the tasks of several games take turns."""

    async def puzzles_for(self, client: Client, game: Game) -> GamePuzzles:
        """Return the puzzles for a game, and start or continue making them if there are too few.

        If puzzles for too many games are already being made for the client, this game waits. Raises
        BusyError if too many other games have puzzles and this one has none.
        """
        name = game_name(game)
        if name not in self._by_game:
            game_puzzles = await asyncio.to_thread(self._load, game)
            game_puzzles = self._by_game.setdefault(name, game_puzzles)
        game_puzzles = self._by_game[name]
        task = self._tasks.get(name)
        if game_puzzles.state in _TO_DO and (task is None or task.done()):
            with suppress(BusyError):
                self._quota.acquire(client)
                game_puzzles.state = "solving"
                self._tasks[name] = asyncio.create_task(self._work(game_puzzles))
                self._tasks[name].add_done_callback(lambda _: self._quota.release(client))
        return game_puzzles

    def close(self) -> None:
        """End all background tasks."""
        for task in self._tasks.values():
            task.cancel()

    def _load(self, game: Game) -> GamePuzzles:
        """Return the stored puzzles for a game, which are proven: this user's server wrote them."""
        path = self._folders.puzzle_file(game_name(game))
        if not path.exists():
            make_folder(path.parent)
            if sum(1 for _ in path.parent.iterdir()) >= _MAX_GAMES_WITH_PUZZLES:
                raise BusyError(
                    f"{path.parent} has puzzles for {_MAX_GAMES_WITH_PUZZLES} games: delete some"
                )
            return GamePuzzles(game, [])
        return GamePuzzles(game, read_puzzles(path))

    async def _work(self, game_puzzles: GamePuzzles) -> None:
        """Make puzzles until there are enough, and grade the ungraded ones."""
        try:
            if not game_puzzles.collection.is_complete:
                await self._make(game_puzzles)
            game_puzzles.state = "grading"
            for puzzle in list(game_puzzles.puzzles.values()):
                if not puzzle.misses:
                    await self._put(game_puzzles, await self._graded(game_puzzles, puzzle))
            game_puzzles.state = "complete"
        except Exception as error:  # for example, the disk is full
            game_puzzles.state, game_puzzles.problem = "stopped", error_message(error)

    async def _make(self, game_puzzles: GamePuzzles) -> None:
        positions = candidate_positions(self._folders, game_puzzles.game)
        unsolved = 0
        while not game_puzzles.collection.is_complete and unsolved < _MAX_UNSOLVED:
            position = await asyncio.to_thread(_next_new, positions, game_puzzles)
            if position is None:
                return
            game_puzzles.tried += 1
            try:
                puzzle = await self._in_turn(partial(self._solved, position))
                unsolved = 0
            except NotSolvedError:
                unsolved += 1
                continue
            if puzzle is not None:
                await self._add(game_puzzles, puzzle)
        if unsolved == _MAX_UNSOLVED and not game_puzzles.puzzles:
            raise UserError(
                f"the solver is too slow for {game_name(game_puzzles.game)}: choose a smaller board"
            )

    async def _add(self, game_puzzles: GamePuzzles, puzzle: Puzzle) -> None:
        """Add a proven puzzle with an estimated grade."""
        analysis = await self._search(puzzle_position(puzzle), LOOK_ALIKE_JUDGE_SPEC, 0)
        similar = count_look_alikes(analysis, puzzle.answer)
        puzzle = puzzle.model_copy(update={"look_alikes": similar})
        if game_puzzles.collection.add(puzzle):
            await self._put(game_puzzles, puzzle)

    async def _put(self, game_puzzles: GamePuzzles, puzzle: Puzzle) -> None:
        """Replace a puzzle, and store all puzzles for its game."""
        game_puzzles.puzzles[puzzle.key] = puzzle
        path = self._folders.puzzle_file(game_name(game_puzzles.game))
        await asyncio.to_thread(write_puzzles, path, list(game_puzzles.puzzles.values()))

    async def _graded(self, game_puzzles: GamePuzzles, puzzle: Puzzle) -> Puzzle:
        """Return a puzzle with the share of tries in which each agent misses the answer."""
        position = puzzle_position(puzzle)
        misses = {}
        for agent in await asyncio.to_thread(grader_specs, self._folders, game_puzzles.game):
            with suppress(UserError):  # networks of damaged runs are skipped
                analyses = [
                    await self._search(position, agent, seed) for seed in range(TRIES_PER_AGENT)
                ]
                misses[agent] = miss_share(
                    (each.chosen_move.name for each in analyses), puzzle.answer
                )
        return puzzle.model_copy(update={"misses": misses})

    async def _solved(self, position: Position) -> Puzzle | None:
        """Return a position as a puzzle, or None; raise NotSolvedError if the solver fails."""
        for _ in range(_SOLVER_TRIES):
            while self._solver.is_busy:
                await asyncio.sleep(_PAUSE)
            with suppress(SolverEndedError):
                return await self._solver.make_puzzle(_CLIENT, position, _SECONDS)
        raise NotSolvedError("the solver ended unexpectedly")

    async def _search(self, position: Position, agent: str, seed: int) -> Analysis:
        request = SearchRequest(agent, position, self._folders, seed=seed)
        analyse = partial(self._search_pool.analyse, _CLIENT, request, is_low_priority=True)
        return await self._in_turn(analyse)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Do a piece of work and return its result, retrying while the server is busy."""
        while True:
            try:
                async with self._turn:
                    return await work()
            except BusyError:
                await asyncio.sleep(1.0)


def _next_new(positions: Iterator[Position], game_puzzles: GamePuzzles) -> Position | None:
    """Return the next position that has not been tried, or None at the end."""
    return next(
        (each for each in positions if game_puzzles.collection.mark_seen_if_new(each)), None
    )


_MAX_FILES = 50
_MAX_SOLVED = 300  # maximum number of positions from a solved set
_MAX_GAMES = 100  # number of latest games used per run or tournament
_MAX_RANDOM = 1500
_MAX_RUNS = 6  # maximum number of runs whose networks grade puzzles


def candidate_positions(folders: Folders, game: Game) -> Iterator[Position]:
    """Yield positions of a game that may be puzzles; damaged files and folders are skipped."""
    yield from _from_files(folders, game)
    yield from _from_solved_sets(folders, game)
    for store in _stores(folders, game):
        with suppress(UserError):
            for played in list_matching_games(
                store, GameFilter(), limit=_MAX_GAMES, latest_first=True
            ):
                yield _second_half(game, played)
    yield from islice(random_positions(game, 0), _MAX_RANDOM)


def grader_specs(folders: Folders, game: Game) -> list[str]:
    """Return specs of the agents that grade puzzles: the best networks of runs, and baselines."""
    runs = [each for each in list_runs(folders) if each.game == game_name(game)]
    runs.sort(key=latest_progress_time, reverse=True)
    networks = []
    for run in runs[:_MAX_RUNS]:
        with suppress(UserError):
            networks.append(f"{run.path}@{RunFolder.open(Path(run.path)).progress.best}")
    return [*BASELINE_GRADER_SPECS, *networks]


def _from_files(folders: Folders, game: Game) -> Iterator[Position]:
    """Yield the positions in the files of the puzzle folder, as written by `zerolab puzzles`.

    The files may come from anywhere, so their answers and grades are ignored.
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
                yield Position(game, positions.states[row], positions.move_sequence(row))


def _solved_sets(folders: Folders) -> list[Path]:
    places = [*folders.runs, folders.studies]
    found = (path for place in places for form in ("*", "*/*") for path in place.glob(form))
    return sorted(path for path in found if path.suffix == ".parquet" and path.is_file())[
        :_MAX_FILES
    ]


def _stores(folders: Folders, game: Game) -> Iterator[GameStore]:
    """Yield the game stores of a game's runs, latest first, then of its tournaments."""
    runs = [each for each in list_runs(folders) if each.game == game_name(game)]
    for run in sorted(runs, key=latest_progress_time, reverse=True):
        with suppress(UserError):
            yield RunFolder.open(Path(run.path)).games
    if not folders.tournaments.is_dir():
        return
    for path in sorted([folders.tournaments, *folders.tournaments.iterdir()]):
        with suppress(UserError):
            folders.require_served_path(path, folders.tournament_sources)
            tournament = Tournament.load(path) if TOURNAMENT_FOLDER_KIND.matches(path) else None
            if tournament is None:
                continue
            if game_name(parse_game(tournament.settings.game)) == game_name(game):
                yield tournament.store


def _second_half(game: Game, played: FoundGame) -> Position:
    """Return a position from the second half of a game, determined by the game alone."""
    plies = len(played.actions)
    drawn = np.random.default_rng([*played.actions, played.number])
    position = Position.start(game)
    for action in played.actions[: int(drawn.integers(plies // 2, plies))] if plies else ():
        position = position.play(action)
    return position
