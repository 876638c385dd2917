"""What tests of the server share: a folder with a tiny run, and an application that serves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")

from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.cli.main import main
from zerolab.web.app import make_app
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny run has been trained."""
    folder = tmp_path_factory.mktemp("laboratory")
    former = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", GAME, "--preset", "smoke", "--run", RUN]) == 0
    finally:
        os.chdir(former)
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder as the working directory."""
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def client(here: Path) -> Iterator[TestClient]:
    """A page of a server that serves the folder."""
    app = make_app(Laboratory(Folders(), workers=1))
    with TestClient(app, base_url="http://localhost") as opened:
        yield opened
