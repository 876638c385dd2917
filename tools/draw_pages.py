"""Draw figures of the laboratory's pages: docs/figures/web-NAME.png, by default all of them.

Usage: python tools/draw_pages.py FOLDER [NAME ...]

NAME is one of analyse, boards, phone, replay, run, simulation. FOLDER contains a trained run in
runs/demo, as created by

    zerolab train connect_four:6x7 --preset mini --run runs/demo

The program needs Chromium and Playwright.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from served_pages import chromium, served, write_figure

RUN = "runs/demo"
SECONDS = 180

_ALL_SEARCHED = """() => [...document.querySelectorAll(".agent-column")].every((column) =>
  [...column.querySelectorAll("td:nth-child(2)")].reduce(
    (sum, cell) => sum + parseInt(cell.textContent.replace(",", "")), 0) >= 900)"""
"""Condition that both agents have nearly finished their searches."""
_ANALYSE = "/analyse#game=connect_four:6x7&moves=3,3,3,3,3,0,2,4&simulations=1000"
_BOARDS = (
    ("connect_four:6x7", "3,3,2,2,4,1,1,6,0,3,5"),
    ("othello:8x8", "f5,f6,e6,f4,e3,d2,c3"),
    ("gobang:7x7:5", "d3,c3,d4,e4,d5,e5,d6,e6,d7"),
    ("hex:5x5", "d1,c1,c2,d2,c3,b3,c4,a4,b5"),
)
_SHOW_BOARDS = """async (games) => {
    const { Board } = await import("/static/lib/board.js");
    const { post } = await import("/static/lib/api.js");
    const main = document.querySelector("main");
    const boards = document.createElement("div");
    Object.assign(boards.style, {
        display: "flex", position: "fixed", inset: 0, zIndex: 99, alignItems: "center",
        background: "var(--paper)", gap: "24px", padding: "12px",
    });
    main.replaceChildren(boards);
    for (const [game, moves] of games) {
        const host = document.createElement("div");
        host.style.setProperty("--around", "2rem");
        boards.append(host);
        const position = await post("/position", { game, moves: moves.split(",") });
        new Board(host).show(position, { isActive: false });
        for (const each of host.children) each.style.display = each.tagName === "svg" ? "" : "none";
    }
}"""


def draw_run(page: Page) -> None:
    """Show the page of a run, with the cursor in the first chart."""
    page.goto(f"/run#run={RUN}")
    page.locator("#curves [role=slider]").first.press("ArrowLeft")
    page.evaluate("scrollTo(0, 0)")


def draw_replay(page: Page) -> None:
    """Show the first mistake of a game, judged by the solver and the run's agent."""
    page.goto("/replay")
    expect(page.locator("#judging")).to_contain_text("are solved")
    page.keyboard.press("n")
    expect(page.locator(".timeline .mark").first).to_be_visible()


def draw_analyse(page: Page) -> None:
    """Show two agents' analyses of a position that the solver can solve."""
    page.goto(f"{_ANALYSE}&agents={RUN}&agents=mcts:1000")
    page.check("#ranks")
    expect(page.locator("#solution")).to_contain_text("Under perfect play")
    expect(page.locator(".agent-column")).to_have_count(2)
    expect(page.locator("#board .rank")).not_to_have_count(0)
    page.wait_for_function(_ALL_SEARCHED)


def draw_simulation(page: Page) -> None:
    """Show a simulation of a search with all its numbers."""
    page.goto(f"{_ANALYSE}&agents={RUN}")
    expect(page.locator("#board .target")).not_to_have_count(0)
    page.fill("#simulation-number", "12")
    page.keyboard.press("Enter")
    expect(page.locator(".steps .step")).not_to_have_count(0)
    page.locator(".steps").evaluate("each => scrollTo(0, each.offsetTop - 20)")


def draw_phone(page: Page) -> None:
    """Show the Play page in the middle of a game."""
    page.goto("/play#game=connect_four:6x7&moves=3,3,2,4,2,2,1,0&o=person")
    expect(page.locator("#board .piece").nth(7)).to_be_visible()


def draw_boards(page: Page) -> None:
    """Show a board for each kind of drawing."""
    page.goto("/glossary")
    page.evaluate(_SHOW_BOARDS, [list(each) for each in _BOARDS])


DRAWINGS: dict[str, tuple[Callable[[Page], None], int, int, Sequence[str]]] = {
    "analyse": (draw_analyse, 1280, 920, ["light"]),
    "boards": (draw_boards, 1280, 323, ["light", "dark"]),
    "phone": (draw_phone, 360, 640, ["light"]),
    "replay": (draw_replay, 1280, 1100, ["dark"]),
    "run": (draw_run, 1200, 960, ["light"]),
    "simulation": (draw_simulation, 1280, 1100, ["light"]),
}
"""Function, width and height in pixels, and themes from top to bottom, by name."""


def draw(browser: Browser, address: str, name: str) -> None:
    """Draw a figure and write it to docs/figures."""
    show, width, height, themes = DRAWINGS[name]
    screenshots = []
    for theme in themes:
        context = browser.new_context(
            base_url=address,
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
        )
        context.set_default_timeout(1000 * SECONDS)
        page = context.new_page()
        show(page)
        page.wait_for_load_state("networkidle")
        screenshots.append(page.screenshot())
        context.close()
    write_figure(name, *screenshots)


def main(folder: str, *names: str) -> None:
    """Draw all figures, or those named."""
    expect.set_options(timeout=1000 * SECONDS)
    with served(Path(folder), "--allow-training") as address, chromium() as browser:
        for name in names or DRAWINGS:
            draw(browser, address, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
