"""What the server serves: folders of runs, studies and tournaments, and the searches under way.

All that lasts is on disk or with the pages. So a server that is started again goes on as before.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from zerolab.web.folders import Folders
from zerolab.web.searches.searches import Searches
from zerolab.web.searches.solving import Solvers

_MOST_UPLOADS = 2
"""Files that pages bring at once: each is in memory until it is checked."""


class Laboratory:
    """Everything that answers to requests are made from; one for each server."""

    def __init__(self, folders: Folders, *, allow_training: bool = False, workers: int = 2) -> None:
        """Serve some folders; `workers` processes search at once."""
        self.folders = folders
        self.allow_training = allow_training
        self.searches = Searches(workers)
        self.solvers = Solvers()
        self.uploads = asyncio.Semaphore(_MOST_UPLOADS)

    def close(self) -> None:
        """End all searches."""
        self.searches.close()
        self.solvers.close()


def _of_app(connection: HTTPConnection) -> Laboratory:
    laboratory: Laboratory = connection.app.state.laboratory
    return laboratory


Lab = Annotated[Laboratory, Depends(_of_app)]
"""The laboratory, as an argument of a route."""


def client_of(connection: HTTPConnection) -> str:
    """Return who asks, for fair shares: a page says its own name, others have their address."""
    page = connection.headers.get("x-page") or connection.query_params.get("page") or ""
    address = connection.client.host if connection.client else ""
    return f"{address} {page[:40]}"
