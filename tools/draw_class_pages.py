"""Draw docs/figures/web-puzzles.png and web-class.png: screenshots of pages of a new laboratory.

A class of eight pupils plays a tournament. The program needs Chromium and Playwright.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, Page, expect

from served_pages import chromium, served, write_figure

_GAME = "connect_four:5x5"
_AGENTS = {
    "Ada": "mcts:300", "Ben": "rave:100", "Cleo": "mcts:100", "Dora": "rhea:100",
    "Emil": "mcts:30", "Finn": "mcts:10", "Greta": "rave:20", "Hugo": "random",
}  # fmt: skip
_API = "/api/v1/class"
_SIZE = {"width": 1280, "height": 800}
_MILLISECONDS = 300_000


@contextmanager
def _served_class(folder: Path) -> Iterator[dict[str, str]]:
    """Serve a class in a folder; yield the links of its members."""
    (folder / "names.txt").write_text("\n".join(_AGENTS))
    with served(folder, "--class", "names.txt", "--class-links", "links.txt"):
        table = (folder / "links.txt").read_text()
        yield dict(re.findall(r"^(\S+) +(http\S+)$", table, re.MULTILINE))


def _open(browser: Browser, link: str) -> Page:
    page = browser.new_context(viewport=_SIZE, reduced_motion="reduce").new_page()
    page.set_default_timeout(_MILLISECONDS)
    page.goto(link)
    return page


def _draw_class(browser: Browser, links: dict[str, str]) -> None:
    """Let the pupils enter agents and play, and draw the wall page."""
    teacher = _open(browser, links["Teacher"])
    base = teacher.url.removesuffix("/class")
    teacher.request.post(f"{base}{_API}/manage/game", data={"game": _GAME})
    for name, spec in _AGENTS.items():
        kind, _, playouts = spec.partition(":")
        pupil = _open(browser, links[name])
        choice = {"kind": kind, "playouts": int(playouts or 1)}
        pupil.request.post(f"{base}{_API}/mine", data=choice)
    settings = {"game": _GAME, "games_per_pair": 4, "opening_plies": 2}
    teacher.request.post(f"{base}{_API}/manage/start", data=settings)
    teacher.goto(f"{base}/wall")
    expect(teacher.locator("#state")).to_contain_text("112 of 112", timeout=_MILLISECONDS)
    expect(teacher.locator("#standings tbody tr")).to_have_count(len(_AGENTS))
    write_figure("class", teacher.screenshot())


def _draw_puzzle(browser: Browser, link: str) -> None:
    """Solve the hardest puzzle and draw the end of its line."""
    page = _open(browser, link)
    base = page.url.removesuffix("/class")
    page.goto(f"{base}/puzzles#game={_GAME}")
    expect(page.locator("#stock")).to_have_text("40 puzzles.", timeout=_MILLISECONDS)
    listed = page.request.get(f"{base}/api/v1/puzzles", params={"game": _GAME}).json()
    hardest = max(listed["puzzles"], key=lambda each: each["grade"])["key"]
    page.goto("about:blank")
    page.goto(f"{base}/puzzles#game={_GAME}&puzzle={hardest}")
    expect(page.locator("#question")).to_contain_text("Find the only move")
    answer = {"game": _GAME, "key": hardest}
    for target in page.locator("#board .target[data-move]").all():
        move = target.get_attribute("data-move")
        verdict = page.request.post(f"{base}/api/v1/puzzles/answer", data={**answer, "move": move})
        if verdict.json()["is_right"]:
            target.click()
            break
    expect(page.locator("#verdict")).to_contain_text("Right")
    expect(page.locator("#moves button").last).to_have_attribute(
        "aria-current", "true", timeout=_MILLISECONDS
    )
    page.mouse.move(0, 0)
    page.set_viewport_size({"width": _SIZE["width"], "height": 940})  # the board column fits
    write_figure("puzzles", page.screenshot(full_page=True))


def main() -> None:
    """Draw both figures."""
    with TemporaryDirectory() as name, _served_class(Path(name)) as links, chromium() as browser:
        _draw_class(browser, links)
        _draw_puzzle(browser, links["Teacher"])


if __name__ == "__main__":
    main()
