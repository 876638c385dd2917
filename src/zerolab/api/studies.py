"""Reports of studies, from their ledgers."""

from __future__ import annotations

from pathlib import Path

from zerolab.api.positions import require_path
from zerolab.report.notebook import NotebookDocument
from zerolab.store.checks import user_errors_on_read
from zerolab.studies.ledger import read_ledger
from zerolab.studies.results import read_results
from zerolab.studies.study import LEDGER, registered_studies

__all__ = ["StudyReport", "study_report"]


class StudyReport(NotebookDocument):
    """The report of a study; `document` has its tables, figures and verdicts on claims."""

    def __repr__(self) -> str:
        count = self.document.provenance.run_count
        return f"<StudyReport {self.document.title}: {count} runs>"


def study_report(ledger: Path | str) -> StudyReport:
    """Return the report of a study from its ledger, or from a folder that contains one.

    Raises UserError if the file is missing or damaged, or if its study is not installed.
    """
    require_path("ledger", ledger)
    path = Path(ledger)
    file = path / LEDGER if path.is_dir() else path
    read = read_ledger(file)
    study = registered_studies()[read.header.study]
    with user_errors_on_read(file):
        results = read_results(study.design(study.scale_of(file, read.header), read.seeds), read)
        return StudyReport(study.document(results))
