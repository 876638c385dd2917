"""Puzzles page: a right and a wrong answer, the streak, and accessibility."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, Route, expect

from browser.audits import fits_phone, serious_findings

GAME = "gobang:3x3:3"
MOVE = "#board .target[data-move]"
STREAK = "#streak"


def _open_puzzle(page: Page) -> tuple[str, list[str]]:
    """Wait for a puzzle; return its answer and the other moves, according to the solver."""
    expect(page).to_have_url(re.compile("puzzle=[0-9a-f]{16}"))
    expect(page.locator("#question")).to_contain_text("Find the only move")
    key = page.url.split("puzzle=")[1]
    params = {"game": GAME, "key": key}
    shown = page.request.get("/api/v1/puzzles/one", params=params).json()
    position = {"game": GAME, "moves": shown["position"]["moves"]}
    solved = page.request.post("/api/v1/solution", data={"position": position}).json()
    (answer,) = (
        move for move, score in solved["scores"].items()
        if score > 0 or (score == 0 and shown["goal"] == "draw")
    )  # fmt: skip
    return answer, [move for move in solved["scores"] if move != answer]


def _play(page: Page, move: str) -> None:
    page.locator(f'{MOVE}[data-move="{move}"]').click()


def test_right_answers_extend_streak_and_wrong_one_ends_it(page: Page) -> None:
    page.goto(f"/puzzles#game={GAME}")
    expect(page.locator(STREAK)).to_have_text("0")
    answer, _ = _open_puzzle(page)
    _play(page, answer)
    expect(page.locator("#verdict")).to_contain_text(f"Right: only {answer}")
    expect(page.locator(STREAK)).to_have_text("1")
    expect(page.locator("#retry")).to_be_hidden()
    before = page.url
    expect(page.locator("#next")).to_be_enabled()  # once a second puzzle has been made
    page.click("#next")
    expect(page).not_to_have_url(before)
    answer, others = _open_puzzle(page)
    _play(page, others[0])
    expect(page.locator("#verdict")).to_contain_text(f"Wrong: {others[0]}")
    expect(page.locator(STREAK)).to_have_text("0")
    expect(page.locator("#record")).to_contain_text("Longest: 1. Right 1, wrong 1.")
    page.click("#retry")
    _play(page, answer)
    expect(page.locator("#verdict")).to_contain_text(f"Right: only {answer}")
    expect(page.locator("#record")).to_contain_text("Right 1, wrong 1.")  # the second try is free
    page.reload()
    expect(page.locator("#record")).to_contain_text("Longest: 1. Right 1, wrong 1.")
    page.click("#to-analysis")
    expect(page).to_have_url(re.compile("/analyse#game=gobang"))


def test_level_without_puzzles_says_so(page: Page) -> None:
    def answer(route: Route) -> None:
        listed = route.fetch().json()
        puzzles = [{**each, "level": "easy"} for each in listed["puzzles"]]
        route.fulfill(json={**listed, "state": "complete", "puzzles": puzzles})

    page.goto(f"/puzzles#game={GAME}")
    _open_puzzle(page)
    page.route("**/api/v1/puzzles?*", answer)
    page.reload()
    _open_puzzle(page)
    page.select_option("#level", "hard")
    expect(page.locator("#question")).to_have_text("There are no hard puzzles for this game.")
    expect(page.locator("#next")).to_be_disabled()
    expect(page.locator("#board")).to_be_hidden()
    page.select_option("#level", "easy")
    _open_puzzle(page)


def test_puzzles_fit_phone_and_are_accessible(phone: Page) -> None:
    phone.goto(f"/puzzles#game={GAME}")
    _, others = _open_puzzle(phone)
    phone.locator(f'{MOVE}[data-move="{others[-1]}"]').tap()
    expect(phone.locator("#retry")).to_be_visible()
    assert fits_phone(phone)
    assert serious_findings(phone) == []
