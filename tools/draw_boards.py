"""Draw the pages with boards in docs/figures: an analysis, a simulation and a game replayed.

Needs the packages playwright and zerolab[web], and Chromium. The script trains a tiny run in a
temporary folder and serves it, which takes about a minute.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from playwright.sync_api import Page, expect, sync_playwright

_FIGURES = Path(__file__).parents[1] / "docs" / "figures"
_COMMAND = "from zerolab.cli.main import main; raise SystemExit(main())"
_GAME = "connect_four:5x5"
_MOVES = "2,2,2,1,1,3"
_TIMEOUT = 120_000  # milliseconds for every wait, because the first search compiles

expect.set_options(timeout=_TIMEOUT)


class Figure(NamedTuple):
    """Screenshot of a page."""

    name: str
    address: str
    prepare: Callable[[Page], None]
    """Function that waits for the content and operates the page."""
    height: int = 1040
    theme: str = "light"


def main() -> None:
    """Draw all figures, or those named on the command line."""
    wanted = sys.argv[1:] or [each.name for each in _PAGES]
    with (
        tempfile.TemporaryDirectory() as folder,
        _server(Path(folder)) as address,
        sync_playwright() as api,
    ):
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        chromium = api.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for figure in _PAGES:
            if figure.name in wanted:
                _draw(chromium, address, figure)
        chromium.close()


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """Train a tiny run in a folder, serve it, and yield the address of the server."""
    train = ["train", _GAME, "--preset", "smoke", "--run", "runs/demo"]
    subprocess.run([sys.executable, "-c", _COMMAND, *train], cwd=folder, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    serve = [sys.executable, "-c", _COMMAND, "serve", "--port", port, "--workers", "1"]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the server responds now
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _draw(chromium: Any, address: str, figure: Figure) -> None:
    context = chromium.new_context(
        base_url=address,
        viewport={"width": 1280, "height": figure.height},
        color_scheme=figure.theme,
    )
    context.set_default_timeout(_TIMEOUT)
    page = context.new_page()
    page.goto(figure.address)
    figure.prepare(page)
    page.screenshot(path=_FIGURES / f"{figure.name}.png")
    context.close()


def _analysis(page: Page) -> None:
    page.check("#ranks")
    expect(page.locator("#solution")).to_contain_text("Best")
    expect(page.locator(".agent-column")).to_have_count(2)
    expect(page.locator("#values svg circle").nth(2)).to_be_visible()
    expect(page.locator("#board .rank")).not_to_have_count(0)


def _simulation(page: Page) -> None:
    expect(page.locator("#board .target")).not_to_have_count(0)
    page.fill("#simulation-number", "12")
    page.keyboard.press("Enter")
    expect(page.locator(".steps .step")).to_have_count(4)
    page.locator(".steps").evaluate("each => scrollTo(0, each.offsetTop - 20)")


def _replay(page: Page) -> None:
    expect(page.locator("#judging")).to_contain_text("are solved")
    page.keyboard.press("n")
    expect(page.locator(".timeline .mark").first).to_be_visible()


_ANALYSE = f"/analyse#game={_GAME}&moves={_MOVES}&simulations=1000"
_PAGES = (
    Figure("web-analyse", f"{_ANALYSE}&agents=runs/demo+mcts:1000", _analysis, height=1340),
    Figure("web-simulation", f"{_ANALYSE}&agents=runs/demo", _simulation, height=1100),
    Figure("web-replay", "/replay", _replay, theme="dark"),
)

if __name__ == "__main__":
    main()
