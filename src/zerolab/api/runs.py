"""Training runs, with their metrics, networks, exports and costs, and reports of studies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerolab.agents import exporting
from zerolab.agents.run_agents import agent_of_run, network_iteration
from zerolab.api.positions import Network, network_of_agent, require_callable, require_path
from zerolab.core.errors import (
    UserError,
    checked_whole_number,
    did_you_mean,
    quoted,
    require_type,
)
from zerolab.core.nested_tables import flatten
from zerolab.core.processes import require_main_guard
from zerolab.report.document import Block, Picture
from zerolab.report.figures import shorten_name
from zerolab.report.html import NotebookDocument, NotebookView
from zerolab.report.table import data_frame
from zerolab.store.checks import user_errors_on_read
from zerolab.store.run_folder import RunFolder, is_run
from zerolab.studies.ledger import read_ledger
from zerolab.studies.results import read_results
from zerolab.studies.study import LEDGER_FILE_NAME, registered_studies
from zerolab.training import costs, move_times
from zerolab.training.configure import (
    assigned_keys,
    require_effects,
    resolve_settings,
    resume_settings,
)
from zerolab.training.costs import CumulativeCost
from zerolab.training.curves import draw_curves, iteration_table
from zerolab.training.logger import require_loggers
from zerolab.training.move_times import ReferenceMoveTimes
from zerolab.training.records import Record
from zerolab.training.reporting import NullReporter, Reporter, RunClock, read_records
from zerolab.training.shorthands import (
    DEFAULT_PRESET,
    option_assignments,
    require_new_run_described,
)
from zerolab.training.trainer import Trainer, check_new_run

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "CumulativeCost", "Record", "ReferenceMoveTimes", "Run", "StudyReport", "cost_to_reach",
    "export_network", "open_run", "read_cost_reference", "run_costs", "study_report", "train",
]  # fmt: skip


class Run(NotebookView):
    """A run on disk; every access reads the files again."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Resolved settings as nested tables."""
        return RunFolder.open(self.path).config

    def metrics(self, stage: str | None = None) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl for one stage or for all stages (docs/metrics.md).

        Raises UserError for an unknown stage.
        """
        require_type("stage", stage, str | None, 'a name, such as "learn"')
        if stage is not None and stage not in (stages := Record.class_by_stage):
            raise UserError(
                f"stage = {quoted(stage)}: expected one of {', '.join(stages)}"
                f"{did_you_mean(stage, stages)}"
            )
        lines = RunFolder.open(self.path).metrics()
        return [line for line in lines if stage in (None, line["stage"])]

    def network_iterations(self) -> list[int]:
        """Return the iterations with saved networks; 0 is the initial network."""
        return RunFolder.open(self.path).network_iterations()

    def network(self, iteration: int | None = None) -> Network:
        """Return the network of an iteration; by default, the best network.

        Raises UserError if there is no such network or it is damaged.
        """
        chosen = None if iteration is None else checked_whole_number("iteration", iteration)
        folder = RunFolder.open(self.path)
        return network_of_agent(agent_of_run(folder, network_iteration(folder, chosen)))

    def to_pandas(self) -> DataFrame:
        """Return one row per finished stage, with a column for each numeric value in its record.

        Raises MissingExtraError if pandas is not installed.
        """
        return data_frame(
            [
                {"iteration": record.iteration, "stage": record.stage, **dict(record.numbers())}
                for record in read_records(RunFolder.open(self.path))
            ]
        )

    def _blocks(self) -> Iterable[Block]:
        folder = RunFolder.open(self.path)
        table = iteration_table(folder)
        yield table
        if table.rows:
            name = shorten_name(self.path.name)
            yield Picture("curves", draw_curves([folder]), f"Training curves of {name}.")

    def __repr__(self) -> str:
        return f"<Run {quoted(self.path)}>"


def open_run(path: Path | str) -> Run:
    """Return the run in a folder; raise UserError if it is missing or damaged."""
    require_path("path", path)
    RunFolder.open(Path(path))
    return Run(path)


def train(
    game: str | None = None,
    *,
    run: Path | str,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on_stage: Callable[[Record], None] = lambda _: None,
    allow_programs: bool = False,
    log: Sequence[str] = (),
) -> Run:
    """Train an agent in the folder `run`, or resume the run there, and return the run.

    `settings` overrides settings of the preset, which is a name or a .toml file, by default "mini"
    for a new run. Keys can be nested or dotted, as in ``{"iterations": 3, "search.simulations":
    50}``. `on_stage` is called with the record of each stage (docs/metrics.md) once the stage is
    saved. If it raises an exception, such as KeyboardInterrupt, training stops, and the next call
    resumes the run. `allow_programs` must be true if the resumed run or the preset file names
    programs that `settings` does not. Notebooks show a progress bar. `log` names experiment
    trackers that also receive the metrics of every stage: ``"trackio"``, ``"wandb"``, ``"mlflow"``,
    or plug-ins. With several `selfplay.processes`, a script needs ``if __name__ == "__main__":``.

    Raises UserError for programs that are not allowed, for invalid settings, for a preset or
    settings that differ from those of the resumed run (except `iterations`,
    `supervised.positions`, `selfplay.processes`, `selfplay.chunks` and `device`), for a folder that
    is not a run if no game, preset or start describes a new one, and if another process is
    training the run.
    """
    require_main_guard()
    require_type("game", game, str | None, 'a name, such as "othello:6x6"')
    require_path("run", run)
    require_type("preset", preset, str | None, 'a name or a .toml file, such as "mini"')
    require_type("settings", settings, Mapping | None, 'a mapping, such as {"iterations": 3}')
    require_callable("on_stage", on_stage)
    require_type("allow_programs", allow_programs, bool, "True or False")
    if isinstance(log, str) or not isinstance(log, Sequence):
        raise UserError(f'log = {quoted(log)}: expected a list such as ["trackio"]')
    for name in log:
        require_type("log", name, str, 'names such as "trackio"')
    require_loggers(log)
    folder = Path(run)
    assignments = list(flatten(settings or {}))
    if is_run(folder):
        inputs = None
        opened = RunFolder.open(folder)
        changes = [*option_assignments(game, preset), *assignments]
        resolved = resume_settings(opened, changes, allow_programs=allow_programs)
    else:
        require_new_run_described(folder, game, preset, assigned_keys(assignments))
        resolved = resolve_settings(
            game,
            DEFAULT_PRESET if preset is None else preset,
            assignments,
            allow_programs=allow_programs,
        )
        require_effects(resolved, assignments)
        inputs = check_new_run(resolved)
        opened = RunFolder.create(folder, resolved.model_dump())
    with opened.locked():
        reporter = notebook_reporter(RunClock.of_run(opened, resolved))
        Trainer(opened, resolved, reporter, on_stage, inputs=inputs, loggers=log).train()
    return Run(folder)


def export_network(
    run: str, file: Path | str, *, half: bool = False, overwrite: bool = False
) -> Path:
    """Export the network of ``runs/demo`` or ``runs/demo@12`` to a file, and return its path.

    ``FILE.zerolab`` can be used as an agent; with `half`, its weights are in half precision.
    Options of `run` change the agent's search, as in ``runs/demo?simulations=400``. ``FILE.onnx``
    is a model for other programs; its outputs are compared with those of the network
    (docs/sharing.md). An existing file with different content is replaced only with `overwrite`.
    Raises UserError, without writing a file, if an argument is invalid or the outputs differ.
    """
    require_type("run", run, str, 'a run, such as "runs/demo@12"')
    require_path("file", file)
    return exporting.export_to_file(run, Path(file), half=half, overwrite=overwrite).path


def read_cost_reference(path: Path | str) -> ReferenceMoveTimes:
    """Read the move times of a reference machine, as written by `zerolab cost --measure`.

    Raises UserError if the file is missing or damaged, or was written by a newer version.
    """
    require_path("path", path)
    return move_times.read_reference_move_times(Path(path))


def run_costs(
    path: Path | str, reference: ReferenceMoveTimes | None = None
) -> list[CumulativeCost]:
    """Return the cumulative costs of a run after each iteration.

    With a reference, the costs include hours on the reference machine. Raises UserError if there is
    no run, if the run has no finished stage, or if the reference lacks a measurement for one of the
    run's networks.
    """
    require_path("path", path)
    require_type(
        "reference", reference, ReferenceMoveTimes | None, "a result of read_cost_reference"
    )
    return costs.run_costs(RunFolder.open(Path(path)), reference)


def cost_to_reach(
    iterations: list[CumulativeCost], levels: Iterable[float]
) -> dict[float, CumulativeCost | None]:
    """Return the cost of reaching each level, in [0, 1], of strong accuracy with search.

    Strong accuracy is the fraction of solved positions in which the agent chooses a best move.
    `iterations` is the result of `run_costs`. The cost of a level is that of the first iteration
    with at least this accuracy, or None if no iteration has reached it. Raises UserError for a
    level outside [0, 1].
    """
    require_type("levels", levels, Iterable, "a list, such as [0.8, 0.9]")
    require_type("iterations", iterations, list, "the result of run_costs")
    for each in iterations:
        require_type("iterations", each, CumulativeCost, "the result of run_costs")
    checked_levels = list(levels)
    for level in checked_levels:
        if not (isinstance(level, int | float) and 0 <= level <= 1):
            raise UserError(f"level = {quoted(level)}: expected a number from 0 to 1, such as 0.9")
    return costs.cost_to_reach(iterations, checked_levels)


class StudyReport(NotebookDocument):
    """The report of a study; `document` contains its tables, figures and verdicts on claims."""

    def __repr__(self) -> str:
        count = self.document.provenance.run_count
        return f"<StudyReport {self.document.title}: {count} runs>"


def study_report(ledger: Path | str) -> StudyReport:
    """Return the report of a study from its ledger, or from a folder that contains one.

    Raises UserError if the file is missing or damaged, or if its study is not installed.
    """
    require_path("ledger", ledger)
    path = Path(ledger)
    file = path / LEDGER_FILE_NAME if path.is_dir() else path
    read = read_ledger(file)
    study = registered_studies()[read.header.study]
    with user_errors_on_read(file):
        results = read_results(
            study.design(study.scale_of_ledger(file, read.header), read.seeds), read
        )
        return StudyReport(study.report(results))


_SECONDS = 0.2
"""Minimum number of seconds between updates of the display within a stage."""


def in_notebook() -> bool:
    """Return whether the program is running in a notebook kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def notebook_reporter(clock: RunClock) -> Reporter:
    """Return a reporter that shows a progress bar in a notebook and nothing elsewhere."""
    return NotebookReporter(clock) if in_notebook() else NullReporter()


