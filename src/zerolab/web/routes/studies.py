"""Studies: list, progress, claims and report files."""

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
"""Validity of the progress of a study, which takes a while to determine."""
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)
"""Content security policy of reports: no scripts, nothing loaded from elsewhere."""


class BegunScale(BaseModel):
    """A scale at which a study has been started."""

    scale: str
    folder: str
    running: bool
    report: str
    """The address of the report's page; empty if none has been written."""


class StudyResponse(BaseModel):
    """A study in a list."""

    name: str
    help: str
    """A description in one line."""
    begun: list[BegunScale]


class StudyPartResponse(BaseModel):
    """The progress of a study, or of a part of it."""

    part: str
    runs: int
    finished_runs: int
    games: int
    finished_games: int
    computations: int
    finished_computations: int
    seconds: float
    """Estimated work in seconds of one core, in total."""
    done_seconds: float


class ClaimResponse(BaseModel):
    """A claim of a study and its verdict in the report."""

    key: str
    claim: str
    source: str
    threshold: str
    """With the side on which the claim holds, such as "above 0"."""
    found: str
    """With its 95 % interval; empty without data."""
    adjusted_p: str
    verdict: str
    note: str


class StudyProgress(BaseModel):
    """A study at a scale."""

    name: str
    scale: str
    help: str
    folder: str
    command: str
    """The command that starts or continues it."""
    begun: bool
    running: bool
    whole: StudyPartResponse
    parts: list[StudyPartResponse]
    active: list[str]
    """The tasks in progress."""
    failures: dict[str, list[str]]
    """The last lines of output of failed tasks, by name."""
    claims: list[ClaimResponse]
    report: str
    """The address of the report's page; empty if none has been written."""
    files: list[str]
    """The names of the report's files."""


@router.get("")
def studies(lab: Lab) -> list[StudyResponse]:
    """List the studies, with the scales at which they have been started."""
    return [
        StudyResponse(
            name=name,
            help=_headline(study),
            begun=[
                found for scale in SCALES if (found := _begun(lab.folders, name, scale)) is not None
            ],
        )
        for name, study in sorted(registered_studies().items())
    ]


@router.get("/one")
def one_study(
    lab: Lab, name: Annotated[str, Query(min_length=1, max_length=100)], scale: Scale
) -> StudyProgress:
    """Return the progress of a study and the verdicts on its claims; nothing is started."""
    known = registered_studies()
    if name not in known:
        names = ", ".join(sorted(known))
        raise MissingError(
            f"{quoted(name)} is not a study: expected one of {names}{nearest(name, known)}"
        )
    work = StudyWork.of(known[name], scale, lab.folders.studies)
    found = _progress.of(work)
    begun = _begun(lab.folders, name, scale)
    report = work.folder.report
    is_default = lab.folders.studies == Path("studies")
    elsewhere = "" if is_default else f" --folder {shlex.quote(lab.folders.studies.as_posix())}"
    return StudyProgress(
        name=name,
        scale=scale,
        help=_headline(known[name]),
        folder=work.folder.path.as_posix(),
        command=f"zerolab study {name} --scale {scale}{elsewhere}",
        begun=begun is not None,
        running=begun is not None and begun.running,
        whole=StudyPartResponse(part="", **_numbers(found)),
        parts=[StudyPartResponse(part=each["part"], **_numbers(each)) for each in found["parts"]],
        active=found["active"],
        failures=found["failures"],
        claims=_claims(report / _CLAIMS),
        report=begun.report if begun else "",
        files=_files(report),
    )


@reports.get("/{study}/{name}")
def report(lab: Lab, study: str, name: str) -> FileResponse:
    """Return a file of a report."""
    folder = lab.folders.studies / study
    path = lab.folders.confined(folder / _REPORT / name, (lab.folders.studies,))
    if not _REPORT_FILE.fullmatch(name) or not STUDY.is_in(folder) or not path.is_file():
        raise MissingError(f"there is no report {quoted(f'{study}/{name}')}")
    return FileResponse(path, headers={"content-security-policy": _REPORT_POLICY})


class _ProgressCache:
    """The progress of studies, shared by all requests of a moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: dict[Path, tuple[float, dict[str, object]]] = {}

    def of(self, work: StudyWork) -> dict:  # type: ignore[type-arg]
        """Return the output of `zerolab study --status --json`."""
        with self._lock:
            when, found = self._cached.get(work.folder.path, (-_PROGRESS_SECONDS, {}))
            if time.monotonic() - when >= _PROGRESS_SECONDS or not found:
                found = work.status()
                self._cached[work.folder.path] = time.monotonic(), found
            return found


_progress = _ProgressCache()


def _numbers(found: dict) -> dict:  # type: ignore[type-arg]
    return {key: found[key] for key in StudyPartResponse.model_fields if key != "part"}


def _headline(study: Study) -> str:
    return (inspect.getdoc(study) or "").partition("\n")[0]


def _begun(folders: Folders, name: str, scale: str) -> BegunScale | None:
    """Return a scale of a study if it has been started."""
    path = folders.studies / f"{name}-{scale}"
    if not (path / STUDY.settings_file).is_file():
        return None
    is_there = (path / _REPORT / _PAGE).is_file()
    return BegunScale(
        scale=scale,
        folder=path.as_posix(),
        running=is_locked(path),
        report=f"/reports/{path.name}/{_PAGE}" if is_there else "",
    )


def _files(report: Path) -> list[str]:
    if not report.is_dir():
        return []
    return sorted(each.name for each in report.iterdir() if _REPORT_FILE.fullmatch(each.name))


def _claims(path: Path) -> list[ClaimResponse]:
    """Return the claims of a report; none if their file is missing or damaged."""
    try:
        rows = (
            list(csv.DictReader(io.StringIO(read_text(path, _MAX_CLAIMS_FILE))))
            if path.exists()
            else []
        )
        return [_claim(row) for row in rows]
    except (UserError, KeyError, csv.Error):
        return []


def _claim(row: dict[str, str]) -> ClaimResponse:
    found = row["found"]
    if row.get("found_low") and row.get("found_high"):
        found += f" ({row['found_low']} to {row['found_high']})"
    return ClaimResponse(
        key=row["key"], claim=row["claim"], source=row["source"],
        threshold=f"{row['direction']} {row['threshold']}", found=found,
        adjusted_p=row["adjusted p"], verdict=row["verdict"], note=row["note"],
    )  # fmt: skip
