"""Class in a browser: pupils enter agents, the teacher plays, the wall shows the standings."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, expect

from browser.audits import fits_phone, serious_findings
from browser.served import PHONE, Server, open_page

GAME = "gobang:3x3:3"


class Group:
    """A server with a class of three pupils, and the links of its members."""

    def __init__(self, folder: Path, browser: Browser, links: Path) -> None:
        names = folder / "names.txt"
        names.write_text("Ada\nBen\nZoë\n")
        self._options = ("--workers", "1", "--class", str(names), "--class-links", str(links))
        self.server = Server(folder, *self._options)
        self._browser = browser
        rows = (
            re.match(r"(\S+) +http://[^/]+(\S+)$", line) for line in links.read_text().splitlines()
        )
        self.links = {row[1]: row[2] for row in rows if row is not None}
        self.errors: list[str] = []
        self._pages: list[Page] = []

    def page(self, name: str, **options: object) -> Page:
        """Return a new page that has opened the link of a member."""
        page = open_page(self._browser, self.server.address, self.errors, **options)
        self._pages.append(page)
        page.goto(self.links[name])
        expect(page.locator("#content")).to_be_visible()
        return page

    def close(self) -> None:
        """Close all pages and stop the server."""
        for page in self._pages:
            page.context.close()
        self.server.stop()


@pytest.fixture(scope="module")
def group(
    tiny_folder: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Group]:
    """A class whose game is small."""
    made = Group(tiny_folder, browser, tmp_path_factory.mktemp("class") / "links.txt")
    yield made
    made.close()
    shutil.rmtree(tiny_folder / "runs" / ".server" / "class")
    assert made.errors == []


def _bring(page: Page, kind: str) -> None:
    page.select_option("#kind", kind)
    if kind != "random":
        page.locator("#playouts").fill("3")
    page.click("#bring")
    expect(page.locator("#agent")).to_contain_text(f"Your agent: {kind}")


def test_class_plays_and_survives_kill(group: Group) -> None:
    teacher = group.page("Teacher")
    change = {"game": GAME}
    assert teacher.request.post("/api/v1/class/manage/game", data=change).ok
    expect(teacher.locator("#game select")).to_have_value("gobang")
    expect(teacher.locator("#start")).to_be_disabled()
    ada = group.page("Ada", viewport=PHONE)
    expect(ada.locator("#greeting")).to_contain_text("Hello, Ada")
    assert "token" not in ada.url
    _bring(ada, "mcts")
    assert fits_phone(ada)
    assert serious_findings(ada) == []
    _bring(group.page("Zoë"), "random")
    expect(teacher.locator("#ready")).to_have_text("2 of 3 pupils have an agent.")
    assert serious_findings(teacher) == []
    teacher.fill("#openings", "1")
    teacher.click("#start")
    wall = group.page("Teacher")
    wall.goto("/wall")
    rows = wall.locator("#standings tbody tr")
    expect(rows).to_have_count(2)
    assert set(rows.locator("td:nth-child(2)").all_inner_texts()) == {"Ada", "Zoë"}
    expect(wall.locator("#latest li")).to_have_count(2)
    assert serious_findings(wall) == []
    expect(teacher.locator("#state")).to_contain_text("finished, 2 of 2 games")
    standings = wall.locator("#standings").inner_text()

    ada.get_by_role("link", name="View your games").click()
    expect(ada.locator("#game-title")).to_contain_text("Ada")
    expect(ada.locator("[data-game]")).to_have_count(2)

    group.server.kill()
    group.server.start()
    wall.reload()
    expect(rows).to_have_count(2)
    assert wall.locator("#standings").inner_text() == standings
    again = group.page("Ada")
    expect(again.locator("#agent")).to_contain_text("Your agent: mcts:3")


def test_wall_fits_phone_and_pupil_has_no_class_page(group: Group) -> None:
    phone = group.page("Ben", viewport=PHONE)
    phone.goto("/wall")
    expect(phone.locator("#content")).to_be_visible()
    assert fits_phone(phone)
    expect(phone.get_by_role("link", name="My agent")).to_be_visible()
    response = phone.goto("/class")
    assert response is not None
    assert response.status == 403


def test_streak_is_the_pupils_own(group: Group) -> None:
    page = group.page("Ben")
    page.goto(f"/puzzles#game={GAME}")
    record = '{"streak": 4, "best": 5, "right": 6, "wrong": 1, "seen": []}'
    page.evaluate("record => localStorage.setItem('zerolab-puzzles Ben', record)", record)
    page.reload()
    expect(page.locator("#streak")).to_have_text("4")
    page.goto(group.links["Ada"].replace("/pupil", "/puzzles"))
    expect(page.locator("#streak")).to_have_text("0")
