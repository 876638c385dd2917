"""Requests that wait for a long computation leave the threads to other requests."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from httpx2 import ASGITransport, AsyncClient, Response

from zerolab.studies.execution import StudyExecution
from zerolab.studies.study import SCALES, registered_studies
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory, SharedComputations
from zerolab.web.routes import studies
from zerolab.web.routes.studies import StudyProgressResponse
from zerolab.web.server import make_app

SECONDS = 60
REQUESTS = 45  # more than the server has threads
FINDINGS = "/reports/findings"
PROGRESS = [
    f"/api/v1/studies/one?name={name}&scale={scale}"
    for name in registered_studies()
    for scale in SCALES
]
STATUS: dict[str, Any] = {
    **dict.fromkeys(StudyProgressResponse.model_fields, 0),
    "parts": [], "active_titles": [], "failures": {},
}  # fmt: skip


class Blocked:
    """A computation that ends when the test says so."""

    def __init__(self, result: object) -> None:
        self.calls = 0
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self._result = result

    def __call__(self, *arguments: object) -> object:
        self.calls += 1
        self.has_begun.set()
        assert self.may_end.wait(2 * SECONDS)
        return self._result


@pytest.mark.parametrize(
    ("paths", "computations"),
    [([FINDINGS] * REQUESTS, 1), (PROGRESS[:1] * REQUESTS, 1), (PROGRESS, len(PROGRESS))],
    ids=["findings", "one study", "all studies"],
)
def test_other_requests_are_answered_in_the_meantime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str], computations: int
) -> None:
    is_findings = paths[0] == FINDINGS
    blocked = Blocked(([], []) if is_findings else SimpleNamespace(status=lambda: STATUS))
    target: tuple[object, str] = (
        (studies, "judge_studies") if is_findings else (StudyExecution, "plan")
    )
    monkeypatch.setattr(*target, staticmethod(blocked))
    monkeypatch.setattr(studies, "_PROGRESS_SECONDS", 1e9)
    folders = Folders((tmp_path / "runs",), tmp_path / "studies", tmp_path / "tournaments")
    app = make_app(Laboratory(folders, workers=0))

    async def exchange() -> tuple[Response, list[Response]]:
        async with AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client:
            waiting = [asyncio.create_task(client.get(path)) for path in paths]
            try:
                assert await asyncio.to_thread(blocked.has_begun.wait, SECONDS)
                other = await asyncio.wait_for(client.get("/api/v1/runs"), SECONDS)
                waiting[0].cancel()  # the others still get their answers
                await asyncio.wait(waiting[:1])
            finally:
                blocked.may_end.set()
            return other, await asyncio.gather(*waiting[1:])

    other, answers = asyncio.run(exchange())
    assert (other.status_code, other.json()) == (200, [])
    assert {each.status_code for each in answers} == {200}
    assert len({each.text for each in answers}) == len(set(paths[1:]))
    assert blocked.calls == computations


def test_failed_computation_is_repeated() -> None:
    results = iter([ValueError("damaged"), "page"])

    def compute() -> str:
        result = next(results)
        if isinstance(result, ValueError):
            raise result
        return result

    async def compute_twice() -> list[str | BaseException]:
        shared: SharedComputations[str] = SharedComputations()
        both = [shared.result("key", compute) for _ in range(2)]
        failed = await asyncio.gather(*both, return_exceptions=True)
        return [*failed, await shared.result("key", compute)]

    first, second, page = asyncio.run(compute_twice())
    assert str(first) == str(second) == "damaged"
    assert page == "page"
