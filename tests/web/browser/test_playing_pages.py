"""Play, analysis and lesson pages in a real browser, with mouse, keyboard and phone."""

from __future__ import annotations

import re
import shutil
import socket
from contextlib import chdir, suppress
from pathlib import Path

import pytest
from tiny_laboratory import GAME, RUN

from browser.served import SECONDS, Server

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, Route, TimeoutError, expect

from browser.audits import fits_phone, serious_findings
from zerolab.cli.main import main

MOVE = "#board .target[data-move]"


def _finish_game(page: Page) -> None:
    """Click legal moves until the game is over."""
    legal = '#board .target[aria-disabled="false"], #board button[data-move]:enabled'
    for _ in range(300):
        if re.search("won|drawn", page.locator("#status").inner_text()):
            return
        with suppress(TimeoutError):  # the opponent may be to move, or the board may change
            page.locator(legal).first.click(timeout=2000)
    pytest.fail("the game does not end")


@pytest.mark.parametrize(
    "game", [GAME, "othello:4x4", "gobang:3x3:3"], ids=["connect_four", "othello", "gobang"]
)
def test_whole_game_against_agent_survives_reload(page: Page, game: str) -> None:
    agent = f"{RUN}?simulations=8" if game == GAME else "random"
    page.goto(f"/play#game={game}&o={agent}")
    _finish_game(page)
    moves = page.locator("#moves button").count() - 1
    assert moves >= 4
    page.reload()  # the address contains the whole game
    expect(page.locator("#status")).to_contain_text(re.compile("won|drawn"))
    assert page.locator("#moves button").count() - 1 == moves


def test_two_agents_finish_game(page: Page) -> None:
    page.goto(f"/play#game={GAME}&x=mcts:20&o=random")
    expect(page.locator("#status")).to_contain_text(re.compile("won|drawn"))


def test_default_opponent_is_named_run(page: Page) -> None:
    page.route("**/api/v1/move", lambda route: None)  # the agent never answers
    page.goto(f"/play#game={GAME}")
    expect(page.locator("#second select")).to_have_value(RUN)
    heading = page.locator("#game-title")
    expect(heading).to_have_text(re.compile(r"You \(X\) against tiny, iteration \d \(O\)"))
    expect(heading.locator(".to-move")).to_have_text("You (X)")
    expect(page.locator("#status")).to_contain_text("It is your turn.")
    page.locator(MOVE).first.click()
    expect(heading.locator(".to-move")).to_contain_text("tiny, iteration")
    expect(page.locator("#status")).to_contain_text(re.compile(r"tiny, iteration \d is thinking…"))


def test_opponent_of_other_game_gives_way_to_default(page: Page) -> None:
    page.goto(f"/play#game={GAME}")
    expect(page.locator("#second select")).to_have_value(RUN)
    page.select_option("#game select", "othello")
    expect(page.locator("#second select")).to_have_value("othello-6x6")


def test_undo_redo_resign_and_new_game_work(page: Page) -> None:
    page.goto(f"/play#game={GAME}&o=person")
    for column in (0, 1, 2):
        page.locator(f'{MOVE}[data-move="{column}"]').first.click()
        expect(page.locator("#moves button")).to_have_count(column + 2)
    page.click("#undo")
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("2. 1")
    page.click("#redo")
    expect(page.locator('#moves [aria-current="true"]')).to_have_text("3. 2")
    page.click("#resign")
    expect(page.locator("#status")).to_contain_text("O has resigned")
    page.select_option("#second select", "random")
    page.fill("#plies", "2")
    page.click("#new")
    expect(page.locator("#moves button")).to_have_count(3)
    expect(page.locator("#status")).to_contain_text("X is to move")


@pytest.mark.parametrize(
    ("path", "controls"),
    [
        ("play", ["#resign"]),
        ("learn", ["#undo", "#hint"]),
        ("analyse", ["#simulation-next", "#simulation-number"]),
    ],
)
def test_controls_wait_for_a_position(page: Page, path: str, controls: list[str]) -> None:
    page.goto(f"/{path}#game=chess")
    expect(page.locator("#error")).to_contain_text("chess")
    for control in controls:
        expect(page.locator(control)).to_be_disabled()
    page.goto("about:blank")
    page.goto(f"/{path}#game={GAME}&x=person&o=person&moves=0,1")
    expect(page.locator("#board .target").first).to_be_visible()
    expect(page.locator(controls[-1])).to_be_enabled()


@pytest.mark.parametrize(("path", "control"), [("play", "#new"), ("analyse", "#add")])
def test_controls_wait_for_the_agents(page: Page, path: str, control: str) -> None:
    page.route("**/api/v1/games", lambda route: route.abort())
    page.goto(f"/{path}#game={GAME}")
    expect(page.locator("#error")).to_contain_text("not responding")
    expect(page.locator(control)).to_be_disabled()


