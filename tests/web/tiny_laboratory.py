"""What tests of the server share: a tiny run, and a server of the working directory."""

from __future__ import annotations

from fastapi.testclient import TestClient

from zerolab.web.app import make_app
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory

GAME = "connect_four:4x4:3"
RUN = "runs/tiny"


def new_page() -> TestClient:
    """Return a page of a new server, which works once it is entered as a context."""
    return TestClient(make_app(Laboratory(Folders(), workers=1)), base_url="http://localhost")
