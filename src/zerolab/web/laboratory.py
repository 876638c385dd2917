"""Server state: served folders, search processes, the solver process and puzzles.

All persistent state is on disk or in the pages, so a restarted server continues where the previous
one stopped.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from zerolab.core.errors import UserError
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web.classroom import ClassPlay, Classroom
from zerolab.web.folders import Folders, newest_run
from zerolab.web.live_search import SearchRequest
from zerolab.web.puzzle_maker import PuzzleMaker
from zerolab.web.requests import ForbiddenError, Quota
from zerolab.web.searches import SearchPool
from zerolab.web.solving import SolverProcess

_MAX_UPLOADS, _MAX_UPLOADS_PER_ADDRESS = 3, 2
"""Limits on simultaneous uploads, which stay in memory until they have been checked."""

_WARM_UP_DELAY = 1.0  # seconds to serve the first page before the warm-up uses all cores


class Laboratory:
    """State shared by all requests to a server."""

    def __init__(
        self,
        folders: Folders,
        *,
        allow_training: bool = False,
        workers: int = 2,
        warm_up: bool = False,
        classroom: Classroom | None = None,
    ) -> None:
        """Serve `folders` with `workers` search processes, to the pupils of `classroom` if set.

        If `warm_up` is true, each process first searches with the newest run's network, so that
        everything is compiled before the first move.
        """
        self.folders = folders
        self.allow_training = allow_training
        self.classroom = classroom
        self.class_play = None if classroom is None else ClassPlay(classroom, folders)
        self.search_pool = SearchPool(workers)
        self.solver = SolverProcess()
        self.puzzles = PuzzleMaker(folders, self.solver, self.search_pool)
        self.uploads = Quota(
            "uploads", _MAX_UPLOADS, _MAX_UPLOADS_PER_ADDRESS, _MAX_UPLOADS_PER_ADDRESS
        )
        self._warms_up = warm_up
        self._warming_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the search processes; must be called from the event loop."""
        self.search_pool.start()
        if self.class_play is not None:
            self.class_play.resume()
        if self._warms_up:
            self._warming_up = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        await asyncio.sleep(_WARM_UP_DELAY)
        with suppress(UserError):  # a damaged run is reported when someone plays against it
            request = await asyncio.to_thread(self._warm_up_request)
            if request is not None:
                await self.search_pool.warm_up(request)

    def _warm_up_request(self) -> SearchRequest | None:
        """Return a search with the newest run, if any. This may compile the rules of its game."""
        newest = newest_run(self.folders)
        if newest is None:
            return None
        return SearchRequest(newest.path, Position.start(parse_game(newest.game)), self.folders)

    def close(self) -> None:
        """End the search processes and the solver process."""
        if self._warming_up is not None:
            self._warming_up.cancel()
        self.puzzles.close()
        if self.class_play is not None:
            self.class_play.close()
        self.search_pool.close()
        self.solver.close()


def _laboratory_of(connection: HTTPConnection) -> Laboratory:
    laboratory: Laboratory = connection.app.state.laboratory
    return laboratory


Lab = Annotated[Laboratory, Depends(_laboratory_of)]
"""Type of a route's parameter that receives the laboratory."""


def require_training_allowed(lab: Laboratory, action: str) -> None:
    """Raise ForbiddenError unless pages can start processes; `action` names what was refused."""
    if not lab.allow_training:
        raise ForbiddenError(f"{action} requires zerolab serve --allow-training")
