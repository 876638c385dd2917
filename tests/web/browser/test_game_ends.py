"""End of a game on the Play page: the result, ways to continue, autoplay and sound."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect

from browser.audits import serious_findings

END = "#end"
MOVES = "#moves button"


def _play(page: Page, moves: str) -> None:
    """Click the moves of two people, one after the other."""
    for number, move in enumerate(moves.split(","), start=1):
        enabled = f'#board [data-move="{move}"]:is(.target[aria-disabled="false"], button)'
        page.locator(enabled).first.click()
        expect(page.locator(MOVES)).to_have_count(number + 1)


OTHELLO = "a2,a3,a4,c1,d1,a1,d3,d4,c4,d2,b1,b4"
FULL_BOARD = "a1,b1,c1,b2,a2,c2,b3,a3,c3"


@pytest.mark.parametrize(
    ("game", "moves", "result", "reason", "winning"),
    [
        ("connect_four:4x4:3", "0,3,1,3,2", "A person has won as X", "columns 0, 1, 2", 3),
        ("gobang:3x3:3", "a1,a2,b1,b2,c1", "A person has won as X", "highlighted: a1 b1 c1", 3),
        ("hex:3x3", "b1,a2,b2,a3,b3", "A person has won as X", "highlighted: b1 b2 b3", 3),
        ("gobang:3x3:3", FULL_BOARD, "The game is drawn", "Nobody has completed a line", 0),
        ("othello:4x4", OTHELLO, "The game is drawn", "X has 8 discs, O has 8", 0),
    ],
    ids=["connect_four", "gobang", "hex", "full_board", "othello"],
)
def test_whole_game_ends_with_panel(
    page: Page, game: str, moves: str, result: str, reason: str, winning: int
) -> None:
    page.goto(f"/play#game={game}&o=person")
    page.wait_for_selector("#board .target")
    expect(page.locator(END)).to_be_hidden()
    _play(page, moves)
    expect(page.locator(f"{END} h2")).to_contain_text(result)
    expect(page.locator(END)).to_contain_text(reason)
    expect(page.locator("#board .win")).to_have_count(winning)
    assert serious_findings(page) == []
    page.click("#rematch")
    expect(page.locator(END)).to_be_hidden()
    expect(page.locator(MOVES)).to_have_count(1)


WON = f"/play#game={GAME}&o=random&moves=0,3,1,3,2"


def test_sides_are_swapped_and_level_rises(page: Page) -> None:
    page.goto(WON)
    expect(page.locator(f"{END} h2")).to_have_text("You have won as X.")
    page.click("#swap")
    expect(page.locator("#game-title")).to_have_text("random moves (X) against You (O)")
    expect(page.locator("#board .piece")).to_have_count(1)  # the opponent moves first
    page.goto("about:blank")
    page.goto(WON)
    page.click("#stronger")
    expect(page.locator("#game-title")).to_contain_text("tiny, iteration")
    expect(page).to_have_url(re.compile(r"o=runs%2Ftiny%40\d%3Fsimulations%3D25"))


@pytest.mark.parametrize(
    ("thinking", "level"),
    [("", 400), ("simulations:25", 100), ("simulations:1600", None), ("seconds:2", None)],
)
def test_only_stronger_levels_are_offered(page: Page, thinking: str, level: int | None) -> None:
    """The best network searches with 100 simulations unless the game specifies otherwise."""
    page.goto(f"/play#game={GAME}&o={RUN}&moves=0,3,1,3,2&thinking={thinking}")
    expect(page.locator("#rematch")).to_be_visible()
    button = page.locator("#stronger")
    if level is None:
        expect(button).to_have_count(0)
    else:
        expect(button).to_have_text(
            re.compile(rf"Stronger level: tiny, iteration \d, simulations={level}$")
        )


def test_swap_focuses_board_before_agent_moves(page: Page) -> None:
    page.route("**/api/v1/move", lambda route: None)  # the agent never answers
    page.goto(WON)
    page.click("#swap")
    expect(page.locator("#status")).to_contain_text("is thinking")
    expect(page.locator('#board .target[tabindex="0"]')).to_be_focused()


def test_game_of_no_run_is_reviewed(page: Page) -> None:
    """X loses with its second move and resigns; no run contains the game."""
    page.goto(f"/play#game={GAME}&o=person&moves=0,1,0,2&resigned=first")
    expect(page.locator(f"{END} h2")).to_have_text("A person has won as O.")
    page.click("#review")
    expect(page).to_have_url(re.compile("/replay#game="))
    expect(page.locator("#judging")).to_contain_text("4 of 4 positions are solved")
    expect(page.locator("#status")).to_contain_text("X has resigned")
    expect(page.locator("#mistakes li")).not_to_have_count(0)
    expect(page.locator("#total")).to_contain_text("Games 1 to")  # the list is there too
    page.reload()
    expect(page.locator(MOVES)).to_have_count(5)


def test_two_agents_pause_and_step(page: Page) -> None:
    page.add_init_script("localStorage.setItem('zerolab-pace', '6000')")
    page.goto(f"/play#game={GAME}&x=random&o=random")
    expect(page.locator("#pace")).to_have_value("6000")
    page.click("#pause")
    page.click("#step")
    expect(page.locator(MOVES)).to_have_count(2)
    page.click("#step")
    expect(page.locator(MOVES)).to_have_count(3)
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    page.select_option("#pace", "0")
    page.click("#pause")
    expect(page.locator(END)).to_be_visible()
    expect(page.locator("#autoplay")).to_be_hidden()


def test_two_agents_continue_from_earlier_position(page: Page) -> None:
    page.add_init_script("localStorage.setItem('zerolab-pace', '6000')")
    page.goto(f"/play#game={GAME}&x=random&o=random&moves=0,1,2")
    expect(page.locator("#autoplay")).to_be_visible()
    page.click("#undo")
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("2. 1")
    page.select_option("#pace", "0")
    page.click("#pause")  # resumes, because going back has paused the game
    expect(page.locator(END)).to_be_visible()


def test_sound_is_off_at_first_and_remembered(page: Page) -> None:
    page.add_init_script(
        "window.tones = 0; const start = OscillatorNode.prototype.start;"
        "OscillatorNode.prototype.start = function (at)"
        " { window.tones += 1; start.call(this, at); }"
    )
    page.goto(f"/play#game={GAME}&o=person")
    _play(page, "0")
    assert page.evaluate("tones") == 0
    page.check("#sound")
    page.reload()
    expect(page.locator("#sound")).to_be_checked()
    page.locator('#board .target[data-move="1"]').first.click()
    expect(page.locator(MOVES)).to_have_count(3)
    page.wait_for_function("tones === 1")
