"""Measure a class of thirty pupils with thirty browser pages and a tournament.

Each pupil opens the link, enters an agent in the form, and plays one move during the tournament.
Prints medians and maxima in seconds. It needs Chromium and Playwright.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from playwright.sync_api import Browser, Page, expect

from served_pages import chromium, served

_GAME = "connect_four:6x7"
_PUPILS = 30
_KINDS = ("mcts", "rave", "random")
_MILLISECONDS = 600_000


def _open(browser: Browser, link: str) -> Page:
    page = browser.new_context(reduced_motion="reduce").new_page()
    page.set_default_timeout(_MILLISECONDS)
    page.goto(link)
    expect(page.locator("#content")).to_be_visible()
    return page


def _bring(page: Page, number: int) -> None:
    """Enter an agent in the form."""
    kind = _KINDS[number % len(_KINDS)]
    page.select_option("#kind", kind)
    if kind != "random":
        page.locator("#playouts").fill(str(10 + number))
    page.click("#bring")
    expect(page.locator("#agent")).to_contain_text(f"Your agent: {kind}")


def _play_one_move(page: Page, base: str) -> None:
    """Play a move against an agent, and wait for its reply."""
    page.goto(f"{base}/play#game={_GAME}&o=mcts:50")
    page.locator("#board .target[data-move]").nth(3).click()
    expect(page.locator("#board .piece")).to_have_count(2)


def _measure(what: str, works: list[Callable[[], object]]) -> list[object]:
    """Call each function, and print how long the calls took."""
    seconds, results = [], []
    for work in works:
        begun = perf_counter()
        results.append(work())
        seconds.append(perf_counter() - begun)
    sys.stdout.write(f"{what}: median {statistics.median(seconds):.2f}, max {max(seconds):.2f} s\n")
    return results


def _run(browser: Browser, links: dict[str, str]) -> None:
    teacher = _open(browser, links.pop("Teacher"))
    base = teacher.url.removesuffix("/class")
    assert teacher.request.post(f"{base}/api/v1/class/manage/game", data={"game": _GAME}).ok
    pupils = _measure(
        "first page", [lambda link=link: _open(browser, link) for link in links.values()]
    )
    _measure("agent entered", [lambda i=i, p=p: _bring(p, i) for i, p in enumerate(pupils)])
    expect(teacher.locator("#ready")).to_have_text(f"{_PUPILS} of {_PUPILS} pupils have an agent.")
    begun = perf_counter()
    teacher.click("#start")
    _measure("move and reply", [lambda p=p: _play_one_move(p, base) for p in pupils])
    games = _PUPILS * (_PUPILS - 1)
    expect(teacher.locator("#state")).to_contain_text(f"finished, {games} of {games} games")
    sys.stdout.write(f"tournament of {games} games: {perf_counter() - begun:.0f} s\n")
    teacher.goto(f"{base}/wall")
    expect(teacher.locator("#standings tbody tr")).to_have_count(_PUPILS)


def main() -> None:
    """Serve a class in an empty folder and measure it."""
    expect.set_options(timeout=_MILLISECONDS)
    with TemporaryDirectory() as name, chromium() as browser:
        folder = Path(name)
        names = [f"Pupil{number}" for number in range(_PUPILS)]
        (folder / "names.txt").write_text("\n".join(names))
        with served(folder, "--class", "names.txt", "--class-links", "links.txt"):
            table = (folder / "links.txt").read_text()
            _run(browser, dict(re.findall(r"^(\S+) +(http\S+)$", table, re.MULTILINE)))


if __name__ == "__main__":
    main()
