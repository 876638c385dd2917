"""What the server serves: folders of runs, studies and tournaments, and the searches under way.

All that lasts is on disk or with the pages. So a server that is started again goes on as before.
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
from zerolab.web.clients import UnderWay
from zerolab.web.folders import Folders, newest_run
from zerolab.web.live_search import SearchRequest
from zerolab.web.searches import Searches
from zerolab.web.solving import Solvers

_MOST_UPLOADS, _MOST_OF_ADDRESS = 3, 2
"""Files that pages bring at once: each is in memory until it is checked."""

_FIRST_PAGE_SECONDS = 1.0
"""In which a page is served that is opened at once, before processors are busy with warming up."""


class Laboratory:
    """Everything that answers to requests are made from; one for each server."""

    def __init__(
        self,
        folders: Folders,
        *,
        allow_training: bool = False,
        workers: int = 2,
        warm_up: bool = False,
    ) -> None:
        """Serve some folders; `workers` processes search at once.

        With `warm_up`, they begin with a search of the newest run's network, which compiles what
        the first move would wait for.
        """
        self.folders = folders
        self.allow_training = allow_training
        self.searches = Searches(workers)
        self.solvers = Solvers()
        self.uploads = UnderWay("files", _MOST_UPLOADS, _MOST_OF_ADDRESS, _MOST_OF_ADDRESS)
        self._warms_up = warm_up
        self._warming_up: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the processes that search; called in the event loop."""
        self.searches.start()
        if self._warms_up:
            self._warming_up = asyncio.create_task(self._warm_up())

    async def _warm_up(self) -> None:
        """Search with the newest run, if there is one that can play."""
        await asyncio.sleep(_FIRST_PAGE_SECONDS)
        with suppress(UserError):  # of a damaged run; who plays against it is told
            wanted = await asyncio.to_thread(self._newest)
            if wanted is not None:
                await self.searches.warm_up(wanted)

    def _newest(self) -> SearchRequest | None:
        """Return a search with the newest run; it may take a while to compile its game."""
        newest = newest_run(self.folders)
        if newest is None:
            return None
        return SearchRequest(newest.path, Position.start(parse_game(newest.game)), self.folders)

    def close(self) -> None:
        """End all searches."""
        if self._warming_up is not None:
            self._warming_up.cancel()
        self.searches.close()
        self.solvers.close()


def _of_app(connection: HTTPConnection) -> Laboratory:
    laboratory: Laboratory = connection.app.state.laboratory
    return laboratory


Lab = Annotated[Laboratory, Depends(_of_app)]
"""The laboratory, as an argument of a route."""
