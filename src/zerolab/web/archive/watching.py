"""Watching runs: who looks at some is told when they have come further."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from zerolab.core.errors import UserError
from zerolab.store.run_folder import RunFolder
from zerolab.web.archive.remembered import Remembered
from zerolab.web.archive.run_views import ShownRun, shown_run
from zerolab.web.archive.runs import records_of, summary, watched

_LOOK_SECONDS = 0.5
_RECORDS: Remembered[tuple[int, str]] = Remembered()


class RunNews(BaseModel):
    """How far a run has come."""

    run: ShownRun
    records: int
    """Records of finished stages; where there are more than before, curves have grown."""
    latest: str
    """What the latest one says, in one line."""


async def watch(runs: Sequence[Path]) -> AsyncIterator[RunNews]:
    """Yield news of every run at once, and whenever it changes, as long as it is iterated."""
    former: dict[Path, RunNews] = {}
    while True:
        for path in runs:
            news = await asyncio.to_thread(_news, path)
            if former.get(path) != news:
                former[path] = news
                yield news
        await asyncio.sleep(_LOOK_SECONDS)


def _news(path: Path) -> RunNews:
    count, latest = _RECORDS.get(str(path), watched(path), lambda: _recorded(path))
    return RunNews(run=shown_run(summary(path)), records=count, latest=latest)


def _recorded(path: Path) -> tuple[int, str]:
    """Return how many records a run has, and what the latest says; a damaged run has none."""
    try:
        records = records_of(RunFolder.open(path))
    except UserError:
        return 0, ""
    return len(records), " ".join(records[-1].summary().split()) if records else ""
