"""Names of the tiny run, and a client of a server for the working directory."""

from __future__ import annotations

from typing import Any

from fastapi.testclient import TestClient

from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.server import make_app

GAME = "connect_four:4x4:3"
RUN = "runs/tiny"


def new_client(workers: int = 1, **options: Any) -> TestClient:
    """Return a client of a new server, which starts when the client is entered as a context.

    Searches need `workers`; without them the server starts faster. The laboratory receives the
    other options.
    """
    laboratory = Laboratory(Folders(), workers=workers, **options)
    return TestClient(make_app(laboratory), base_url="http://localhost")
