"""Studies: a list, progress, claims and verdicts, and report files."""

from __future__ import annotations

import csv
import io
import math
import shlex
import time
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse, HTMLResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import read_text
from zerolab.report.html import HTML_PAGE, html_page, is_report_file_name
from zerolab.store.checks import hex_digest
from zerolab.studies.execution import StudyExecution
from zerolab.studies.findings import findings_document, judge_studies, read_ledgers, study_claims
from zerolab.studies.ledger import MAX_LEDGER_BYTES
from zerolab.studies.study import (
    LEDGER_FILE_NAME,
    REPORT_FOLDER,
    SCALES,
    Scale,
    Study,
    registered_studies,
)
from zerolab.studies.study_folder import StudyFolder
from zerolab.web.folders import FileCache, Folders, is_running
from zerolab.web.laboratory import Lab, Laboratory
from zerolab.web.requests import PAGE_METHODS, NotFoundError

router = APIRouter(tags=["studies"], prefix="/studies")
report_router = APIRouter(include_in_schema=False, prefix="/reports")

_PROGRESS_SECONDS = 2.0
"""Time for which the progress of a study is cached, because computing it takes a while."""
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)
"""Content security policy of reports, which forbids scripts and external resources."""


class StartedScale(BaseModel):
    """Scale at which a study has been started."""

    scale: str
    folder: str
    """Study folder."""
    is_running: bool
    """True if a process is working on the study at this scale."""
    report_url: str
    """URL of the report page; empty if no report has been written."""
    verdict_summary: VerdictSummary | None
    """Verdicts in the report; None if no report with claims has been written."""


class StudyResponse(BaseModel):
    """Study in a list."""

    name: str
    description: str
    """One-line description."""
    started_scales: list[StartedScale]
    """Scales at which the study has been started."""


class StudyProgressResponse(BaseModel):
    """Progress of a study or one of its parts."""

    part: str
    """Name of the part; empty for the whole study."""
    planned_runs: int
    """Number of planned training runs."""
    finished_runs: int
    planned_games: int
    """Number of planned tournament games."""
    finished_games: int
    planned_computations: int
    """Number of planned computations."""
    finished_computations: int
    planned_core_seconds: float
    """Estimated total work, in core seconds."""
    finished_core_seconds: float
    """Estimated finished work, in core seconds."""


class StudyDetails(BaseModel):
    """Progress and claims of a study at one scale."""

    name: str
    scale: str
    description: str
    """One-line description."""
    folder: str
    """Study folder."""
    command: str
    """Command that starts or resumes the study."""
    has_begun: bool
    """True if the study has been started at this scale."""
    is_running: bool
    """True if a process is working on the study at this scale."""
    whole_study: StudyProgressResponse
    """Progress of the whole study."""
    parts: list[StudyProgressResponse]
    """Progress of each part."""
    active_titles: list[str]
    """Names of the tasks in progress."""
    failures: dict[str, list[str]]
    """Last lines of the error message of each failed task, by task name."""
    claims: list[ClaimResponse]
    report_url: str
    """URL of the report page; empty if no report has been written."""
    files: list[str]
    """Names of the report files."""


@router.get("")
def studies(lab: Lab) -> list[StudyResponse]:
    """List all studies with the scales at which they have been started."""
    responses = []
    for name, study in sorted(registered_studies().items()):
        scales = [_started_scale(lab.folders, name, scale) for scale in SCALES]
        started = [each for each in scales if each is not None]
        responses.append(
            StudyResponse(name=name, description=study.description, started_scales=started)
        )
    return responses


def _known_study(name: Annotated[str, Query(min_length=1, max_length=100)]) -> Study:
    """Return the study called `name`; raise NotFoundError if there is none."""
    all_studies = registered_studies()
    if name not in all_studies:
        names = ", ".join(sorted(all_studies))
        raise NotFoundError(
            f"{quoted(name)} is not a study: expected one of {names}"
            f"{did_you_mean(name, all_studies)}"
        )
    return all_studies[name]


@router.get("/one")
async def study_details(
    lab: Lab, study: Annotated[Study, Depends(_known_study)], scale: Scale
) -> StudyDetails:
    """Return the progress of a study and the verdicts on its claims, without starting anything."""
    status = await _progress(study, scale, lab)
    return await run_in_threadpool(_study_details, study, scale, lab.folders, status)