def test_own_moves_replace_plies_of_the_opening(page: Page) -> None:
    """A ply that a player chose after taking back the opening is judged like any other."""
    page.goto(f"/play#game={GAME}&o=person&moves=0,1,2&given=2")
    expect(page).to_have_url(re.compile("given=2"))
    current = page.locator('#moves [aria-current="true"]')
    expect(current).to_have_text("3. 2")
    for shown in ("2. 1", "1. 0"):
        page.click("#undo")
        expect(current).to_have_text(shown)
    page.locator(f'{MOVE}[data-move="3"]').first.click()
    expect(page).to_have_url(re.compile("moves=0%2C3.*given=1"))


def test_a_game_without_a_size_has_its_default_size(page: Page) -> None:
    page.goto("/play#game=othello&o=person")
    expect(page.locator("#game select")).to_have_value("othello")
    expect(page.locator("#game input").first).to_have_value("8")
    expect(page.locator("#board .cell")).to_have_count(64)


def test_game_can_be_played_with_keyboard(page: Page) -> None:
    page.goto("/play#game=gobang:3x3:3&o=person")
    page.wait_for_selector(MOVE)
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('target')"):
            break
    keys = ["Enter", "ArrowDown", " ", "ArrowUp", "ArrowRight", "Enter", "ArrowDown", "Enter"]
    keys += ["ArrowUp", "ArrowRight", "Enter"]  # a1 a2, b1 b2, c1 completes a row for X
    for key in keys:
        count = page.locator("#moves button").count()
        page.keyboard.press(key)
        if key in ("Enter", " "):
            expect(page.locator("#moves button")).to_have_count(count + 1)
    expect(page.locator("#status")).to_contain_text("X has won")
    expect(page.locator("#announcements")).to_contain_text("X has won")


def test_focus_stays_on_the_board_after_a_pass(page: Page) -> None:
    page.goto("/play#game=othello:4x4&o=person&moves=b1,a3,d4,c1,a1,d3,b4")
    page.get_by_role("button", name="pass").press("Enter")
    expect(page.locator("#moves button")).to_have_count(9)
    expect(page.locator("#board .target:focus")).to_have_count(1)


def test_reloaded_board_is_seen_from_the_same_side(page: Page) -> None:
    page.goto(f"/play#game={GAME}&x=random&o=person")
    expect(page.locator("#board .piece")).to_have_count(1)
    right = page.locator('#board .target[data-cell="0"]').bounding_box()
    left = page.locator('#board .target[data-cell="3"]').bounding_box()
    assert right is not None
    assert left is not None
    assert left["x"] < right["x"]


def test_moves_and_cells_have_screen_reader_text(page: Page) -> None:
    page.goto(f"/play#game={GAME}&o=person&moves=0")
    expect(page.locator('.target[data-cell="12"]')).to_have_attribute(
        "aria-label", "column 0, row 4 from the top: X, last move"
    )
    page.locator(f'{MOVE}[data-move="1"]').first.click()
    expect(page.locator("#announcements")).to_contain_text("O plays 1. X is to move.")


def test_agent_file_is_downloaded_and_uploaded(
    page: Page, tiny_folder: Path, tmp_path: Path
) -> None:
    page.goto(f"/run#run={RUN}")
    with page.expect_download() as download:
        page.get_by_label("File of iteration 2").click()
    path = tmp_path / "mine.zerolab"
    download.value.save_as(path)
    page.goto("/play#game=othello:4x4")
    page.wait_for_selector(MOVE)
    page.set_input_files("#bring input", path)
    expect(page.locator("#second select")).to_have_value(re.compile(r"runs/agents/.*\.zerolab"))
    page.click("#new")
    page.locator(f'{MOVE}[data-move="1"]').first.click()
    expect(page.locator("#moves button")).to_have_count(3)
    (tmp_path / "other.txt").write_text("no agent")
    page.set_input_files("#bring input", tmp_path / "other.txt")
    expect(page.locator("#error")).to_contain_text("is not an agent file")
    shutil.rmtree(tiny_folder / "runs" / "agents")


def test_misspelled_agent_gets_suggestion(page: Page) -> None:
    page.goto(f"/play#game={GAME}")
    page.select_option("#second select", "")
    page.fill("#second input", "mtcs:100")
    page.click("#new")
    expect(page.locator("#error")).to_contain_text('did you mean "mcts"')


def test_lesson_keeps_its_opponent_to_the_end(page: Page) -> None:
    page.route("**/api/v1/move", lambda route: route.fulfill(json={"move": "1"}))
    page.goto(f"/learn#game={GAME}")
    page.uncheck("#warn")
    for pieces in (2, 4, 5):
        page.locator(f'{MOVE}[data-move="0"][aria-disabled="false"]').first.click()
        expect(page.locator("#board .piece")).to_have_count(pieces)
    expect(page.locator("#advice")).to_contain_text("stronger")
    expect(page.locator("#opponent")).to_contain_text("2 of 7")
    expect(page.locator("#game-title")).to_contain_text("random moves")
    page.click("#undo")
    expect(page.locator("#board .piece")).to_have_count(4)
    expect(page.locator("#game-title")).to_contain_text("random moves")


