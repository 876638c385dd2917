"""Replay in a real browser: the list, the timeline, and better moves for mistakes."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect

from browser.audits import fits_phone, serious_findings
from browser.served import intercept_requests
from zerolab.oracles.solver import solve_position
from zerolab.rules.position import Position

MOVES = "0,0,3"  # 3 turns a win for X into a loss
ADDRESS = f"/replay#game={GAME}&moves={MOVES}"
CURRENT = '#moves [aria-current="true"]'


def _scores(moves: str) -> dict[str, int]:
    position = Position.start(GAME)
    for move in moves.split(","):
        position = position.play(move)
    return solve_position(position).move_values


def test_latest_decisive_game_is_open(page: Page) -> None:
    page.goto(f"/replay#source={RUN}")
    shown = page.locator("#games tr.shown")
    expect(shown).to_have_count(1)
    expect(shown).to_contain_text(re.compile("X won|O won"))
    results = page.locator("#games tbody td:nth-child(6)").all_inner_texts()
    first = next(index for index, result in enumerate(results) if re.match("[XO] won$", result))
    key = page.locator("#games tbody tr").nth(first).locator("button")
    expect(key).to_have_attribute("aria-pressed", "true")


def test_rows_are_selected_with_arrow_keys(page: Page) -> None:
    page.goto(f"/replay#source={RUN}")
    rows = page.locator("#games tbody tr")
    expect(page.locator("#games tr.shown")).to_have_count(1)
    rows.nth(2).locator("td").nth(2).click()
    expect(rows.nth(2)).to_have_class("shown")
    rows.nth(2).locator("button").focus()
    page.keyboard.press("ArrowDown")
    expect(rows.nth(3)).to_have_class("shown")
    expect(rows.nth(3).locator("button")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(rows.nth(2)).to_have_class("shown")


def test_game_stays_marked_after_paging(page: Page) -> None:
    page.goto(f"/replay#source={RUN}")
    shown = page.locator("#games tr.shown")
    expect(shown).to_have_count(1)
    key = shown.locator("button").get_attribute("data-game")
    page.click("#later")
    expect(page.locator("#total")).to_contain_text("Games 21 to")
    expect(shown).to_have_count(0)
    page.click("#earlier")
    expect(shown.locator("button")).to_have_attribute("data-game", str(key))


def test_list_of_games_is_legible_on_phones(phone: Page) -> None:
    phone.goto(f"/replay#source={RUN}")
    rows = phone.locator("#games tbody tr")
    expect(rows).to_have_count(20)
    cell = rows.first.locator("td").nth(1)
    heading = cell.evaluate("each => getComputedStyle(each, '::before').content")
    assert heading == '"iteration"'
    expect(cell).to_have_css("white-space", "normal")
    lines = rows.evaluate_all("all => all.map((each) => each.clientHeight / 22)")
    assert max(lines) < 6  # five lines of text and a margin
    assert fits_phone(phone)


def test_timeline_leads_to_mistake(page: Page) -> None:
    page.goto(ADDRESS)
    mistake = page.locator(".timeline .mistake")
    expect(mistake.last).to_have_attribute("title", re.compile(r"^3\. 3 loses"))
    mistake.last.click()
    expect(page.locator(CURRENT)).to_have_text("3. 3??")
    slider = page.get_by_role("slider", name="Timeline with mistakes")
    expect(slider).to_have_attribute("aria-valuetext", "Ply 3 of 3, a mistake")
    slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuenow", "2")
    assert serious_findings(page) == []


def test_better_move_is_sought_and_judged(page: Page) -> None:
    """The expected scores are those of the solver, called by the test."""
    scores = _scores("0,0")
    best, worst = max(scores, key=scores.__getitem__), scores["3"]
    page.goto(f"{ADDRESS}&ply=3")
    expect(page.locator("#verdict")).to_contain_text("3. 3 loses")
    page.keyboard.press("b")
    expect(page.locator("#try")).to_contain_text("Find a better move for X than 3")
    expect(page.locator(CURRENT)).to_have_text("2. 0")
    for hidden in ("#judged", "#values-part", "#timeline", ".evaluation"):
        expect(page.locator(hidden)).to_be_hidden()
    assert scores[best] > worst
    for move, score in scores.items():
        page.locator(f'#board .target[data-move="{move}"][aria-disabled="false"]').first.click()
        answer = "Yes: " if score == scores[best] else "Better: " if score > worst else "No: "
        answer = "is the move played in the game" if move == "3" else answer
        expect(page.locator("#try")).to_contain_text(answer)
    assert serious_findings(page) == []
    page.click("#answer")
    expect(page.locator("#judged")).to_be_visible()
    expect(page.locator(CURRENT)).to_have_text("3. 3??")


def test_better_move_is_judged_after_reconnection(page: Page) -> None:
    """The verdict on the mistake stays while the new connection has sent none."""
    intercept_requests(page)
    page.add_init_script(
        "window.sockets = []; const Plain = WebSocket; window.WebSocket = class extends Plain {"
        " constructor(...all) { super(...all); sockets.push(this); this.addEventListener('open',"
        " () => (document.documentElement.dataset.connections = sockets.length)); }"
        " send(data) { if (this === sockets[0]) super.send(data); } };"
    )
    scores = _scores("0,0")
    page.goto(f"{ADDRESS}&ply=3")
    expect(page.locator("#verdict")).to_contain_text("3. 3 loses")
    page.keyboard.press("b")
    page.evaluate("sockets[0].close()")
    expect(page.locator("html")).to_have_attribute("data-connections", "2")
    best = page.locator(f'#board .target[data-move="{max(scores, key=scores.__getitem__)}"]').first
    page.route("**/api/v1/solution", lambda route: route.abort())
    best.click()
    expect(page.locator("#error")).to_contain_text("is not responding")
    expect(page.locator("#try")).to_contain_text("Find a better move")
    page.unroute("**/api/v1/solution")
    best.click()
    expect(page.locator("#try")).to_contain_text("Yes: ")
    expect(page.locator("#error")).to_be_hidden()


def test_resigned_game_has_a_winner_and_no_side_to_move(page: Page) -> None:
    page.goto("/replay#game=connect_four:4x4&moves=0,1&x=You&o=random&resigned=first&ply=2")
    expect(page.locator("#status")).to_have_text("X has resigned.")
    expect(page.locator('#game-title [data-side="O"]')).to_have_class("winner")


def test_keys_work_after_a_click_on_the_board(page: Page) -> None:
    page.goto(ADDRESS)
    expect(page.locator("#judging")).to_contain_text("mistake")
    page.locator("#board .target").first.click(force=True)  # the board is disabled
    page.keyboard.press("n")
    expect(page.locator(CURRENT)).to_have_text("1. 0?")
    page.keyboard.press("ArrowRight")
    expect(page.locator(CURRENT)).to_have_text("2. 0?")


@pytest.mark.parametrize("ply", ["-1", "1.5"])
def test_impossible_plies_and_offsets_are_corrected(page: Page, ply: str) -> None:
    page.goto(f"{ADDRESS}&ply={ply}&offset=1e3")
    expect(page.locator("#board .target").first).to_be_visible()
    expect(page.locator("#total")).to_contain_text("Games 1 to")
    expect(page.locator("#error")).to_be_hidden()
