"""Fixtures for browser tests: Chromium, pages, and a server in a separate process.

All of them end with the tests of this package, because Playwright's event loop would occupy the
thread in which other tests start theirs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.served import PHONE, SECONDS, Server, open_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

playwright.expect.set_options(timeout=1000 * SECONDS)

# The shell has the same engine without a window, and needs half the processor time.
_PROGRAMS = "chromium-headless-shell", "chromium", "chromium-browser"
CHROMIUM = next(filter(None, map(shutil.which, _PROGRAMS)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip browser tests if Chromium is not installed."""
    if CHROMIUM is None:
        reason = "no Chromium: apt-get install chromium-headless-shell (make browser-test does it)"
        for item in items:
            if "browser" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the secrets of these servers, which other tests expect to be missing."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("browser-state")
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="package")
def server(tiny_folder: Path, state_folder: Path) -> Iterator[Server]:
    """A server for the folder with the tiny run."""
    process = Server(tiny_folder, "--allow-training")
    yield process
    process.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[playwright.Browser]:
    """Headless Chromium, whose event loop occupies the thread while it is open."""
    with playwright.sync_playwright() as api:
        chromium = api.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: playwright.Browser, server: Server) -> Iterator[playwright.Page]:
    """A page of the server that fails the test on script errors."""
    yield from _checked_page(browser, server)


@pytest.fixture
def phone(browser: playwright.Browser, server: Server) -> Iterator[playwright.Page]:
    """A page with the width of a phone, 360 pixels."""
    yield from _checked_page(browser, server, viewport=PHONE, has_touch=True)


def _checked_page(
    browser: playwright.Browser, server: Server, **options: object
) -> Iterator[playwright.Page]:
    errors: list[str] = []
    page = open_page(browser, server.address, errors, **options)
    yield page
    page.context.close()
    assert errors == []
