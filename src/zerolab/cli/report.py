"""`zerolab report`: tables, figures and claims of a study, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.parse import call
from zerolab.cli.study import STUDIES_FOLDER, show_report
from zerolab.studies.interface import Scale, registered_studies


def report(
    name: tyro.conf.Positional[str],
    *,
    scale: Scale = "mini",
    folder: Path = STUDIES_FOLDER,
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Report on a study: one page that opens from disk, Markdown, tables as CSV, and figures.

    What is not finished is left out, and claims without data say what they lack. zerolab study
    writes the same report when it has done its work.

    Examples:
      zerolab report warm-start
      zerolab report loss-functions --scale small --output results/loss-functions

    Args:
        name: The study, as zerolab study lists it.
        scale: The scale at which it was begun.
        folder: Where studies keep their runs, games and reports.
        output: The folder to write into; by default report/ in that of the study.
        json: Print tables and claims as JSON.
    """
    from zerolab.studies.engine.study_work import StudyWork

    study_work = StudyWork.of(registered_studies()[name], scale, folder)
    show_report(study_work, output or study_work.folder.report, json)


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and report."""
    call(report, "report", arguments)
