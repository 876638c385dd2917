"""User actions while a page waits for the server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from tiny_laboratory import GAME

from browser.served import SECONDS, intercept_requests

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, Route, expect

MOVE = "#board .target[data-move]"


@pytest.fixture(autouse=True)
def _intercepted(page: Page) -> None:
    intercept_requests(page)


def _wait_until_active(page: Page) -> None:
    expect(page.locator('#board .target[aria-disabled="false"]').first).to_be_visible()


def _move_count(request: str) -> int:
    """Return the number of moves in a request for a position, an address and a JSON object."""
    return len(json.loads(request.partition(" ")[2])["moves"])


class Held:
    """Requests to one address, answered when the test says so."""

    def __init__(self, page: Page, pattern: str, is_held: Callable[[str], bool]) -> None:
        self._routes: list[Route] = []
        self._page = page
        page.route(pattern, lambda route: self._receive(route, is_held))

    def _receive(self, route: Route, is_held: Callable[[str], bool]) -> None:
        if is_held(f"{route.request.url} {route.request.post_data or ''}"):
            self._routes.append(route)
        else:
            route.continue_()

    def wait(self) -> None:
        """Wait until the page has sent a request."""
        deadline = time.monotonic() + SECONDS
        while not self._routes:
            assert time.monotonic() < deadline, f"no request within {SECONDS} s"
            self._page.wait_for_timeout(10)

    def abort(self) -> None:
        """Let the first request fail."""
        self.wait()
        self._routes.pop(0).abort()
        self._page.wait_for_timeout(100)

    def answer(self) -> None:
        """Answer the first request."""
        self.wait()
        route = self._routes.pop(0)
        with self._page.expect_response(route.request.url):
            route.continue_()
        self._page.wait_for_timeout(300)  # longer than drawing is delayed


def test_double_click_makes_one_move(page: Page) -> None:
    page.goto("/play#game=gobang:3x3:3&o=person")
    page.locator(MOVE).first.dblclick()
    expect(page.locator("#moves button")).to_have_count(2)
    _wait_until_active(page)
    expect(page.locator("#error")).to_be_hidden()
    page.reload()
    expect(page.locator("#moves button")).to_have_count(2)


def test_slow_click_makes_move_during_analysis(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:100000&simulations=100000")
    expect(page.locator("#thoughts table")).to_have_count(1)
    for number in range(3):
        page.locator(f'{MOVE}[data-move="{number}"]').first.hover()
        page.mouse.down()
        page.wait_for_timeout(300)
        page.mouse.up()
        expect(page.locator("#moves button")).to_have_count(number + 2)


def test_focus_stays_during_analysis(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves=0,1&agents=mcts:100000&simulations=100000")
    expect(page.locator("#thoughts table")).to_have_count(1)
    page.locator("#moves button").nth(1).focus()
    page.wait_for_timeout(600)
    expect(page.locator("#moves button").nth(1)).to_be_focused()


@pytest.mark.parametrize("path", ["play", "learn"])
def test_failed_move_can_be_repeated(page: Page, path: str) -> None:
    page.goto(f"/{path}#game={GAME}&o=person")
    _wait_until_active(page)
    page.route("**/api/v1/*", lambda route: route.abort())
    page.locator(MOVE).first.click()
    expect(page.locator("#error")).to_contain_text("the server is not responding")
    _wait_until_active(page)
    page.unroute("**/api/v1/*")
    page.locator(MOVE).first.click()
    expect(page.locator("#board .piece").first).to_be_visible()
    expect(page.locator("#error")).to_be_hidden()


def test_hint_for_earlier_position_is_not_shown(page: Page) -> None:
    page.goto(f"/learn#game={GAME}")
    page.uncheck("#warn")
    held = Held(page, "**/api/v1/solution", lambda text: True)
    page.click("#hint")
    held.wait()
    page.locator(MOVE).first.click()
    expect(page.locator("#board .piece")).to_have_count(2)  # the opponent has moved
    held.answer()
    expect(page.locator("#advice")).to_have_text("")
    expect(page.locator("#board .note")).to_have_count(0)


def test_address_follows_position_and_agents(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20&ply=abc")
    expect(page.locator("#thoughts table")).to_have_count(1)
    page.click("#add")
    expect(page).to_have_url(re.compile(r"agents=mcts%3A20&agents="))
    page.goto(f"/play#game={GAME}&o=person&moves=0,1")
    expect(page.locator("#moves button")).to_have_count(3)
    page.evaluate(f"location.hash = 'game={GAME}&o=person&moves=0,1,2'")
    expect(page.locator("#moves button")).to_have_count(4)


def test_agent_without_search_has_empty_tree(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=random")
    expect(page.locator("#thoughts table")).to_have_count(1)
    page.wait_for_timeout(300)
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#tree")).to_contain_text("Nothing searched")


def test_final_tree_has_all_simulations(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20&simulations=1000")
    expect(page.locator("#tree li").first).to_be_visible()
    page.wait_for_function(
        """() => {
            const nodes = [...document.querySelectorAll("#tree li code")];
            const visits = nodes.map((each) => Number(each.innerText.match(/N (\\d+)/)[1]));
            return [999, 1000].includes(visits.reduce((sum, each) => sum + each, 0));
        }"""
    )


def test_double_click_on_analysed_board_makes_one_move(page: Page) -> None:
    page.goto("/analyse#game=gobang:3x3:3&agents=mcts:20")
    page.locator(MOVE).first.dblclick()
    expect(page.locator("#board .piece")).to_have_count(1)
    expect(page.locator("#moves button")).to_have_count(2)
    expect(page.locator("#error")).to_be_hidden()


def test_rejected_and_late_positions_change_nothing(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves=0,1,2&ply=1&agents=mcts:20")
    expect(page.locator("#board .piece")).to_have_count(1)
    held = Held(page, "**/api/v1/position", lambda text: '"moves":["0","1"]' in text)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # counts from the requested position
    expect(page.locator("#board .piece")).to_have_count(3)
    held.answer()
    expect(page.locator("#board .piece")).to_have_count(3)
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("3. 2")
    page.unroute("**/api/v1/position")
    page.route("**/api/v1/position", lambda route: route.abort())
    page.locator(f'{MOVE}[data-move="3"]').first.click()
    expect(page.locator("#error")).to_contain_text("the server is not responding")
    expect(page.locator("#moves button")).to_have_count(4)
    page.unroute("**/api/v1/position")
    page.locator(f'{MOVE}[data-move="3"]').first.click()
    expect(page.locator("#board .piece")).to_have_count(4)


@pytest.mark.parametrize("path", ["analyse", "learn"])
def test_latest_of_two_chosen_games_is_shown(page: Page, path: str) -> None:
    page.goto(f"/{path}#game={GAME}")
    expect(page.locator("#board .target")).to_have_count(16)
    held = Held(page, "**/api/v1/agents?*", lambda text: "othello" in text)
    page.select_option("#game select", "othello")
    page.select_option("#game select", "gobang")
    expect(page).to_have_url(re.compile("game=gobang"))
    held.answer()
    expect(page).to_have_url(re.compile("game=gobang"))
    expect(page.locator("#error")).to_be_hidden()


@pytest.mark.parametrize(
    "address", [f"play#game={GAME}&x=random&o=person", f"learn#game={GAME}"], ids=["play", "learn"]
)
def test_game_continues_after_an_outage(page: Page, address: str) -> None:
    page.route("**/api/v1/move", lambda route: route.abort())
    page.goto(f"/{address}")
    if address.startswith("learn"):
        page.locator(MOVE).first.click()
    expect(page.locator("#error")).to_contain_text("will continue once the server responds")
    page.route("**/api/v1/position", lambda route: route.abort())
    with page.expect_request("**/api/v1/position"):  # the first attempt to continue fails
        pass
    page.unroute("**/api/v1/position")
    page.unroute("**/api/v1/move")
    _wait_until_active(page)
    expect(page.locator("#board .piece")).to_have_count(2 if address.startswith("learn") else 1)
    expect(page.locator("#error")).to_be_hidden()


def test_study_page_shows_the_scale_chosen_last(page: Page) -> None:
    page.goto("/study#name=table-5.1&scale=smoke")
    expect(page.locator("main")).to_contain_text("zerolab study table-5.1 --scale smoke")
    held = Held(page, "**/api/v1/studies/one?*", lambda text: "paper" in text)
    page.select_option("#scale", "paper")
    page.select_option("#scale", "mini")
    expect(page.locator("main")).to_contain_text("zerolab study table-5.1")
    expect(page.locator("main")).not_to_contain_text("--scale smoke")
    held.answer()
    expect(page.locator("main")).not_to_contain_text("--scale paper")


def test_steps_before_the_first_position_keep_the_shared_game(page: Page) -> None:
    held = Held(page, "**/api/v1/position", lambda text: '"moves":["0","1","2"]' in text)
    page.goto(f"/analyse#game={GAME}&moves=0,1,2&agents=mcts:20")
    expect(page.locator("#agents select").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    held.answer()
    expect(page.locator("#moves button")).to_have_count(4)
    expect(page.locator("#board .piece")).to_have_count(3)


def test_impossible_line_in_the_address_shows_the_start(page: Page) -> None:
    held = Held(page, "**/api/v1/position", lambda text: '"9"' in text)
    page.goto(f"/analyse#game={GAME}&moves=0,9&agents=mcts:20")
    expect(page.locator("#agents select").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    held.answer()
    expect(page.locator("#error")).to_contain_text("not a legal move")
    expect(page.locator("#board .target")).to_have_count(16)
    expect(page.locator("#board .piece")).to_have_count(0)


def test_agents_of_a_game_left_in_the_meantime_are_not_offered(page: Page) -> None:
    held = Held(page, "**/api/v1/agents?*", lambda text: "connect_four" in text)
    page.goto(f"/analyse#game={GAME}&moves=0")
    page.select_option("#game select", "othello")
    expect(page.locator("#board .target")).to_have_count(36)
    held.answer()
    expect(page.locator("#board .target")).to_have_count(36)
    expect(page.locator("#agents option", has_text="tiny")).to_have_count(0)


def test_menu_follows_the_board_if_the_game_cannot_be_changed(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    expect(page.locator("#board .target")).to_have_count(16)
    page.route("**/api/v1/position", lambda route: route.abort())
    page.select_option("#game select", "othello")
    expect(page.locator("#error")).to_contain_text("the server is not responding")
    expect(page.locator("#game select")).to_have_value("connect_four")
    page.unroute("**/api/v1/position")
    page.select_option("#game select", "othello")
    expect(page.locator("#board .target")).to_have_count(36)


def test_move_on_the_old_board_cancels_a_change_of_game(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    expect(page.locator("#board .target")).to_have_count(16)
    held = Held(page, "**/api/v1/position", lambda text: "othello" in text)
    page.select_option("#game select", "othello")
    expect(page.locator("#game input").first).to_have_value("6")
    held.wait()  # the agents have arrived, but not the position
    page.locator(f'{MOVE}[data-move="0"]').first.click()
    expect(page.locator("#board .piece")).to_have_count(1)
    held.answer()
    expect(page.locator("#board .target")).to_have_count(16)
    expect(page.locator("#game select")).to_have_value("connect_four")


def test_game_chosen_before_the_first_position_is_shown(page: Page) -> None:
    positions = Held(page, "**/api/v1/position", lambda text: "connect_four" in text)
    agents = Held(page, "**/api/v1/agents?*", lambda text: "othello" in text)
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    expect(page.locator("#agents select").first).to_be_visible()
    page.select_option("#game select", "othello")
    positions.answer()
    expect(page.locator("#board .target")).to_have_count(16)
    agents.answer()
    expect(page.locator("#board .target")).to_have_count(36)


def test_editing_cannot_begin_before_the_first_position(page: Page) -> None:
    held = Held(page, "**/api/v1/position", lambda text: True)
    page.goto(f"/analyse#game={GAME}&moves=0&agents=mcts:20")
    expect(page.locator("#agents select").first).to_be_visible()
    page.click("summary")
    page.click("#edit")
    held.answer()
    expect(page.locator("#board .piece")).to_have_count(1)
    expect(page.locator("#edit")).to_have_text("Set up pieces")


@pytest.mark.parametrize(
    "address", [f"play#game={GAME}&x=random&o=person", f"learn#game={GAME}"], ids=["play", "learn"]
)
def test_game_continues_if_the_position_after_a_move_is_lost(page: Page, address: str) -> None:
    lost = '"moves":["0"' if address.startswith("play") else '"moves":["0","1"'
    page.route(
        "**/api/v1/move", lambda route: route.fulfill(json={"move": lost[-2], "analysis": None})
    )
    failures: list[str] = []

    def fail_once(route: Route) -> None:
        if lost in (route.request.post_data or "") and not failures:
            failures.append(lost)
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/position", fail_once)
    page.goto(f"/{address}")
    if address.startswith("learn"):
        page.uncheck("#warn")
        page.locator(f'{MOVE}[data-move="0"]').first.click()
    expect(page.locator("#error")).to_contain_text("will continue once the server responds")
    _wait_until_active(page)
    expect(page.locator("#board .piece")).to_have_count(2 if address.startswith("learn") else 1)
    expect(page.locator("#error")).to_be_hidden()


def test_late_position_does_not_end_editing(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&moves=0,1&agents=mcts:20")
    expect(page.locator("#board .piece")).to_have_count(2)
    held = Held(page, "**/api/v1/position", lambda text: '"moves":["0"]' in text)
    page.click("#back")
    page.click("summary")
    page.click("#edit")
    page.locator('.target[data-cell="4"]').click()
    held.answer()
    expect(page.locator("#board .piece")).to_have_count(3)
    expect(page.locator("#edit")).to_have_text("Done")


def test_failure_of_an_earlier_request_is_not_shown(page: Page) -> None:
    page.goto(f"/play#game={GAME}&o=person&moves=0,1,2")
    _wait_until_active(page)
    held = Held(page, "**/api/v1/position", lambda text: '"moves":["0","1"]' in text)
    page.click("#undo")
    page.locator("#moves button").first.click()
    expect(page.locator("#board .piece")).to_have_count(0)
    held.abort()
    expect(page.locator("#error")).to_be_hidden()


def test_slow_list_is_shown_when_it_arrives(page: Page) -> None:
    page.clock.install()
    held = Held(page, "**/api/v1/tournaments", lambda text: True)
    page.goto("/tournaments")
    page.clock.run_for(12_000)  # more than two refreshes
    held.answer()
    page.clock.run_for(1000)  # drawing is delayed
    expect(page.locator("#tournaments table, #nothing:not([hidden])").first).to_be_visible()


@pytest.mark.parametrize(
    "address", [f"play#game={GAME}&x=person&o=random", f"learn#game={GAME}"], ids=["play", "learn"]
)
def test_undo_during_an_outage_is_kept(page: Page, address: str) -> None:
    page.goto(f"/{address}")
    _wait_until_active(page)
    page.locator(MOVE).first.click()
    expect(page.locator("#board .piece")).to_have_count(2)
    _wait_until_active(page)
    page.route("**/api/v1/move", lambda route: route.abort())
    page.locator(f'{MOVE}[aria-disabled="false"]').first.click()
    expect(page.locator("#error")).to_contain_text("will continue once the server responds")
    # Attempts to continue ask for the position after three moves, the undo for an earlier one.
    held = Held(page, "**/api/v1/position", lambda text: _move_count(text) < 3)
    page.click("#undo")
    page.wait_for_timeout(2300)  # an attempt to continue is due
    page.unroute("**/api/v1/move")
    held.answer()
    page.unroute("**/api/v1/position")
    _wait_until_active(page)
    expect(page.locator("#board .piece")).to_have_count(2)
