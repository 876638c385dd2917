"""Studies: progress, claims, and reports as they lie on disk."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse

from zerolab.studies.interface import Scale
from zerolab.web.archive.studies import (
    ShownStudy,
    StudyProgress,
    list_studies,
    report_file,
    study_progress,
)
from zerolab.web.laboratory import Lab

router = APIRouter(tags=["studies"], prefix="/studies")
reports = APIRouter(include_in_schema=False, prefix="/reports")

_ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'; sandbox allow-downloads allow-popups"
)
"""What a report may do: look, and be looked at. It has no scripts, and asks for nothing."""


@router.get("")
def studies(lab: Lab) -> list[ShownStudy]:
    """List the studies, and at which scales they have been begun."""
    return list_studies(lab.folders)


@router.get("/one")
def one_study(
    lab: Lab, name: Annotated[str, Query(min_length=1, max_length=100)], scale: Scale
) -> StudyProgress:
    """Return how far a study has come, and what became of its claims; nothing is started."""
    return study_progress(lab.folders, name, scale)


@reports.get("/{study}/{name}")
def report(lab: Lab, study: str, name: str) -> FileResponse:
    """Return a file of a report."""
    path = report_file(lab.folders, study, name)
    return FileResponse(path, headers={"content-security-policy": _ALONE})
