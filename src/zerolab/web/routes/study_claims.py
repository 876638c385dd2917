"""Claims and verdicts in the reports of studies."""

from __future__ import annotations

import csv
import io
from collections import Counter
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from zerolab.core.errors import UserError
from zerolab.core.files import read_text
from zerolab.studies.findings import claims_of
from zerolab.studies.study import Study
from zerolab.web.folders import FileCache

_CLAIMS = "claims.csv"
_MAX_CLAIMS_FILE = 1 << 22
_UNDECIDED = ("undecided", "no data")

_Row = dict[str, str]


class ClaimResponse(BaseModel):
    """Claim of a study with the verdict in the latest report."""

    key: str
    claim: str
    """Claim in words."""
    source: str
    """Source of the claim, such as a table of the paper."""
    threshold: str
    """Claimed relation of the statistic to its threshold, such as "above 0"."""
    found: str
    """Measured value with its 95 % interval; empty without data."""
    adjusted_p: str
    """P-value, adjusted for multiple comparisons."""
    verdict: str
    """Verdict, such as "holds" or "does not hold"."""
    note: str


class ReportHeadline(BaseModel):
    """Verdicts of a report in short."""

    strongest: ClaimResponse | None
    """Strongest verdict on a published finding; None if no verdict is decided."""
    figure: str
    """URL of the figure that shows it, or of the first figure; empty without figures."""
    verdicts: dict[str, int]
    """Number of claims by verdict, most frequent first."""


_ROWS: FileCache[list[_Row]] = FileCache()


def read_claims(report: Path) -> list[ClaimResponse]:
    """Return the claims in a report, or an empty list if their file is missing or damaged."""
    return [_claim(row) for row in _rows(report)]


def read_headline(report: Path, study: Study) -> ReportHeadline | None:
    """Return the verdicts of a report in short, or None if there are no claims."""
    rows = _rows(report)
    if not rows:
        return None
    decided = [row for row in rows if row["verdict"] not in _UNDECIDED and _is_published(row)]
    strongest = min(decided, key=_order, default=None)
    wanted = _figures_by_claim(study).get(strongest["key"], "") if strongest else ""
    figures = sorted(path.name for path in report.glob("*.svg"))
    figure = next((each for each in [f"{wanted}.svg", *figures] if each in figures), "")
    return ReportHeadline(
        strongest=_claim(strongest) if strongest else None,
        figure=f"/reports/{report.parent.name}/{figure}" if figure else "",
        verdicts=dict(Counter(row["verdict"] for row in rows).most_common()),
    )


def _rows(report: Path) -> list[_Row]:
    """Return the rows of the file of claims, or an empty list if it is missing or damaged."""
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
        key=row["key"], claim=row["claim"], source=row["source"],
        threshold=row["claimed"], found=measured,
        adjusted_p=row["adjusted p"], verdict=row["verdict"], note=row["note"],
    )  # fmt: skip


def _is_published(row: _Row) -> bool:
    return not row["source"].startswith("zerolab")


def _order(row: _Row) -> tuple[bool, bool, float]:
    """Return a sort key, with the order of the strongest verdicts on the page of findings."""
    p = float(row["adjusted p"]) if row["adjusted p"] else 1.0
    return row["primary"] != "yes", row["verdict"] == "holds", p


@cache
def _figures_by_claim(study: Study) -> dict[str, str]:
    """Return the figure of each claim that names one, by the key of the claim."""
    return {claim.key: claim.figure for claim in claims_of(study) if claim.figure}
