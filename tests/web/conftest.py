"""Fixtures for the server tests: a folder with a tiny run, and a server for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from class_members import at_once, group_of, members  # noqa: F401  fixtures
from fastapi.testclient import TestClient
from other_processes import thread_context
from tiny_laboratory import GAME, RUN, new_client

from zerolab.cli.main import main
from zerolab.report import figures
from zerolab.web import laboratory, search_worker


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in place of the one with the user's secrets, for all servers of the tests."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny run has been trained."""
    folder = tmp_path_factory.mktemp("laboratory")
    with chdir(folder):
        settings = ["--set", "final_evaluation.games=0"]
        assert main(["train", GAME, "--preset", "smoke", "--run", RUN, *settings]) == 0
    return folder


@pytest.fixture(scope="module")
def no_figures() -> Iterator[None]:
    """Save figures as empty files, because drawing a report's figures takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "figure_bytes", lambda figure, file_format: b"")
        yield


@pytest.fixture
def here(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the tiny run as the working directory."""
    monkeypatch.chdir(tiny_folder)
    return tiny_folder


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; processes that a server starts there end with the test."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for record in tmp_path.glob("*/.server/*.json"):
        laboratory.terminate_process(record)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Arguments of launched commands, each replaced with one that ends immediately."""
    launched, launch_detached = [], laboratory.launch_detached

    def launch_nothing(command: list[str], *rest: Path) -> None:
        launched.append(command[3:])
        launch_detached([sys.executable, "-c", "pass"], *rest)

    monkeypatch.setattr(laboratory, "launch_detached", launch_nothing)
    return launched


@pytest.fixture(scope="session")
def search_threads() -> Iterator[None]:
    """Searches in threads instead of processes, which take seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        context = SimpleNamespace(get_context=thread_context)
        patch.setattr(search_worker, "multiprocessing", context)
        yield


@pytest.fixture(scope="session")
def served(tiny_folder: Path, search_threads: None) -> Iterator[TestClient]:
    """A client of the server that all tests share."""
    client = new_client()
    with ExitStack() as stack:
        with chdir(tiny_folder):
            stack.enter_context(client)
        yield client


@pytest.fixture
def client(served: TestClient, here: Path) -> TestClient:
    """A client of the shared server, in the server's working directory."""
    return served
