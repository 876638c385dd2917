"""Study lists, progress, claims and report files."""

from __future__ import annotations

import csv
import inspect
import io
import re
import shlex
import threading
import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from pydantic import BaseModel

from zerolab.core.errors import UserError, nearest, quoted
from zerolab.core.files import read_text
from zerolab.store.folder import is_locked
from zerolab.studies.study import SCALES, Scale, Study, registered_studies
from zerolab.studies.study_folder import STUDY
from zerolab.studies.work import StudyWork
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Lab
from zerolab.web.requests import MissingError

router = APIRouter(tags=["studies"], prefix="/studies")
reports = APIRouter(include_in_schema=False, prefix="/reports")

_REPORT, _PAGE, _CLAIMS = "report", "index.html", "claims.csv"
_MAX_CLAIMS_FILE = 1 << 22
_REPORT_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.(html|md|csv|png|svg)")
_PROGRESS_SECONDS = 2.0
"""Time for which a study's progress is reused, because it takes a while to compute."""
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)
"""Content security policy of reports, which forbids scripts and external resources."""


class BegunScale(BaseModel):
    """Scale at which a study has been started."""

    scale: str
    folder: str
    running: bool
    report: str
    """URL of the report page; empty if no report has been written."""


class StudyResponse(BaseModel):
    """Study in a list."""

    name: str
    help: str
    """One-line description."""
    begun: list[BegunScale]


class StudyPartResponse(BaseModel):
    """Progress of a study or one of its parts."""

    part: str
    runs: int
    finished_runs: int
    games: int
    finished_games: int
    computations: int
    finished_computations: int
    seconds: float
    """Total estimated work in core seconds."""
    done_seconds: float


class ClaimResponse(BaseModel):
    """Claim of a study with its verdict in the report."""

    key: str
    claim: str
    source: str
    threshold: str
    """Threshold with the direction in which the claim is true, such as "above 0"."""
    found: str
    """Measured value with its 95 % interval; empty without data."""
    adjusted_p: str
    verdict: str
    note: str


class StudyProgress(BaseModel):
    """Progress of a study at one scale."""

    name: str
    scale: str
    help: str
    folder: str
    command: str
    """Command that starts or resumes the study."""
    begun: bool
    running: bool
    whole: StudyPartResponse
    parts: list[StudyPartResponse]
    active: list[str]
    """Tasks in progress."""
    failures: dict[str, list[str]]
    """Last lines of output from failed tasks, by name."""
    claims: list[ClaimResponse]
    report: str
    """URL of the report page; empty if no report has been written."""
    files: list[str]
    """Names of the report files."""


@router.get("")
def studies(lab: Lab) -> list[StudyResponse]:
    """List all studies with the scales at which they have been started."""
    responses = []
    for name, study in sorted(registered_studies().items()):
        scales = [_begun(lab.folders, name, scale) for scale in SCALES]
        begun = [each for each in scales if each is not None]
        responses.append(StudyResponse(name=name, help=_headline(study), begun=begun))
    return responses


@router.get("/one")
def one_study(
    lab: Lab, name: Annotated[str, Query(min_length=1, max_length=100)], scale: Scale
) -> StudyProgress:
    """Return a study's progress and the verdicts on its claims without starting anything."""
    all_studies = registered_studies()
    if name not in all_studies:
        names = ", ".join(sorted(all_studies))
        raise MissingError(
            f"{quoted(name)} is not a study: expected one of {names}{nearest(name, all_studies)}"
        )
    work = StudyWork.of(all_studies[name], scale, lab.folders.studies)
    status = _progress.of(work)
    begun = _begun(lab.folders, name, scale)
    report = work.folder.report
    is_default = lab.folders.studies == Path("studies")
    option = "" if is_default else f" --folder {shlex.quote(lab.folders.studies.as_posix())}"
    return StudyProgress(
        name=name,
        scale=scale,
        help=_headline(all_studies[name]),
        folder=work.folder.path.as_posix(),
        command=f"zerolab study {name} --scale {scale}{option}",
        begun=begun is not None,
        running=begun is not None and begun.running,
        whole=StudyPartResponse(part="", **_numbers(status)),
        parts=[StudyPartResponse(part=each["part"], **_numbers(each)) for each in status["parts"]],
        active=status["active"],
        failures=status["failures"],
        claims=_claims(report / _CLAIMS),
        report=begun.report if begun else "",
        files=_files(report),
    )


@reports.get("/{study}/{name}")
def report(lab: Lab, study: str, name: str) -> FileResponse:
    """Return a report file."""
    folder = lab.folders.studies / study
    path = lab.folders.confined(folder / _REPORT / name, (lab.folders.studies,))
    if not _REPORT_FILE.fullmatch(name) or not STUDY.is_in(folder) or not path.is_file():
        raise MissingError(f"there is no report {quoted(f'{study}/{name}')}")
    return FileResponse(path, headers={"content-security-policy": _REPORT_POLICY})


class _ProgressCache:
    """Recently computed progress of studies, shared by requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: dict[Path, tuple[float, dict[str, object]]] = {}

    def of(self, work: StudyWork) -> dict:  # type: ignore[type-arg]
        """Return the output of `zerolab study --status --json`."""
        with self._lock:
            when, status = self._cached.get(work.folder.path, (-_PROGRESS_SECONDS, {}))
            if time.monotonic() - when >= _PROGRESS_SECONDS or not status:
                status = work.status()
                self._cached[work.folder.path] = time.monotonic(), status
            return status


_progress = _ProgressCache()


def _numbers(status: dict) -> dict:  # type: ignore[type-arg]
    return {key: status[key] for key in StudyPartResponse.model_fields if key != "part"}


def _headline(study: Study) -> str:
    return (inspect.getdoc(study) or "").partition("\n")[0]


def _begun(folders: Folders, name: str, scale: str) -> BegunScale | None:
    """Return a study's scale, or None if it has not been started."""
    path = folders.studies / f"{name}-{scale}"
    if not (path / STUDY.settings_file).is_file():
        return None
    has_report = (path / _REPORT / _PAGE).is_file()
    return BegunScale(
        scale=scale,
        folder=path.as_posix(),
        running=is_locked(path),
        report=f"/reports/{path.name}/{_PAGE}" if has_report else "",
    )


def _files(report: Path) -> list[str]:
    if not report.is_dir():
        return []
    return sorted(each.name for each in report.iterdir() if _REPORT_FILE.fullmatch(each.name))


def _claims(path: Path) -> list[ClaimResponse]:
    """Return the claims in a report; an empty list if their file is missing or damaged."""
    if not path.exists():
        return []
    try:
        return [
            _claim(row) for row in csv.DictReader(io.StringIO(read_text(path, _MAX_CLAIMS_FILE)))
        ]
    except (UserError, KeyError, csv.Error):
        return []


def _claim(row: dict[str, str]) -> ClaimResponse:
    measured = row["found"]
    if row.get("found_low") and row.get("found_high"):
        measured += f" ({row['found_low']} to {row['found_high']})"
    return ClaimResponse(
        key=row["key"], claim=row["claim"], source=row["source"],
        threshold=f"{row['direction']} {row['threshold']}", found=measured,
        adjusted_p=row["adjusted p"], verdict=row["verdict"], note=row["note"],
    )  # fmt: skip
