"""Names of the tiny run, and a server of the working directory."""

from __future__ import annotations

from fastapi.testclient import TestClient

from zerolab.web.app import make_app
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory

GAME = "connect_four:4x4:3"
RUN = "runs/tiny"


def new_page(workers: int = 1) -> TestClient:
    """Return a page of a new server, which works once it is entered as a context.

    Without `workers`, nothing can be searched, and nothing slow is started.
    """
    return TestClient(make_app(Laboratory(Folders(), workers=workers)), base_url="http://localhost")
