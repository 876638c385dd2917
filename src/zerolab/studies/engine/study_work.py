"""The work of a study: what it needs, the work itself, how far it has come, and the report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerolab.core.errors import UserError, quoted
from zerolab.store.run_folder import is_run
from zerolab.studies.design import Design
from zerolab.studies.engine.estimate import run_bytes
from zerolab.studies.engine.layout import Failures, StudyFolder
from zerolab.studies.engine.scheduler import Scheduler, View
from zerolab.studies.engine.workers import Workers
from zerolab.studies.interface import Scale, Study
from zerolab.studies.report.document import Document
from zerolab.studies.results import Results, load_results

_SPARE_BYTES = 1 << 28


@dataclass(frozen=True)
class StudyWork:
    """A study at a scale in a folder, or some parts of it."""

    study: Study
    scale: Scale
    folder: StudyFolder
    design: Design
    """All of it: folders know the whole."""
    only: Sequence[str] = ()
    """The parts to work on; all if empty."""

    @classmethod
    def of(cls, study: Study, scale: Scale, root: Path, only: Sequence[str] = ()) -> StudyWork:
        """Plan a study; raise UserError for an unknown part."""
        design = study.design(scale)
        design.only(only)
        return cls(study, scale, StudyFolder(root, study.name, scale), design, only)

    @property
    def chosen(self) -> Design:
        """The parts to work on."""
        return self.design.only(self.only)

    def view(self) -> View:
        """Return how far the study has come, whoever works on it."""
        return self.scheduler().view()

    def scheduler(self) -> Scheduler:
        """Return the scheduler; raise UserError if the folder is another study's, a run or a file.

        A study in a run would leave its own runs among the run's files.
        """
        if self.folder.root.exists() and not self.folder.root.is_dir():
            raise UserError(f"{quoted(self.folder.root)} is no folder: choose another --folder")
        if self.folder.root.is_dir() and is_run(self.folder.root):
            raise UserError(f"{quoted(self.folder.root)} is a run: choose another --folder")
        if self.folder.exists:
            self.folder.require(self.design)
        return Scheduler(self.folder, self.chosen)

    def bytes_left(self) -> float:
        """Return about how many bytes the rest will take."""
        return sum(
            run_bytes(run.settings)
            for run in self.chosen.distinct_runs.values()
            if not self.folder.is_readable_and_finished(run)
        )

    def require_room(self) -> None:
        """Raise UserError where the disk has less room than the rest will take."""
        needed = self.bytes_left() + _SPARE_BYTES
        place = next(each for each in (self.folder.root, *self.folder.root.absolute().parents)
                     if each.exists())  # fmt: skip
        free = shutil.disk_usage(place).free
        if needed > free:
            raise UserError(
                f"{quoted(self.folder.path)} will take about {_gib(needed)}, and the disk has"
                f" {_gib(free)} left: choose a --folder on another disk, or a smaller --scale"
            )

    def begin(self) -> None:
        """Make the study's folder if it is missing; raise UserError where `work` would at once."""
        with self.folder.locked(self.design):
            pass

    def forget_failures(self) -> None:
        """Forget the failures of former calls where nothing is left; see `begin` for errors."""
        if self.folder.failures():
            with self.folder.locked(self.design):
                self.scheduler().forget_failures()

    def results(self) -> Results:
        """Return everything that is finished; raise UserError where nothing has been begun."""
        if not self.folder.exists:
            raise UserError(
                f"{quoted(self.folder.path)} holds no study: expected one that has been begun, as"
                f" by zerolab study {self.study.name} --scale {self.scale}"
            )
        self.folder.require(self.design)
        return load_results(self.folder, self.design, self.scale)

    def document(self) -> Document:
        """Return the report on everything that is finished; parts that are not say so."""
        return self.study.document(self.results())

    def waiting(self) -> list[str]:
        """Return the tournaments that cannot begin: players are in parts that are not chosen."""
        chosen = self.chosen
        return [
            each.key
            for each in chosen.tournaments
            if not all(
                run.key in chosen.distinct_runs or self.folder.is_readable_and_finished(run)
                for run in each.entrants.values()
            )
        ]

    def work(self, workers: Workers, watch: Callable[[View], None]) -> Failures:
        """Do all that is left, and return what has failed.

        Raises UserError if another process is at work on the study, or the folder is another one's.
        """
        with self.folder.locked(self.design), workers:
            return Scheduler(self.folder, self.chosen).work(workers, watch)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"


def as_dict(study_work: StudyWork) -> dict[str, Any]:
    """Return how far a study has come, for programs."""
    scheduler = study_work.scheduler()
    parts = study_work.chosen.parts
    return {
        "study": study_work.study.name,
        "scale": study_work.scale,
        "folder": str(study_work.folder.path),
        **scheduler.view()._asdict(),
        "parts": [{"part": part, **scheduler.view(part)._asdict()} for part in parts],
        "failures": scheduler.failures(),
    }
