"""Server in a separate process, and its pages."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # playwright may be missing
    from playwright.sync_api import Browser, Page

SECONDS = 180
"""Time limit for every wait, with a margin for busy machines."""

PHONE = {"width": 360, "height": 740}
"""Size of a phone's screen in pixels."""


class Server:
    """A `zerolab serve` process that keeps its port after a restart."""

    def __init__(self, folder: Path, *options: str, code: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._options = options
        self._code = code + "from zerolab.cli.main import main; raise SystemExit(main())"
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it responds."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._code, "serve", "--port", str(self.port), *self._options],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        assert self._process.stdout is not None
        assert self.address in self._process.stdout.readline()

    def stop(self) -> None:
        """Stop the server as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(SECONDS)

    def kill(self) -> None:
        """Kill the server, which then saves nothing."""
        self._process.kill()
        self._process.wait(SECONDS)


def open_page(browser: Browser, address: str, errors: list[str], **options: object) -> Page:
    """Return a new page of a server, in a new context.

    The texts of script errors are appended to `errors`. The context receives the options.
    """
    context = browser.new_context(base_url=address, **options)
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page


def intercept_requests(page: Page) -> None:
    """Prepare a new page for routes that are added after a page has been loaded.

    While the first route of a page is being added, its requests do not reach the route.
    """
    page.route("**/never", lambda route: route.abort())