def test_lesson_gives_hints_and_keeps_score(page: Page) -> None:
    page.goto(f"/learn#game={GAME}")
    expect(page.locator("#opponent")).to_contain_text("random")
    page.click("#hint")
    expect(page.locator("#advice")).to_contain_text("Exact")
    _finish_game(page)
    expect(page.locator("#record")).to_contain_text("1")


@pytest.mark.parametrize("game", [GAME, "othello:4x4"], ids=["with_run", "without_run"])
def test_lessons_have_seven_levels(page: Page, game: str) -> None:
    page.goto(f"/learn#game={game}")
    strongest = (
        re.compile(r"^7 of 7: tiny, iteration \d, simulations=\d+$")
        if game == GAME
        else "7 of 7: mcts:3000"
    )
    expect(page.locator("#opponent")).to_have_text("1 of 7: random moves")
    page.locator("#strength").fill("6")
    expect(page.locator("#opponent")).to_have_text(strongest)


def test_lesson_warns_before_it_evaluates(page: Page) -> None:
    """The evaluation after the mistake never arrives; the warning is gone in the next game."""
    solution = {
        "scores": {"0": 3, "1": -2, "2": 0, "3": 0},
        "best_moves": ["0"],
        "unsolved_reason": None,
    }

    def solve(route: Route) -> None:
        if '"moves":[]' in (route.request.post_data or ""):
            route.fulfill(json=solution)

    page.route("**/api/v1/solution", solve)
    page.goto(f"/learn#game={GAME}")
    page.wait_for_selector(MOVE)
    page.check("#ahead")
    page.locator(f'{MOVE}[data-move="1"]').first.click()
    expect(page.locator("#advice")).to_contain_text("1 was a mistake")
    expect(page.locator("#board .piece")).to_have_count(2)
    page.click("#again")
    expect(page.locator("#board .piece")).to_have_count(0)
    expect(page.locator("#advice")).to_be_empty()


def test_lesson_without_position_has_no_evaluation(page: Page) -> None:
    page.route("**/api/v1/position", lambda route: None)  # the server never answers
    with page.expect_request("**/api/v1/position"):
        page.goto(f"/learn#game={GAME}")
    page.check("#ahead")
    expect(page.locator("#error")).to_be_hidden()


def test_tournament_does_not_change_lessons(page: Page, tiny_folder: Path) -> None:
    page.goto(f"/learn#game={GAME}")
    opponent = page.locator("#opponent")
    expect(opponent).to_contain_text(" of 7")
    page.locator("#strength").fill("3")
    expect(opponent).to_contain_text("4 of 7")
    level = opponent.inner_text()
    players = ["random", "mcts:5", "mcts:20", RUN, "--games", "2", "--openings", "1"]
    with chdir(tiny_folder):
        assert main(["tournament", *players, "--folder", "tournaments/of-lessons"]) == 0
    page.reload()
    expect(page.locator("#opponent")).to_have_text(level)
    shutil.rmtree(tiny_folder / "tournaments")


def test_page_reconnects_after_server_restart(browser: Browser, tiny_folder: Path) -> None:
    server = Server(tiny_folder, "--workers", "1")
    context = browser.new_context(base_url=server.address)
    context.set_default_timeout(1000 * SECONDS)
    try:
        page = context.new_page()
        page.goto(f"/analyse#game={GAME}&agents=mcts:50")
        expect(page.locator("#thoughts table")).to_have_count(1)
        server.stop()
        expect(page.locator("#connection")).to_be_visible()
        server.start()
        expect(page.locator("#connection")).to_be_hidden()
        page.locator(f'{MOVE}[data-move="1"]').first.click()
        expect(page.locator("#moves button")).to_have_count(2)
        expect(page.locator("#thoughts table")).to_have_count(1)
    finally:
        context.close()
        server.stop()


def test_incomplete_requests_are_closed(
    tiny_folder: Path,
) -> None:
    code = "import zerolab.web.server as p; p.REQUEST_HEADER_SECONDS = 0.5; "
    server = Server(tiny_folder, "--workers", "1", code=code)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\nHost: local")
            silent.settimeout(60)
            assert silent.recv(100) == b""
    finally:
        server.stop()


def test_two_tabs_work_independently(browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.address)
    context.set_default_timeout(1000 * SECONDS)
    first, second = context.new_page(), context.new_page()
    first.goto(f"/analyse#game={GAME}&agents=mcts:50&simulations=100000")
    second.goto("/play#game=gobang:3x3:3&o=mcts:50")
    _finish_game(second)
    expect(first.locator("#thoughts table")).to_have_count(1)
    context.close()


@pytest.mark.parametrize("path", ["play", "analyse", "learn"])
def test_playing_pages_fit_phone_and_are_accessible(phone: Page, path: str) -> None:
    phone.goto(f"/{path}#game={GAME}")
    phone.wait_for_selector("#board .target")
    assert fits_phone(phone)
    phone.locator(MOVE).first.tap()
    phone.wait_for_selector("#board .piece")
    assert serious_findings(phone) == []
