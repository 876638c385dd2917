"""What tests of the server share: a folder with a tiny run, and an application that serves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")

from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN, new_page

from zerolab.cli.main import main


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny run has been trained."""
    folder = tmp_path_factory.mktemp("laboratory")
    with chdir(folder):
        assert main(["train", GAME, "--preset", "smoke", "--run", RUN]) == 0
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same folder as the working directory."""
    monkeypatch.chdir(place)
    return place


@pytest.fixture(scope="session")
def served(place: Path) -> Iterator[TestClient]:
    """The page of one server for all tests: a server starts processes, which takes seconds."""
    page = new_page()
    with ExitStack() as stack:
        with chdir(place):
            stack.enter_context(page)
        yield page


@pytest.fixture
def client(served: TestClient, here: Path) -> TestClient:
    """A page of a server that serves the folder, which is the working directory."""
    return served