def _study_details(
    study: Study, scale: Scale, folders: Folders, status: dict[str, Any]
) -> StudyDetails:
    started = _started_scale(folders, study.name, scale)
    folder = StudyFolder(folders.studies, study.name, scale)
    report = folder.report_path
    is_default = folders.studies == Path("studies")
    option = "" if is_default else f" --folder {shlex.quote(folders.studies.as_posix())}"
    return StudyDetails(
        name=study.name,
        scale=scale,
        description=study.description,
        folder=folder.path.as_posix(),
        command=f"zerolab study {study.name} --scale {scale}{option}",
        has_begun=started is not None,
        is_running=started is not None and started.is_running,
        whole_study=StudyProgressResponse(part="", **_progress_fields(status)),
        parts=[
            StudyProgressResponse(part=each["part"], **_progress_fields(each))
            for each in status["parts"]
        ],
        active_titles=status["active_titles"],
        failures=status["failures"],
        claims=read_claims(report),
        report_url=started.report_url if started else "",
        files=_files(report),
    )


@report_router.api_route("/findings", methods=PAGE_METHODS)
async def findings_page(lab: Lab) -> HTMLResponse:
    """Return a page with the verdicts on all published findings, from the ledgers of all scales."""
    page = await _findings(lab)
    return HTMLResponse(page, headers={"content-security-policy": _REPORT_POLICY})


@report_router.api_route("/{study}/{name}", methods=PAGE_METHODS)
def report_file(lab: Lab, study: str, name: str) -> FileResponse:
    """Return a file of a study's report; `study` is NAME-SCALE."""
    study_name, _, scale = study.rpartition("-")
    folder = StudyFolder(lab.folders.studies, study_name, scale)
    path = lab.folders.require_served_path(folder.report_path / name, (lab.folders.studies,))
    if not (is_report_file_name(name) and folder.has_begun and path.is_file()):
        raise NotFoundError(f"there is no report {quoted(f'{study}/{name}')}")
    return FileResponse(path, headers={"content-security-policy": _REPORT_POLICY})


_LedgerDigests = tuple[tuple[Path, str], ...]
_DIGESTS: FileCache[str] = FileCache()
_FINDINGS: dict[Path, tuple[_LedgerDigests, str]] = {}
"""Latest findings page by folder of studies, with the digests of the ledgers that it is about."""


async def _findings(lab: Laboratory) -> str:
    """Return the findings page, which is generated again when a ledger changes."""
    folder = lab.folders.studies
    digests = await run_in_threadpool(_ledger_digests, folder)
    known, page = _FINDINGS.get(folder, (None, ""))
    if known == digests:
        return page
    return await lab.findings_pages.result(digests, partial(_generate_findings, folder, digests))


def _ledger_digests(folder: Path) -> _LedgerDigests:
    """Return the digest of each ledger. A report rewrites its ledger, usually without a change."""
    paths = [path for path in sorted(folder.glob(f"*/{LEDGER_FILE_NAME}")) if path.is_file()]
    return tuple((path, _DIGESTS.get(str(path), [path], partial(_digest, path))) for path in paths)


def _generate_findings(folder: Path, digests: _LedgerDigests) -> str:
    ledgers, refused = read_ledgers(folder)
    judged, unfit = judge_studies(ledgers)
    page = html_page(findings_document(judged, _report_link, [*refused, *unfit]), {})
    _FINDINGS[folder] = digests, page
    return page


def _digest(path: Path) -> str:
    """Return the digest of a ledger; its size if it is too large to be read, "" if unreadable."""
    try:
        size = path.stat().st_size
        return str(size) if size > MAX_LEDGER_BYTES else hex_digest(path.read_bytes())
    except OSError:
        return ""


def _report_link(ledger: Path, figure: str) -> str:
    """Return the URL of a figure or, if `figure` is empty, of the report; "" if there is none."""
    name = f"{figure}.svg" if figure else HTML_PAGE
    is_written = (ledger.parent / REPORT_FOLDER / name).is_file()
    return f"/reports/{ledger.parent.name}/{name}" if is_written else ""


_PROGRESS: dict[tuple[Path, str, Scale], tuple[float, dict[str, Any]]] = {}
"""Time and latest progress by folder of studies, study and scale."""


async def _progress(study: Study, scale: Scale, lab: Laboratory) -> dict[str, Any]:
    """Return the recent progress of a study, as printed by `zerolab study --status --json`."""
    key = lab.folders.studies, study.name, scale
    when, status = _PROGRESS.get(key, (-math.inf, {}))
    if time.monotonic() - when < _PROGRESS_SECONDS:
        return status
    return await lab.study_progress.result(key, partial(_compute_progress, study, scale, key[0]))


def _compute_progress(study: Study, scale: Scale, root: Path) -> dict[str, Any]:
    status = StudyExecution.plan(study, scale, root).status()
    _PROGRESS[root, study.name, scale] = time.monotonic(), status
    return status


