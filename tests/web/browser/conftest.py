"""A real browser, and a server in a separate process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import SECONDS, Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

playwright.expect.set_options(timeout=1000 * SECONDS)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests without a browser."""
    if CHROMIUM is None:
        reason = "no Chromium: apt-get install chromium (make browser-test does it)"
        for item in items:
            if "browser" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def server(place: Path) -> Iterator[Server]:
    """A server of the folder with the tiny run."""
    serving = Server(place, "--allow-training")
    yield serving
    serving.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    """Chromium, without a window; while it is open, its event loop is that of the thread."""
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: playwright.Browser, server: Server) -> Iterator[playwright.Page]:
    """A page at the server's address, in which no script may fail."""
    yield from _page(browser, server)


@pytest.fixture
def phone(browser: playwright.Browser, server: Server) -> Iterator[playwright.Page]:
    """The same on a phone of 360 pixels."""
    small = {"width": 360, "height": 740}
    yield from _page(browser, server, viewport=small, has_touch=True)


def _page(
    browser: playwright.Browser, server: Server, **options: object
) -> Iterator[playwright.Page]:
    context = browser.new_context(base_url=server.address, **options)
    context.set_default_timeout(1000 * SECONDS)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []
