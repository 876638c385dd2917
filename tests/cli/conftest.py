"""Finished run and solved positions for several test files, and reports without figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.exhaustive import exhaustive
from zerolab.cli.main import main
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.report import figures
from zerolab.rules.catalogue import parse_game


@pytest.fixture(scope="session")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run of the smoke preset."""
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    assert main(["train", "--preset", "smoke", "--run", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def positions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 80 solved positions of tic-tac-toe."""
    path = tmp_path_factory.mktemp("positions") / "positions.parquet"
    game = parse_game("gobang:3x3:3")
    solved = collect_in_memory(game, 80, DatasetSettings(), exhaustive(game)).positions
    write_positions(path, solved, {})
    return path


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save figures as empty files, because drawing a report's figures takes a second."""
    monkeypatch.setattr(figures, "figure_bytes", lambda figure, file_format: b"")