def _progress_fields(status: dict[str, Any]) -> dict[str, Any]:
    return {key: status[key] for key in StudyProgressResponse.model_fields if key != "part"}


def _started_scale(folders: Folders, name: str, scale: str) -> StartedScale | None:
    """Return a scale of a study, or None if the study has not been started at this scale."""
    study_folder = StudyFolder(folders.studies, name, scale)
    if not study_folder.has_begun:
        return None
    path, has_report = study_folder.path, (study_folder.report_path / HTML_PAGE).is_file()
    return StartedScale(
        scale=scale,
        folder=path.as_posix(),
        is_running=is_running(path),
        report_url=f"/reports/{path.name}/{HTML_PAGE}" if has_report else "",
        verdict_summary=read_verdict_summary(study_folder.report_path, registered_studies()[name]),
    )


def _files(report: Path) -> list[str]:
    if not report.is_dir():
        return []
    return sorted(each.name for each in report.iterdir() if is_report_file_name(each.name))


_CLAIMS = "claims.csv"
_MAX_CLAIMS_FILE = 1 << 22
_UNDECIDED = ("undecided", "no data")

_Row = dict[str, str]


class ClaimResponse(BaseModel):
    """Claim of a study with the verdict in the latest report."""

    key: str
    claim: str
    """Claim in words."""
    reference: str
    """Source of the claim, such as a table of the paper."""
    claimed: str
    """Claimed relation of the statistic to its threshold, such as "above 0"."""
    measured: str
    """Measured value with its 95 % interval; empty without data."""
    adjusted_p_text: str
    """P-value, adjusted for multiple comparisons."""
    verdict: str
    """Verdict, such as "holds" or "does not hold"."""
    note: str


class VerdictSummary(BaseModel):
    """Summary of a report's verdicts."""

    strongest_claim: ClaimResponse | None
    """Published finding with the strongest verdict; None if all are undecided."""
    figure_url: str
    """URL of the figure for that finding, or of the first figure by name; empty without figures."""
    verdict_counts: dict[str, int]
    """Number of claims by verdict, most frequent first."""


_ROWS: FileCache[list[_Row]] = FileCache()


def read_claims(report: Path) -> list[ClaimResponse]:
    """Return the claims in a report, or an empty list if their file is missing or damaged."""
    return [_claim(row) for row in _rows(report)]


def read_verdict_summary(report: Path, study: Study) -> VerdictSummary | None:
    """Return a summary of a report's verdicts, or None if there are no claims."""
    rows = _rows(report)
    if not rows:
        return None
    decided = [row for row in rows if row["verdict"] not in _UNDECIDED and _is_published(row)]
    strongest = min(decided, key=_order, default=None)
    wanted = _figures_by_claim(study).get(strongest["key"], "") if strongest else ""
    figures = sorted(path.name for path in report.glob("*.svg"))
    figure = next((each for each in [f"{wanted}.svg", *figures] if each in figures), "")
    return VerdictSummary(
        strongest_claim=_claim(strongest) if strongest else None,
        figure_url=f"/reports/{report.parent.name}/{figure}" if figure else "",
        verdict_counts=dict(Counter(row["verdict"] for row in rows).most_common()),
    )


def _rows(report: Path) -> list[_Row]:
    """Return the rows of the claims file, or an empty list if it is missing or damaged."""
    path = report / _CLAIMS
    return _ROWS.get(str(path), [path], lambda: _read_rows(path))


def _read_rows(path: Path) -> list[_Row]:
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path, _MAX_CLAIMS_FILE))))
        for row in rows:
            _claim(row)
            _order(row)
    except (UserError, KeyError, TypeError, ValueError, csv.Error):
        return []
    return rows


def _claim(row: _Row) -> ClaimResponse:
    measured = row["found"]
    if row.get("found_low") and row.get("found_high"):
        measured += f" ({row['found_low']} to {row['found_high']})"
    return ClaimResponse(
        key=row["key"], claim=row["claim"], reference=row["source"],
        claimed=row["claimed"], measured=measured,
        adjusted_p_text=row["adjusted p"], verdict=row["verdict"], note=row["note"],
    )  # fmt: skip


def _is_published(row: _Row) -> bool:
    return not row["source"].startswith("zerolab")


def _order(row: _Row) -> tuple[bool, bool, float]:
    """Return a sort key that puts the strongest verdicts first, as on the findings page."""
    p = float(row["adjusted p"]) if row["adjusted p"] else 1.0
    return row["primary"] != "yes", row["verdict"] == "holds", p


@cache
def _figures_by_claim(study: Study) -> dict[str, str]:
    """Return the figure of each claim that names one, by the key of the claim."""
    return {claim.key: claim.figure for claim in study_claims(study) if claim.figure}
