"""Fixtures for the server tests: a folder with a tiny run, and a server for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")

from fastapi.testclient import TestClient
from other_processes import thread_context
from tiny_laboratory import GAME, RUN, new_page

from zerolab.cli.main import main
from zerolab.web import search_worker


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny run has been trained."""
    folder = tmp_path_factory.mktemp("laboratory")
    with chdir(folder):
        assert main(["train", GAME, "--preset", "smoke", "--run", RUN]) == 0
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the tiny run as the working directory."""
    monkeypatch.chdir(place)
    return place


@pytest.fixture(scope="session")
def search_threads() -> Iterator[None]:
    """Searches in threads instead of processes, which take seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        context = SimpleNamespace(get_context=thread_context)
        patch.setattr(search_worker, "multiprocessing", context)
        yield


@pytest.fixture(scope="session")
def served(place: Path, search_threads: None) -> Iterator[TestClient]:
    """A client of the server that all tests share."""
    page = new_page()
    with ExitStack() as stack:
        with chdir(place):
            stack.enter_context(page)
        yield page


@pytest.fixture
def client(served: TestClient, here: Path) -> TestClient:
    """A client of the shared server, in the server's working directory."""
    return served
