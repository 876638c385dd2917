"""Evaluation bars, colours of moves, best lines and agents side by side in a real browser."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect

from browser.audits import fits_phone, serious_findings
from zerolab.oracles.solver import solve_position
from zerolab.rules.position import Position

WON = ["0", "3", "1", "3"]  # X completes a line with 2
BAR = ".evaluation"
PIXELS = "(each) => parseFloat(getComputedStyle(each).fontSize) * each.getScreenCTM().a"
"""Height of a text on the screen."""


def _address(moves: list[str], agents: str = "mcts:100") -> str:
    return f"/analyse#game={GAME}&moves={','.join(moves)}&agents={agents}&simulations=100"


def test_bar_tells_result_under_perfect_play(page: Page) -> None:
    page.goto(_address(WON))
    expect(page.locator(BAR)).to_have_attribute("aria-valuetext", "X wins under perfect play.")
    share = page.locator(f"{BAR} .share")
    expect(share).to_have_attribute("style", re.compile("100%"))
    page.uncheck("#solve")
    expect(page.locator(BAR)).to_have_attribute("aria-valuetext", re.compile("Value for X: .*MCTS"))
    page.locator('#board .target[data-move="2"]').first.click()
    expect(page.locator(BAR)).to_have_attribute("aria-valuetext", "X wins.")


def test_moves_are_coloured_by_exact_results(page: Page) -> None:
    """The expected scores are those of the solver, called by the test."""
    position = Position.start(GAME)
    for move in WON:
        position = position.play(move)
    scores = solve_position(position).move_values
    page.goto(_address(WON))
    expect(page.locator(".hint-legend")).to_contain_text("W: wins under perfect play")
    for kind, sign in (("wins", 1), ("draws", 0), ("loses", -1)):
        count = sum((score > 0) - (score < 0) == sign for score in scores.values())
        expect(page.locator(f"#board .heat.{kind}")).to_have_count(count)
    swatches = page.evaluate(  # in one step, because the page replaces the legend
        "[...document.querySelectorAll('.hint-legend .tone')].map("
        "(each) => parseFloat(getComputedStyle(each, '::before').width))"
    )
    assert len(swatches) == 3 and min(swatches) >= 12
    page.check("#ranks")
    expect(page.locator("#board .rank")).to_have_count(min(5, len(scores)))
    assert serious_findings(page) == []


def test_plates_do_not_wait_for_falling_piece(page: Page) -> None:
    page.goto(_address(WON[:-1]))
    page.locator('#board .target[data-move="3"]').first.click()
    plate = page.locator("#board .falling .heat.wins").first
    expect(plate).to_be_visible()
    expect(plate).to_have_css("animation-name", "none")


def test_strength_of_colour_follows_visits_on_request(page: Page) -> None:
    page.goto(_address(WON))
    plates = page.locator("#board .heat")
    expect(page.locator(".hint-legend")).to_contain_text("W: wins")
    expect(page.locator(".hint-legend")).to_contain_text("shares of the visits")  # of the search
    strengths = "all => all.map((each) => each.style.getPropertyValue('--share'))"
    assert set(plates.evaluate_all(strengths)) == {"100%"}
    page.check("#by-visits")
    expect(plates.first).to_be_visible()
    assert len(set(plates.evaluate_all(strengths))) > 1
    page.reload()
    expect(page.locator("#by-visits")).to_be_checked()


def test_best_line_is_shown_on_board_and_played(page: Page) -> None:
    page.goto(_address(["0"]))
    expect(page.locator("#solution")).to_contain_text("Best")  # the search has ended too
    line = page.locator(".best-line .moves button")
    expect(line.nth(2)).to_be_visible()
    pieces = page.locator("#board .overlay .shape")
    line.nth(1).hover()
    expect(pieces).to_have_count(2)
    expect(page.locator("#board .overlay .note")).to_have_text(["1", "2"])
    expect(page.locator("#board .overlay .second")).to_have_count(1)  # O moves first, then X
    page.mouse.move(0, 0)
    expect(pieces).to_have_count(0)
    line.nth(2).focus()
    expect(pieces).to_have_count(3)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Play these moves").focus()
    expect(pieces).to_have_count(3)  # chosen
    page.keyboard.press("Enter")
    expect(page.locator("#moves button")).to_have_count(5)
    expect(pieces).to_have_count(0)


def test_agents_search_side_by_side(page: Page) -> None:
    page.goto(_address(WON, f"{RUN}&agents=mcts:100"))
    columns = page.locator(".agent-column")
    expect(columns).to_have_count(2)
    expect(page.locator(".agent-column .board .heat")).not_to_have_count(0)
    left, right = (columns.nth(number).bounding_box() for number in range(2))
    assert left is not None and right is not None
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
    columns.nth(1).locator('.target[data-move="2"]').first.click()
    expect(page.locator("#status")).to_contain_text("X has won")


def test_agents_are_stacked_on_phones(phone: Page) -> None:
    phone.goto(_address(WON, f"{RUN}&agents=mcts:100"))
    columns = phone.locator(".agent-column")
    expect(columns).to_have_count(2)
    above, below = (columns.nth(number).bounding_box() for number in range(2))
    assert above is not None and below is not None
    assert above["x"] == below["x"] and above["y"] < below["y"]
    assert fits_phone(phone)


def test_text_of_hints_has_twelve_pixels_on_phones(phone: Page) -> None:
    phone.goto("/analyse#game=othello:8x8&agents=mcts:20&simulations=100")
    phone.uncheck("#solve")
    phone.wait_for_function(  # the search replaces the notes
        f"""() => {{
        const notes = [...document.querySelectorAll("#board .note")];
        const fit = (each) => ({PIXELS})(each) >= 11.9 && each.getBBox().width <= 1;  // of its cell
        return notes.length > 0 && notes.every(fit);
        }}"""
    )


def test_boards_of_agents_are_legible_and_flip(page: Page) -> None:
    page.goto("/analyse#game=othello:8x8&agents=mcts:20&agents=mcts:50&simulations=100")
    page.uncheck("#solve")
    column = page.locator(".agent-column").first
    expect(column.locator(".heat")).not_to_have_count(0)
    expect(page.locator("#legend")).to_contain_text("shares of the visits")
    for name in ("label", "letter"):
        expect(column.locator(f".board .{name}").first).to_be_hidden()
    column.locator(".best-line .moves button").first.hover()
    expect(column.locator(".overlay .note")).to_have_count(1)
    page.wait_for_function(
        f"""() => {{
        const note = document.querySelector(".agent-column .overlay .note");
        return note && ({PIXELS})(note) >= 11.9;
        }}"""
    )
    first = column.locator(".target").first
    expect(first).to_have_attribute("data-cell", "0")
    page.click("#flip")
    expect(first).to_have_attribute("data-cell", "63")


def test_lesson_shows_who_is_ahead_on_request(page: Page) -> None:
    page.goto(f"/learn#game={GAME}")
    page.wait_for_selector("#board .target")
    expect(page.locator(BAR)).to_be_hidden()
    frame, board = (page.locator(each).bounding_box() for each in (".with-evaluation", "#board"))
    assert frame is not None and board is not None
    assert board["x"] == frame["x"]  # nothing is beside the board
    page.check("#ahead")
    expect(page.locator(BAR)).to_have_attribute(
        "aria-valuetext", re.compile("(X|O) wins under perfect play|A draw under perfect play")
    )
