"""Served laboratory, Chromium and page figures, for the drawing programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

_PROGRAMS = "chromium-headless-shell", "chromium", "chromium-browser"
_ROOT = Path(__file__).resolve().parents[1]
_SERVE = "import hex\nfrom zerolab.cli.main import main\nraise SystemExit(main())"
"""Server program that includes the game of examples/hex.py."""
_IMPORTED = os.pathsep.join(str(_ROOT / name) for name in ("src", "examples"))


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """Run `zerolab serve` in a folder; yield its address, without a slash at the end."""
    command = [sys.executable, "-c", _SERVE, "serve", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": _IMPORTED}
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        started = re.match(r"zerolab is running at (http\S+)/$", process.stdout.readline())
        assert started is not None, "the server has not started"
        yield started[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield headless Chromium, as installed on this machine."""
    path = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    with sync_playwright() as api:
        browser = api.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def write_figure(name: str, *screenshots: bytes) -> None:
    """Write docs/figures/web-NAME.png with screenshots of equal width, from top to bottom."""
    parts = [Image.open(BytesIO(each)) for each in screenshots]
    whole = Image.new("RGB", (parts[0].width, sum(each.height for each in parts)))
    top = 0
    for part in parts:
        whole.paste(part, (0, top))
        top += part.height
    path = _ROOT / "docs" / "figures" / f"web-{name}.png"
    whole.save(path, optimize=True)
    sys.stdout.write(f"{path.relative_to(_ROOT)}\n")
