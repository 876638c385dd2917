"""Analyse page in a real browser: agents, edited positions and arrow keys."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect


def test_analysis_shows_visits_solution_and_tree(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves=0,3,1,3&agents={RUN}&agents=mcts:50&simulations=1000")
    expect(page.locator("#solution")).to_contain_text("Best: 2")
    expect(page.locator("#thoughts table")).to_have_count(2)
    expect(page.locator("#thoughts")).to_contain_text("wins")
    expect(page.locator("#board .note").first).to_be_visible()
    expect(page.locator("#tree li").first).to_contain_text("2 wins")
    node = page.locator("#tree button:enabled").first
    node.click()
    expect(page.locator("#tree li li").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("3. 1")
    # The network's values of all five positions, and the searches' values of two.
    expect(page.locator("#values circle")).to_have_count(5 + 2)


def test_positions_can_be_edited_and_moves_pasted(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    expect(page.locator("#board .target")).to_have_count(16)
    page.click("summary")
    page.fill("#pasted", "1. 0 3 2. 1 *")
    page.click("#paste")
    expect(page.locator("#moves button")).to_have_count(4)
    page.click("#edit")
    page.click("#clear")
    page.locator('.target[data-cell="4"]').click()
    expect(page.locator("#error")).to_contain_text("expected")  # one X piece and X to move
    page.select_option("#mover", "second")
    page.locator('.target[data-cell="4"]').click()
    page.locator('.target[data-cell="4"]').click()
    page.locator('.target[data-cell="12"]').click()
    page.click("#edit")
    expect(page).to_have_url(re.compile("board="))
    expect(page.locator("#status")).to_contain_text("O is to move")
    expect(page.locator("#board .piece")).to_have_count(1)
    page.reload()
    expect(page.locator("#board .piece")).to_have_count(1)


def test_agents_are_named_after_the_search_that_is_shown(page: Page) -> None:
    address = f"/analyse#game={GAME}&agents=mcts:100&agents=runs/none such"
    page.goto(f"{address}&simulations=1000")
    heading = page.locator(".agent-column h3").first
    expect(heading).to_have_text("MCTS, 1,000 playouts")
    expect(page.locator("#error")).to_contain_text("runs/none such")
    page.select_option("#simulations", "none")
    expect(heading).to_have_text("MCTS, 100 playouts")
    expect(page.locator(".agent-column").first).to_contain_text("analysed by mcts:100")


def test_arrow_keys_keep_an_edited_position(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves=0,1&agents=mcts:20")
    expect(page.locator("#board .piece")).to_have_count(2)
    page.click("summary")
    page.click("#edit")
    page.locator('.target[data-cell="4"]').click()
    page.keyboard.press("ArrowLeft")
    page.click("#begin")
    expect(page.locator("#board .piece")).to_have_count(3)
    page.click("#edit")
    expect(page.locator("#error")).to_contain_text("expected")  # a piece too many
    expect(page.locator("#edit")).to_have_text("Set up pieces")
    expect(page.locator("#board .piece")).to_have_count(2)


def test_arrow_keys_belong_to_the_page_or_to_the_board(page: Page) -> None:
    page.goto(f"/play#game={GAME}&o=person")
    page.locator('.target[data-cell="13"]').click()
    expect(page.locator("#board .piece")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page.locator('.target[data-cell="14"]')).to_be_focused()
    page.goto(f"/analyse#game={GAME}&moves=0,1&agents=mcts:20")
    page.locator('.target[data-cell="2"]').click()
    expect(page.locator("#board .piece")).to_have_count(3)
    page.keyboard.press("f")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#board .piece")).to_have_count(2)


def test_change_of_game_ends_editing(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    expect(page.locator("#board .target")).to_have_count(16)
    page.click("summary")
    page.click("#edit")
    page.select_option("#game select", "othello")
    expect(page.locator("#board .target")).to_have_count(36)
    expect(page.locator("#edit")).to_have_text("Set up pieces")
    expect(page.locator("#board .piece")).to_have_count(4)
