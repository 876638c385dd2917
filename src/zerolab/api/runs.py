"""Training runs: start, resume, read, export."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zerolab.agents import exporting
from zerolab.api.arguments import require_function, require_path
from zerolab.api.positions import Network, load_network
from zerolab.core.errors import require
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.training.configure import (
    amend_settings,
    as_assignments,
    require_effects,
    resolve_settings,
)
from zerolab.training.records import Record
from zerolab.training.trainer import Trainer, check_inputs


def export_network(run: str, file: Path | str, *, overwrite: bool = False) -> Path:
    """Write the network of ``runs/demo`` or ``runs/demo@12`` into one file; return its path.

    ``FILE.zerolab`` is an agent that can be named wherever agents are; ``FILE.onnx`` is a model for
    other programs, whose outputs have been compared with the network's (docs/sharing.md). A file
    that is there with other content stays, unless `overwrite` is set. Raises UserError, having
    written nothing, for every mistake.
    """
    require("run", run, str, 'a run, such as "runs/demo@12"')
    require_path("file", file)
    return exporting.export(run, Path(file), overwrite=overwrite).path


__all__ = ["Record", "Run", "open_run", "train"]


class Run:
    """A run on disk; every call reads what it holds at that moment."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The resolved settings, as nested tables."""
        return RunFolder.open(self.path).config

    def metrics(self, stage: str | None = None) -> list[dict[str, Any]]:
        """Return the lines of metrics, those of one stage if named (docs/metrics.md)."""
        lines = RunFolder.open(self.path).metrics()
        return [line for line in lines if stage in (None, line["stage"])]

    def networks(self) -> list[int]:
        """Return the iterations whose networks are kept; 0 is the untrained one."""
        return RunFolder.open(self.path).networks()

    def network(self, iteration: int | None = None) -> Network:
        """Return the network of an iteration, by default the best one."""
        folder = self.path.as_posix()
        return load_network(folder if iteration is None else f"{folder}@{iteration}")

    def __repr__(self) -> str:
        return f"<Run {self.path}>"


def open_run(path: Path | str) -> Run:
    """Return the run in a folder; raise UserError where there is none or it is damaged."""
    require_path("path", path)
    RunFolder.open(Path(path))
    return Run(path)


def train(
    game: str | None = None,
    *,
    run: Path | str,
    preset: str = "mini",
    settings: Mapping[str, Any] | None = None,
    on_stage: Callable[[Record], None] = lambda _: None,
    allow_programs: bool = False,
) -> Run:
    """Train an agent in a folder, or resume the run that the folder holds; return the run.

    `settings` changes settings of the preset (a name or a .toml file), as nested tables or with
    dotted keys: ``{"iterations": 3, "search.simulations": 50}``. `on_stage` is called with the
    record of every finished stage once it is saved (docs/metrics.md); an exception that it raises,
    KeyboardInterrupt included, stops training there, and the next call resumes. Programs that are
    named by a file, the run resumed or the preset's, and not by `settings` are run only where
    `allow_programs` says so. Raises UserError for such programs, for wrong settings, for other
    settings than the run's (only iterations may grow), and where another process trains the run.
    """
    require("game", game, str | None, 'a name, such as "othello:6x6"')
    require_path("run", run)
    require("preset", preset, str, 'a name or a .toml file, such as "mini"')
    require("settings", settings, Mapping | None, 'a mapping, such as {"iterations": 3}')
    require_function("on_stage", on_stage)
    require("allow_programs", allow_programs, bool, "True or False")
    folder = Path(run)
    assignments = list(as_assignments(settings or {}))
    if is_run(folder):
        opened = RunFolder.open(folder)
        named = [] if game is None else [f"game={json.dumps(game)}"]
        chosen = amend_settings(opened, [*named, *assignments], allow_programs=allow_programs)
    else:
        chosen = resolve_settings(game, preset, assignments, allow_programs=allow_programs)
        require_effects(chosen, assignments)
        check_inputs(chosen)
        opened = RunFolder.create(folder, chosen.model_dump())
    with opened.locked():
        Trainer(opened, chosen, on_record=on_stage).train()
    return Run(folder)
