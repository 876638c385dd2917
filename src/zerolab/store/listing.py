"""Finding runs, and how far they have come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from zerolab.core.errors import UserError
from zerolab.store.agent_names import source_folder
from zerolab.store.checks import reading
from zerolab.store.folder import may_be
from zerolab.store.run_folder import RunFolder, is_run


class RunSummary(NamedTuple):
    """One run in a listing."""

    path: str
    game: str
    preset: str
    iteration: int
    iterations: int
    stage: str
    status: str
    """running, stopped, finished, or damaged with the reason."""
    training_elo: float
    """Each network against its predecessor, added up: it flatters, and compares no two runs."""
    source: str = ""
    """The network that it started from, such as runs/demo@12; empty for an untrained one."""
    scores: Mapping[str, float] = MappingProxyType({})
    """Points per game against each opponent of the final evaluation that other runs can have too:
    all but networks of the run itself. Empty once a run has gone on after its evaluation."""
    accuracy: float | None = None
    """Strong accuracy of the search on solved positions, when last measured; None where never."""


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Return the runs among the folders and directly inside them, by name.

    What is inside them and cannot be looked into is among these; `summarise` tells why.
    """
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder: expected a run or a folder of runs")
        with reading(folder):
            if is_run(folder):
                found.append(folder)
            else:
                found += (each for each in folder.iterdir() if may_be(is_run, each))
    return sorted(set(found))


def summarise(path: Path) -> RunSummary:
    """Describe one run; a run that cannot be read is described as damaged."""
    try:
        run = RunFolder.open(path)
        metrics = run.metrics()
        with reading(path / "config.toml"):
            iterations = int(run.config.get("iterations", 0))
    except UserError as error:
        return RunSummary(str(path), "", "", 0, 0, "", f"damaged: {error}", 0.0)
    progress, config = run.progress, run.config
    status = "finished" if progress.finished else "running" if run.is_locked else "stopped"
    game, preset = str(config.get("game", "")), str(config.get("preset", ""))
    iteration = min(progress.iteration, iterations)
    return RunSummary(
        str(path), game, preset, iteration, iterations, progress.stage, status, progress.elo,
        _source(config.get("start")), _scores(metrics), _accuracy(metrics),
    )  # fmt: skip


def _scores(metrics: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the scores by opponent, none of an evaluation after which the run has gone on.

    The stages that write the lines are layers above.
    """
    lines = [line for line in metrics if isinstance(line.get("iteration"), int)]
    latest = max((line["iteration"] for line in lines), default=0)
    played = (
        line
        for line in lines
        if line.get("stage") == "final_evaluation" and line["iteration"] == latest
    )
    found = {str(line.get("opponent", "@")): line.get("score_rate") for line in played}
    return {
        opponent: score
        for opponent, score in found.items()
        if isinstance(score, float | int) and not opponent.startswith("@")
    }


def _accuracy(metrics: Iterable[Mapping[str, Any]]) -> float | None:
    measured = [line.get("search_strong") for line in metrics if line.get("stage") == "accuracy"]
    latest = measured[-1] if measured else None
    return latest if isinstance(latest, float | int) else None


def _source(start: Any) -> str:
    """Return the network that a run started from, by what its settings say."""
    if not isinstance(start, Mapping):
        return ""
    source, iteration = str(start.get("source", "")), start.get("iteration")
    return source if iteration is None else f"{source_folder(source, iteration)}@{iteration}"
