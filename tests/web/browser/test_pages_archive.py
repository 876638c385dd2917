"""Archive pages in a real browser: games, runs, tournaments and studies, also on a phone."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from tiny_laboratory import RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, Route, expect

from browser.audits import fits_phone, serious_findings
from zerolab.cli.main import main
from zerolab.play.game_files import read_game_results

TOURNAMENT = "tournaments/tiny"
MOVES = "#moves button"
CURRENT = f'{MOVES}[aria-current="true"]'


@pytest.fixture(scope="module", autouse=True)
def tournament(tiny_folder: Path) -> None:
    """A tournament in the folder with the tiny run."""
    previous = Path.cwd()
    os.chdir(tiny_folder)
    try:
        players = ["random", "mcts:20", RUN, "--games", "4", "--openings", "1"]
        assert main(["tournament", *players, "--folder", TOURNAMENT]) == 0
    finally:
        os.chdir(previous)


def test_game_is_found_replayed_and_judged(page: Page) -> None:
    page.goto(f"/replay#source={RUN}")
    page.get_by_text("More filters").click()
    page.select_option("#stage", "selfplay")
    page.fill("#iteration", "2")
    page.click("#filters button[type=submit]")
    expect(page.locator("#total")).to_contain_text("of 8")
    page.locator("#games button").nth(2).click()
    expect(page.locator("#judging")).to_contain_text("positions are solved")
    plies = page.locator(MOVES).count() - 1
    expect(page.locator("#judging")).to_contain_text(f"{plies} of {plies} positions")
    expect(page.locator("#values svg")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#status")).to_contain_text(re.compile("won|drawn"))
    page.keyboard.press("ArrowLeft")
    expect(page.locator(f'{MOVES}[aria-current="true"]')).to_have_text(
        re.compile(f"^{plies - 1}\\.")
    )
    address = page.url
    page.reload()
    expect(page.locator(f'{MOVES}[aria-current="true"]')).to_have_text(
        re.compile(f"^{plies - 1}\\.")
    )
    assert page.url == address
    page.click("#analyse")
    expect(page).to_have_url(re.compile("/analyse#.*moves="))
    expect(page.locator(MOVES)).to_have_count(plies)


def test_random_openings_are_grey_and_not_judged(page: Page) -> None:
    page.goto(f"/replay#source={TOURNAMENT}&player=random&opponent=mcts:20")
    expect(page.locator("#judging")).to_contain_text("The 1 given ply at the start")
    plies = page.locator(MOVES).count() - 1
    expect(page.locator("#judging")).to_contain_text(f"{plies - 1} of {plies - 1} positions")
    expect(page.locator(".given")).to_have_count(1)
    expect(page.locator(".given")).to_have_accessible_name(re.compile(r"^1\. \w+, given$"))
    page.locator(".given").click()
    expect(page.locator("#verdict")).to_contain_text("no player chose it")
    expect(page.locator("#mistakes")).not_to_contain_text(re.compile(r": 1\. "))


def test_latest_run_is_replayed_by_default(page: Page, tiny_folder: Path) -> None:
    """The latest run precedes runs that come first in the alphabet, unless it is damaged."""
    runs = {name: tiny_folder / "runs" / name for name in ("a-first", "b-latest", "c-damaged")}
    latest = max(each.stat().st_mtime for each in (tiny_folder / "runs").glob("*/state.json"))
    try:
        for age, path in zip((-10, 10, 20), runs.values(), strict=True):
            shutil.copytree(tiny_folder / RUN, path)
            os.utime(path / "state.json", (latest + age, latest + age))
        (runs["c-damaged"] / "config.toml").write_text("not ours")
        page.goto("/replay")
        expect(page.locator("#source")).to_have_value("runs/b-latest")
        expect(page.locator("#total")).to_contain_text("Games 1 to")
    finally:
        for path in runs.values():
            shutil.rmtree(path, ignore_errors=True)


def test_n_key_visits_every_mistake(page: Page, here: Path) -> None:
    page.goto(f"/replay#source={TOURNAMENT}&player=random&opponent=mcts:20&result=lost")
    expect(page.locator("#judging")).to_contain_text("positions are solved")
    mistakes = page.locator("#mistakes li").count()
    assert mistakes > 0, "a lost game has a mistake, unless it was lost from the start"
    marked = []
    for _ in range(mistakes):
        page.keyboard.press("n")
        current = page.locator(CURRENT)
        expect(current).to_have_class("marked")
        marked.append(current.inner_text())
    assert len(set(marked)) == mistakes


def test_games_are_exported(page: Page, tmp_path: Path) -> None:
    page.goto(f"/replay#source={TOURNAMENT}")
    expect(page.locator("#total")).to_contain_text("of 12")
    page.get_by_text("More filters").click()
    with page.expect_download() as download:
        page.click("#all-pgn")
    path = tmp_path / "games.pgn"
    download.value.save_as(path)
    assert len(read_game_results([path]).results) == 12


def test_cross_table_cell_links_to_its_games(page: Page) -> None:
    page.goto("/tournaments")
    page.get_by_role("link", name=TOURNAMENT).click()
    expect(page.locator("#figure svg")).to_be_visible()
    expect(page.locator("#ratings tbody tr")).to_have_count(3)
    page.locator("#cross a").first.click()
    expect(page.locator("#total")).to_contain_text("of 4")


def test_runs_are_compared_by_scores_and_not_by_training_elo(page: Page) -> None:
    strengths = {"better": (0.75, 100.0), "worse": (0.25, 969.0)}

    def answer(route: Route) -> None:
        unmeasured = {**route.fetch().json()[0], "accuracy": None}
        route.fulfill(json=[
            {
                **unmeasured, "run": name, "training_elo": elo,
                "final_score_rates": {"mcts:100": score},
            }
            for name, (score, elo) in strengths.items()
        ])  # fmt: skip

    page.route("**/api/v1/runs", answer)
    page.goto("/runs")
    head, rows = page.locator("#runs thead"), page.locator("#runs tbody tr")
    expect(head).to_contain_text("against mcts:100")
    expect(head).not_to_contain_text("accuracy")
    expect(head).not_to_contain_text("Elo")
    expect(rows.nth(0)).to_contain_text("75.0 %")
    expect(page.locator("#runs table")).not_to_contain_text("969")


def test_compared_curves_omit_training_elo(page: Page, tiny_folder: Path) -> None:
    other = "runs/tiny-copy"
    shutil.copytree(tiny_folder / RUN, tiny_folder / other)
    curves = page.locator("#curves")
    page.goto(f"/compare#run={RUN}")
    expect(curves).to_contain_text("Training Elo")
    page.get_by_label(re.compile(other)).check()
    expect(curves).not_to_contain_text("Training Elo")
    expect(curves.locator("svg").first).to_be_visible()
    shutil.rmtree(tiny_folder / other)


def test_error_of_an_action_survives_refreshes(page: Page) -> None:
    playing = {"is_running": True, "may_stop": True, "may_resume": False, "output": []}
    lines = iter(range(1000))
    page.route("**/api/v1/tournaments/playing*", lambda route: route.fulfill(
        json={**playing, "output": [f"line {next(lines)}"]}
    ))  # fmt: skip
    page.route("**/api/v1/tournaments/stop", lambda route: route.fulfill(
        status=409, json={"error": "it does not stop"}
    ))  # fmt: skip
    page.goto(f"/tournament#tournament={TOURNAMENT}")
    page.click("#stop")
    expect(page.locator("#error")).to_have_text("it does not stop")
    output = page.locator("#output").text_content()
    expect(page.locator("#output")).not_to_have_text(output or "")
    expect(page.locator("#error")).to_have_text("it does not stop")


def test_run_is_started_watched_stopped_and_resumed(page: Page) -> None:
    page.goto("/runs")
    page.fill("#name", "grown")
    page.select_option("#preset", "smoke")
    page.select_option("#game select", "gobang")
    for field, value in enumerate(("3", "3", "3")):
        page.locator("#game input").nth(field).fill(value)
    page.fill("#settings", "iterations=3000\nfinal_evaluation.games=0")
    page.click("#start button[type=submit]")
    expect(page).to_have_url(re.compile("/run#run=runs%2Fgrown"))
    expect(page.locator("#facts")).to_contain_text("running")
    expect(page.locator("#curves svg").first).to_be_visible()
    page.locator("#links").evaluate("each => { window.firstLink = each.firstChild }")
    first = page.locator("#latest").inner_text()
    expect(page.locator("#latest")).not_to_have_text(first)
    expect(page.locator("#stage-text")).to_contain_text(re.compile(r"\d of \d+ games"))
    expect(page.locator("#games li").first).to_contain_text(
        re.compile(r"(won|drawn) after \d+ moves")
    )
    assert page.locator("#links").evaluate("each => each.firstChild === window.firstLink")
    page.click("#stop")
    expect(page.locator("#facts")).to_contain_text("stopped")
    expect(page.locator("#stage")).to_be_hidden()
    page.click("#resume")
    expect(page.locator("#facts")).to_contain_text("running")
    page.click("#stop")
    expect(page.locator("#facts")).to_contain_text("stopped")
    page.get_by_role("link", name="Compare it").click()
    page.get_by_label(re.compile(RUN)).check()
    expect(page.locator("#differences table")).to_contain_text("iterations")


def test_invalid_setting_is_reported_in_form(page: Page) -> None:
    page.goto("/runs")
    page.fill("#name", "wrong")
    page.fill("#settings", "learn.epoch=3")
    page.click("#start button[type=submit]")
    expect(page.locator("#start-error")).to_contain_text("learn.epoch")


def test_studies_and_http_interface_are_described(page: Page) -> None:
    page.goto("/studies")
    page.get_by_role("link", name="warm-start, smoke").click()
    expect(page.locator("#command")).to_have_text("zerolab study warm-start --scale smoke")
    expect(page.locator("#parts tbody tr").first).to_be_visible()
    page.goto("/api")
    page.get_by_text("GET /api/v1/played/one").click()
    expect(page.locator("details[open]")).to_contain_text("plies")


@pytest.mark.parametrize(
    "path",
    [f"replay#source={RUN}", "runs", f"run#run={RUN}", f"compare#run={RUN}", "tournaments",
     f"tournament#tournament={TOURNAMENT}", "studies", "study#name=warm-start&scale=smoke", "api",
     "glossary"],
)  # fmt: skip
def test_pages_fit_phone_and_are_accessible(phone: Page, path: str) -> None:
    phone.goto(f"/{path}")
    phone.wait_for_load_state("networkidle")
    assert fits_phone(phone)
    assert serious_findings(phone) == []


def test_empty_pages_suggest_commands(page: Page) -> None:
    page.route("**/api/v1/runs", lambda route: route.fulfill(json=[]))
    page.route("**/api/v1/tournaments", lambda route: route.fulfill(json=[]))
    for path, command in (
        ("runs", "zerolab train"), ("replay", "zerolab train"), ("compare", "zerolab train"),
        ("tournaments", "zerolab tournament"),
    ):  # fmt: skip
        page.goto(f"/{path}")
        expect(page.locator("#nothing")).to_be_visible()
        expect(page.locator("#nothing")).to_contain_text(command)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("run#run=runs/none", "is not a run"),
        (f"tournament#tournament={RUN}", "is not served"),
        ("study#name=nothing", "nothing"),
    ],
    ids=["run", "tournament", "study"],
)
def test_missing_run_tournament_or_study_is_reported(page: Page, path: str, reason: str) -> None:
    page.goto(f"/{path}")
    expect(page.locator("#error")).to_contain_text(reason)
    expect(page.locator("#content")).to_be_hidden()  # a progress bar would never end


def test_unknown_page_is_reported_to_people(page: Page) -> None:
    response = page.goto("/nope")
    assert response is not None
    assert response.status == 404
    expect(page.get_by_role("alert")).to_contain_text('"/nope" does not exist')
    page.get_by_role("link", name="Play", exact=True).click()
    expect(page.locator("#board")).to_be_visible()


def test_form_says_what_name_of_run_is_expected(page: Page) -> None:
    page.goto("/runs")
    page.fill("#name", "my run")
    message = page.locator("#name").evaluate("field => field.validationMessage")
    assert message.startswith('"my run": expected letters, digits')
    page.fill("#name", "my-run")
    assert page.locator("#name").evaluate("field => field.checkValidity()")


def test_opening_hint_has_moves_of_the_game(page: Page) -> None:
    page.goto(f"/replay#source={RUN}")
    expect(page.locator("#total")).to_contain_text("of")
    hint = page.locator("#opening").get_attribute("placeholder")
    assert hint is not None
    assert re.fullmatch(r"[0-3],[0-3]", hint)
    page.get_by_text("More filters").click()
    page.fill("#opening", hint)
    page.click("#filters button[type=submit]")
    expect(page.locator("#error")).to_be_hidden()
    expect(page.locator("#total")).to_contain_text("Games 1 to")
