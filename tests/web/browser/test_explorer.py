"""Values of the whole game and the search step by step in a real browser."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect

from browser.audits import fits_phone, serious_findings

MOVES = "0,3,1,3"
STEPS = ".steps .step"


def _open_explorer(page: Page, agent: str = RUN) -> None:
    page.goto(f"/analyse#game={GAME}&moves={MOVES}&agents={agent}&simulations=100")
    page.wait_for_selector("#board .target")


def test_chart_covers_whole_game_at_once(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves={MOVES}&agents={RUN}&simulations=100")
    # The network's values of all five positions, and the search's value of the last one.
    expect(page.locator("#values circle")).to_have_count(5 + 1)
    chart = page.locator("#values svg")
    # The chart is drawn again during the search, and `bounding_box` would not wait for that.
    box = chart.evaluate("chart => chart.getBoundingClientRect().toJSON()")
    chart.click(position={"x": 0.53 * box["width"], "y": 0.5 * box["height"]})
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("2. 3")


def test_chart_explains_agents_without_values(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves={MOVES}&agents=random")
    expect(page.locator("#values-note")).to_contain_text("does not estimate outcomes")


def test_values_are_requested_again_after_failure(page: Page) -> None:
    page.route("**/api/v1/values", lambda route: route.abort())
    page.goto(f"/analyse#game={GAME}&moves={MOVES}&agents={RUN}&simulations=100")
    expect(page.locator("#values-note")).to_have_text(re.compile(r"still running\?$"))
    page.unroute("**/api/v1/values")
    page.select_option("#seconds", "2")
    expect(page.locator("#values circle")).to_have_count(5 + 1)
    expect(page.locator("#values-note")).to_be_empty()


def test_one_simulation_is_shown_step_by_step(page: Page) -> None:
    _open_explorer(page)
    page.click("#simulation-next")
    expect(page.locator(f"{STEPS} h3").first).to_have_text("1. Selection")
    expect(page.locator(STEPS)).to_have_count(4)
    expect(page.locator("#board .overlay .shape")).to_have_count(1)  # the path is shown
    page.click("#simulation-hide")
    expect(page.locator("#board .overlay .shape")).to_have_count(0)
    expect(page.locator(STEPS)).to_have_count(4)
    page.click("#simulation-next")
    expect(page.locator("#simulation-number")).to_have_value("2")
    formula = page.locator(".formula").first.inner_text()
    numbers = re.search(
        r"= ([+\u2212][\d.]+) \+ ([\d.]+) · ([\d.]+) · √(\d+) / \(1 \+ (\d+)\) = ([+\u2212][\d.]+)",
        formula,
    )
    assert numbers is not None, formula
    q, c, prior, count, own, score = (
        float(each.replace("\u2212", "-")) for each in numbers.groups()
    )
    assert score == pytest.approx(q + c * prior * count**0.5 / (1 + own), abs=0.003)
    expect(page.locator("#simulation")).to_contain_text("Visits of the moves at the root")
    page.click("#simulation-back")
    expect(page.locator("#simulation-number")).to_have_value("1")
    assert serious_findings(page) == []
    page.keyboard.press("ArrowLeft")
    expect(page.locator(STEPS)).to_have_count(0)  # they belong to another position
    expect(page.locator("#board .overlay .shape")).to_have_count(0)


def test_other_searches_are_not_shown_step_by_step(page: Page) -> None:
    _open_explorer(page, "mcts:20")
    page.click("#simulation-next")
    expect(page.locator("#simulation-error")).to_contain_text("expected a run")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#simulation-error")).to_be_hidden()  # it was about another position


def test_explorer_fits_phone(phone: Page) -> None:
    _open_explorer(phone)
    phone.fill("#simulation-number", "30")
    phone.keyboard.press("Enter")
    expect(phone.locator(STEPS)).to_have_count(4)
    assert fits_phone(phone)
