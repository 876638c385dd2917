"""Contents of pages before scrolling: boards with their buttons, results, and the current page."""

from __future__ import annotations

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, Route, ViewportSize, expect

from browser.audits import serious_findings

LAPTOP: ViewportSize = {"width": 1280, "height": 720}
WON = "0,3,1,3,2"


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("play#game=connect_four:6x7&o=person&moves=3", ("#board > svg", "#undo", "#moves")),
        ("play#game=hex:5x5&o=person", ("#board > svg", "#undo", "#moves")),
        ("learn#game=othello:8x8", ("#board > svg", "#hint", "#strength")),
        ("analyse#game=connect_four:6x7&agents=mcts:20", ("#board > svg", "#end", "#thoughts tr")),
        (f"play#game={GAME}&o=person&moves={WON}", ("#board > svg", "#end h2", "#rematch")),
    ],
    ids=["play", "hex", "learn", "analyse", "end"],
)
def test_board_and_its_buttons_fit_window(page: Page, path: str, seen: tuple[str, ...]) -> None:
    page.set_viewport_size(LAPTOP)
    page.goto(f"/{path}")
    for selector in seen:
        expect(page.locator(selector).first).to_be_in_viewport(ratio=1)


def test_board_stays_in_sight_beside_long_column(page: Page) -> None:
    page.set_viewport_size(LAPTOP)
    page.goto(f"/analyse#game={GAME}&agents={RUN}&agents=mcts:20&simulations=100")
    expect(page.locator("#thoughts table")).to_have_count(2)
    page.locator("#steps-title").evaluate("each => each.scrollIntoView({ block: 'center' })")
    expect(page.locator("#steps-title")).to_be_in_viewport()
    assert page.evaluate("scrollY") > 0
    expect(page.locator("#board > svg")).to_be_in_viewport(ratio=1)


def test_bar_stands_beside_frame_of_board(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    page.wait_for_selector("#board .back")
    bar, frame = (page.locator(each).bounding_box() for each in (".evaluation", "#board .back"))
    assert bar is not None and frame is not None
    assert bar["y"] == pytest.approx(frame["y"], abs=2)
    assert bar["height"] == pytest.approx(frame["height"], abs=3)
    assert bar["x"] + bar["width"] <= frame["x"]


def test_moves_precede_form_on_phones(phone: Page) -> None:
    phone.goto(f"/play#game={GAME}&o=person&moves=0,1")
    phone.wait_for_selector("#board .target")
    parts = ("#board", "#undo", "#moves", "#settings")
    boxes = [phone.locator(each).bounding_box() for each in parts]
    tops = [box["y"] for box in boxes if box is not None]
    assert len(tops) == len(parts) and tops == sorted(tops)
    expect(phone.locator("#thought-part")).to_be_hidden()  # no searches


def test_winner_is_named_with_colour(page: Page) -> None:
    page.goto(f"/play#game={GAME}&o=person&moves={WON}")
    expect(page.locator("#game-title .winner")).to_have_text("A person (X)")
    expect(page.locator("#game-title .winner .red_and_yellow .of-first")).to_have_count(1)
    page.goto("about:blank")
    page.goto(f"/play#game={GAME}&o=person&moves=0,3&resigned=first")
    expect(page.locator("#game-title .winner")).to_have_text("A person (O)")


@pytest.mark.parametrize(
    ("path", "parent"),
    [(f"run#run={RUN}", "Runs"), (f"compare#run={RUN}", "Runs"),
     ("study#name=warm-start&scale=smoke", "Studies")],
)  # fmt: skip
def test_parent_is_lit_on_pages_without_link(page: Page, path: str, parent: str) -> None:
    page.goto(f"/{path}")
    expect(page.locator("nav [aria-current='true']")).to_have_text(parent)


def test_page_says_that_it_is_loading(page: Page) -> None:
    shown = "each => getComputedStyle(each, '::after').content"
    page.route("**/api/v1/runs/one?*", lambda route: None)  # the server never answers
    with page.expect_request("**/api/v1/runs/one?*"):
        page.goto(f"/run#run={RUN}")
    assert page.locator("main").evaluate(shown) == '"Loading…"'
    expect(page.locator("h1")).to_have_text(RUN)
    page.unroute("**/api/v1/runs/one?*")
    page.reload()
    expect(page.locator("#facts .headline").first).to_be_visible()
    assert page.locator("main").evaluate(shown) == "none"


def test_damaged_tournaments_are_apart(page: Page) -> None:
    sound = {
        "tournament": "/far/away/study-mini/tournaments/sound", "winner": "mcts:50", "game": GAME,
        "player_count": 2, "stored_games": 4, "planned_games": 4, "is_running": False,
        "problem": "", "latest_progress_time": 1_700_000_000.0,
    }  # fmt: skip
    damaged = {**sound, "tournament": "tournaments/bad", "problem": "no games", "winner": ""}

    def answer(route: Route) -> None:
        route.fulfill(json=[damaged, sound])

    page.route("**/api/v1/tournaments", answer)
    page.goto("/tournaments")
    rows = page.locator("#tournaments tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("…/study-mini/tournaments/sound")
    expect(page.locator("#damaged")).to_be_hidden()
    page.get_by_text("1 damaged").click()
    expect(page.locator("#damaged tbody tr")).to_have_text("tournaments/badno games")
    assert serious_findings(page) == []