class NotebookReporter:
    """Reporter that shows a progress bar and the last finished stage below a cell."""

    def __init__(self, clock: RunClock) -> None:
        from IPython.display import display  # noqa: PLC0415  available only in notebooks

        self._clock = clock
        self._stage, self._total, self._unit, self._done, self._note = "", 0, "", 0, ""
        self._last = ""
        self._updated = 0.0
        self._handle: Any = display(self, display_id=True)

    def message(self, text: str) -> None:
        self._last = text
        self._update()

    def stage_started(self, iteration: int, title: str, total: int, unit: str) -> None:
        self._clock.set_iteration(iteration)
        self._stage, self._total, self._unit, self._done, self._note = title, total, unit, 0, ""
        self._update()

    def progress(self, done: int, note: str = "") -> None:
        self._done, self._note = done, note
        if time.monotonic() - self._updated >= _SECONDS:
            self._update()

    def stage_finished(self, record: Record) -> None:
        self._last = f"iteration {record.iteration}: {' '.join(record.summary().split())}"
        self._stage = ""
        self._update()

    def _update(self) -> None:
        self._updated = time.monotonic()
        self._handle.update(self)

    def _status(self) -> str:
        seconds = self._clock.remaining_seconds()
        minutes = 0 if seconds is None else round(seconds / 60)
        left = f", about {minutes} min left" if minutes else ""
        note = f", {self._note}" if self._note else ""
        return (
            f"iteration {self._clock.iteration_of_total}, {self._stage}: {self._done:,} of"
            f" {self._total:,} {self._unit}{note}{left}"
        )

    def _repr_html_(self) -> str:
        if not self._stage:
            return escape(repr(self))
        status = escape(self._status())
        bar = f'value="{self._done}" max="{max(1, self._total)}" aria-label="{status}"'
        return f"<div><progress {bar}></progress> {status}<br>{escape(self._last)}</div>"

    def __repr__(self) -> str:
        return self._status() if self._stage else self._last or "starting training"
