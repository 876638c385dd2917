"""Puzzles of the laboratory, made and graded in the background.

A page that asks for the puzzles of a game starts a task for the game, unless its puzzles are
complete. The task solves positions, one at a time and only while nobody else uses the solver, and
then lets agents choose moves in the puzzles, after all other searches. Puzzles are stored in the
server's folder, so that each is solved and graded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar

from zerolab.agents.analysis import Analysis
from zerolab.core.errors import UserError
from zerolab.core.files import make_folder
from zerolab.evaluation.puzzles import (
    JUDGE,
    TRIES,
    Collection,
    Puzzle,
    look_alikes,
    miss_share,
    puzzle_position,
    read_puzzles,
    write_puzzles,
)
from zerolab.oracles.oracle import NotSolvedError
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.web.folders import Folders
from zerolab.web.live_search import SearchRequest
from zerolab.web.puzzle_sources import graders, possible_puzzles
from zerolab.web.requests import BusyError, Client, MissingError, Quota, error_message
from zerolab.web.searches import SearchPool
from zerolab.web.solving import SolverEndedError, SolverProcess

PUZZLES_PER_GAME = 40
_MAX_SHELVES = 100
"""Maximum number of games with puzzles, so that their files cannot fill the disk."""
_MAX_TASKS, _MAX_PER_ADDRESS, _MAX_PER_PAGE = 8, 4, 2
_SECONDS = 2.0  # for solving a position
_MAX_UNSOLVED = 60  # positions in a row after which a game is too hard
_SOLVER_TRIES = 2  # of a position that ends the solver's process
_PAUSE = 0.1
_CLIENT = Client("", "puzzles")

State = Literal["waiting", "solving", "grading", "complete", "stopped"]
_TO_DO: tuple[State, ...] = ("waiting", "solving", "grading")

_Result = TypeVar("_Result")


class Shelf:
    """Puzzles of a game, and the state of the work on them."""

    def __init__(self, game: Game, puzzles: list[Puzzle]) -> None:
        self.game = game
        self.collection = Collection(PUZZLES_PER_GAME, puzzles)
        is_complete = self.collection.is_complete and all(each.misses for each in puzzles)
        self.state: State = "complete" if is_complete else "waiting"
        self.tried = 0
        """Number of positions tried since the server started."""
        self.problem = ""
        """Reason why the work has stopped, or an empty string."""

    @property
    def puzzles(self) -> dict[str, Puzzle]:
        """Puzzles by key."""
        return self.collection.puzzles

    def find(self, key: str) -> Puzzle:
        """Return a puzzle; raise MissingError if there is none with this key."""
        if key not in self.puzzles:
            raise MissingError(f"there is no puzzle {key}: expected one of the page Puzzles")
        return self.puzzles[key]


class PuzzleMaker:
    """Puzzles of all games, with a background task for each game that is asked for."""

    def __init__(self, folders: Folders, solver: SolverProcess, search_pool: SearchPool) -> None:
        """Solve with `solver` and grade with the agents that `search_pool` runs."""
        self._folders = folders
        self._solver = solver
        self._search_pool = search_pool
        self._shelves: dict[str, Shelf] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._quota = Quota("sets of puzzles", _MAX_TASKS, _MAX_PER_ADDRESS, _MAX_PER_PAGE)
        self._turn = asyncio.Lock()
        """Lock for the next piece of work, so that the tasks of several games take turns."""

    async def shelf(self, client: Client, game: Game) -> Shelf:
        """Return the puzzles of a game, and start or continue making them if they are too few.

        If puzzles of too many games are being made for the client, this game has to wait. Raise
        BusyError if there are puzzles of too many games, and none of this one.
        """
        name = game_name(game)
        if name not in self._shelves:
            shelf = await asyncio.to_thread(self._load, game)
            shelf = self._shelves.setdefault(name, shelf)
        shelf = self._shelves[name]
        task = self._tasks.get(name)
        if shelf.state in _TO_DO and (task is None or task.done()):
            with suppress(BusyError):
                self._quota.acquire(client)
                shelf.state = "solving"
                self._tasks[name] = asyncio.create_task(self._work(shelf))
                self._tasks[name].add_done_callback(lambda _: self._quota.release(client))
        return shelf

    def close(self) -> None:
        """End all background tasks."""
        for task in self._tasks.values():
            task.cancel()

    def _load(self, game: Game) -> Shelf:
        """Return the stored puzzles of a game. The server has written them, so they are proven."""
        path = self._folders.puzzle_file(game_name(game))
        if not path.exists():
            make_folder(path.parent)
            if sum(1 for _ in path.parent.iterdir()) >= _MAX_SHELVES:
                raise BusyError(f"{path.parent} has puzzles of {_MAX_SHELVES} games: delete some")
            return Shelf(game, [])
        return Shelf(game, read_puzzles(path))

    async def _work(self, shelf: Shelf) -> None:
        """Make puzzles until there are enough, and grade those that are not graded."""
        try:
            if not shelf.collection.is_complete:
                await self._make(shelf)
            shelf.state = "grading"
            for puzzle in list(shelf.puzzles.values()):
                if not puzzle.misses:
                    await self._put(shelf, await self._graded(shelf, puzzle))
            shelf.state = "complete"
        except Exception as error:  # for example, the disk is full
            shelf.state, shelf.problem = "stopped", error_message(error)

    async def _make(self, shelf: Shelf) -> None:
        positions = possible_puzzles(self._folders, shelf.game)
        unsolved = 0
        while not shelf.collection.is_complete and unsolved < _MAX_UNSOLVED:
            position = await asyncio.to_thread(_next_new, positions, shelf)
            if position is None:
                return
            shelf.tried += 1
            try:
                puzzle = await self._in_turn(partial(self._solved, position))
                unsolved = 0
            except NotSolvedError:
                unsolved += 1
                continue
            if puzzle is not None:
                await self._add(shelf, puzzle)
        if unsolved == _MAX_UNSOLVED and not shelf.puzzles:
            raise UserError(
                f"the solver is too slow for {game_name(shelf.game)}: choose a smaller board"
            )

    async def _add(self, shelf: Shelf, puzzle: Puzzle) -> None:
        """Add a proven puzzle with an estimated grade."""
        analysis = await self._search(puzzle_position(puzzle), JUDGE, 0)
        similar = look_alikes(analysis, puzzle.answer)
        puzzle = puzzle.model_copy(update={"look_alikes": similar})
        if shelf.collection.add(puzzle):
            await self._put(shelf, puzzle)

    async def _put(self, shelf: Shelf, puzzle: Puzzle) -> None:
        """Replace a puzzle, and store all puzzles of its game."""
        shelf.puzzles[puzzle.key] = puzzle
        path = self._folders.puzzle_file(game_name(shelf.game))
        await asyncio.to_thread(write_puzzles, path, list(shelf.puzzles.values()))

    async def _graded(self, shelf: Shelf, puzzle: Puzzle) -> Puzzle:
        """Return a puzzle with the share of tries in which each agent misses the answer."""
        position = puzzle_position(puzzle)
        misses = {}
        for agent in await asyncio.to_thread(graders, self._folders, shelf.game):
            with suppress(UserError):  # the network of a damaged run grades nothing
                analyses = [await self._search(position, agent, seed) for seed in range(TRIES)]
                misses[agent] = miss_share((each.best.name for each in analyses), puzzle.answer)
        return puzzle.model_copy(update={"misses": misses})

    async def _solved(self, position: Position) -> Puzzle | None:
        """Return a position as a puzzle, or None if it is none; raise NotSolvedError."""
        for _ in range(_SOLVER_TRIES):
            while self._solver.is_busy:
                await asyncio.sleep(_PAUSE)
            with suppress(SolverEndedError):
                return await self._solver.puzzle(_CLIENT, position, _SECONDS)
        raise NotSolvedError("the solver ended unexpectedly")

    async def _search(self, position: Position, agent: str, seed: int) -> Analysis:
        request = SearchRequest(agent, position, self._folders, seed=seed)
        analyse = partial(self._search_pool.analyse, _CLIENT, request, is_low_priority=True)
        return await self._in_turn(analyse)

    async def _in_turn(self, work: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return the result of a piece of work, repeated while the server is busy."""
        while True:
            try:
                async with self._turn:
                    return await work()
            except BusyError:
                await asyncio.sleep(1.0)


def _next_new(positions: Iterator[Position], shelf: Shelf) -> Position | None:
    """Return the next position that has not been tried, or None at the end."""
    return next((each for each in positions if shelf.collection.is_new(each)), None)
