"""Lists of runs, tournaments and studies, tooltips, and the phone layout, in a real browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, Route, expect

import zerolab.web
from browser.audits import serious_findings

GLOSSARY = Path(zerolab.web.__file__).parent / "static" / "glossary.json"
CLAIM = {
    "key": "a", "claim": "The sky is green.", "reference": "[A2020]", "claimed": "above 0",
    "measured": "-1.23456 (-2.5 to -0.5)", "adjusted_p_text": "1e-9", "verdict": "does not hold",
    "note": "",
}  # fmt: skip


def test_latest_run_comes_first_with_its_trend(page: Page) -> None:
    def answer(route: Route) -> None:
        (run, *_) = route.fetch().json()
        dates = {"runs/old": 1_700_000_000.0, "runs/new": 1_800_000_000.0}
        trends = {"runs/old": [], "runs/new": [3.0, 1.0, 2.0]}
        route.fulfill(json=[
            {**run, "run": name, "latest_progress_time": date,
             "trend": {"name": "loss", "values": trends[name]}}
            for name, date in dates.items()
        ])  # fmt: skip

    page.route("**/api/v1/runs", answer)
    page.goto("/runs")
    rows = page.locator("#runs tbody tr")
    expect(rows.nth(0)).to_contain_text("runs/new")
    expect(rows.nth(0).locator("time")).to_have_attribute("datetime", re.compile("^2027-01-15"))
    trend = rows.nth(0).get_by_role("img", name="loss, from 3 to 2")
    expect(trend).to_be_visible()
    heights = re.findall(r"[ML][\d.]+,([\d.]+)", trend.locator("path").get_attribute("d") or "")
    assert float(heights[0]) < float(heights[2]) < float(heights[1]), "larger values are higher"
    expect(rows.nth(1).locator("svg")).to_have_count(0)


def test_tournament_is_started_and_won(page: Page) -> None:
    page.goto("/tournaments")
    page.fill("#name", "from-page")
    name, _, sizes = GAME.partition(":")
    page.select_option("#game select", name)
    for field, value in enumerate(re.findall(r"\d+", sizes)):
        page.locator("#game input").nth(field).fill(value)
    page.fill("#player", "random")
    page.keyboard.press("Enter")
    page.fill("#player", "mcts:50")
    page.click("#add")
    expect(page.locator("#players")).to_have_value("random\nmcts:50")
    page.fill("#games", "8")
    page.click("#start button[type=submit]")
    expect(page).to_have_url(re.compile("tournament#tournament=tournaments%2Ffrom-page"))
    expect(page.locator("#facts")).to_contain_text("Winnermcts:50")
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#resume")).to_be_hidden()
    page.goto("/tournaments")
    expect(page.locator("#tournaments tbody tr").first).to_contain_text("from-pagemcts:50")


def test_player_that_pages_may_not_use_is_reported_in_form(page: Page) -> None:
    page.goto("/tournaments")
    page.fill("#name", "refused")
    page.fill("#players", "random\ngtp:touch x")
    page.click("#start button[type=submit]")
    expect(page.locator("#start-error")).to_contain_text("gtp:touch x")


def test_study_has_a_card_with_its_strongest_verdict(page: Page) -> None:
    def answer(route: Route) -> None:
        studies = route.fetch().json()
        counts = {"undecided": 2, "holds": 1}
        summary = {"strongest_claim": CLAIM, "figure_url": "", "verdict_counts": counts}
        started = {"folder": "x", "is_running": False, "report_url": "/reports/x/index.html"}
        studies[-1]["started_scales"] = [
            {**started, "scale": "mini", "verdict_summary": summary},
            {**started, "scale": "smoke", "verdict_summary": {**summary, "strongest_claim": None}},
        ]
        route.fulfill(json=studies)

    page.route("**/api/v1/studies", answer)
    page.goto("/studies")
    card = page.locator("article").first
    expect(card.locator(".verdict")).to_have_text("Does not hold: The sky is green. [A2020]")
    expect(card).to_contain_text("Measured -1.23 (-2.5 to -0.5), claimed above 0; p < 0.001")
    expect(card).to_contain_text("2 undecided")
    assert page.locator("article").count() > 1
    assert serious_findings(page) == []


def test_settings_of_a_starting_run_can_be_filtered(page: Page) -> None:
    """The settings are unknown until the run's folder exists."""
    state = {"run": "runs/new", "is_running": True, "may_stop": True, "output": ["starting"]}
    page.route("**/runs/one?*", lambda route: route.fulfill(status=404, json={"error": "none"}))
    page.route("**/training/one?*", lambda route: route.fulfill(json=state))
    page.goto("/run#run=runs/new")
    expect(page.locator("#latest")).to_have_text("Starting the run…")
    page.click("text=Show settings")
    page.fill("#filter", "learn")
    expect(page.locator("#settings")).to_be_empty()


def test_term_is_explained_by_keyboard(page: Page) -> None:
    page.goto(f"/run#run={RUN}")
    summary = page.get_by_role("region", name="Summary")
    term = summary.get_by_role("button", name="Training Elo", exact=True)
    term.focus()
    page.keyboard.press("Enter")
    tip = page.locator("#tip")
    expect(tip).to_contain_text("not comparable between runs")
    expect(page.locator("#announcements")).to_contain_text("not comparable between runs")
    assert serious_findings(page) == []
    expect(tip.get_by_role("link")).to_be_focused()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(term).to_be_focused()
    term.press("Enter")
    tip.get_by_role("link").click()
    expect(page).to_have_url(re.compile("/glossary#training-elo$"))
    expect(page.locator("#training-elo")).to_be_in_viewport()


def test_term_is_explained_by_mouse_and_touch(page: Page, phone: Page) -> None:
    page.goto(f"/run#run={RUN}")
    summary = page.get_by_role("region", name="Summary")
    summary.get_by_role("button", name="Training Elo", exact=True).hover()
    expect(page.locator("#tip")).to_be_visible()
    page.mouse.move(1, 1)
    expect(page.locator("#tip")).to_be_hidden()
    phone.goto(f"/run#run={RUN}")
    summary = phone.get_by_role("region", name="Summary")
    summary.get_by_role("button", name="Training Elo", exact=True).tap()
    expect(phone.locator("#tip")).to_be_visible()
    box = phone.locator("#tip").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    phone.locator("h1").tap()
    expect(phone.locator("#tip")).to_be_hidden()


def test_only_the_term_with_the_tooltip_is_expanded(page: Page) -> None:
    page.goto(f"/run#run={RUN}")
    expanded = page.locator('.term[aria-expanded="true"]')
    for name in ("Training Elo", "Iteration"):
        page.locator("#facts").get_by_role("button", name=name, exact=True).hover()
        expect(page.locator("#tip strong")).to_have_text(re.compile(name, re.IGNORECASE))
        expect(expanded).to_have_text(name)


def test_redrawn_list_keeps_the_focus(page: Page) -> None:
    latest = {"date": 1_700_000_000.0}

    def answer(route: Route) -> None:
        (run, *_) = route.fetch().json()
        others = {"runs/a": 1_750_000_000.0, "runs/b": latest["date"]}
        route.fulfill(
            json=[
                {**run, "run": name, "latest_progress_time": date} for name, date in others.items()
            ]
        )

    page.route("**/api/v1/runs", answer)
    page.goto("/runs")
    rows = page.locator("#runs tbody tr")
    expect(rows.first).to_contain_text("runs/a")
    box = page.get_by_role("checkbox", name="Compare runs/a")
    box.check()
    latest["date"] = 1_800_000_000.0
    expect(rows.first).to_contain_text("runs/b")
    expect(box).to_be_focused()
    expect(box).to_be_checked()


def test_skip_link_keeps_the_game(page: Page) -> None:
    page.goto(f"/play#game={GAME}&x=person&o=person")
    page.locator("#board .target[data-move]").first.click()
    expect(page.locator("#moves button")).to_have_count(2)
    address = page.url
    page.locator(".skip").press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("#moves button")).to_have_count(2)
    assert page.url == address


def test_numbers_on_pages_are_explained(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents=mcts:20")
    for heading in ("visits", "value", "prior"):
        expect(page.locator("#thoughts th").get_by_role("button", name=heading)).to_be_visible()
    page.goto(f"/run#run={RUN}")
    for title in ("Loss in the last epoch", "Self-play positions per second", "Peak memory so far"):
        expect(page.locator("#curves h3").get_by_role("button", name=title)).to_be_visible()


def test_tooltip_stays_while_the_page_is_drawn_again(page: Page) -> None:
    page.goto("/analyse#game=connect_four:6x7&agents=mcts:100000&simulations=100000")
    page.wait_for_function(  # at the first rows, so that the search will draw others
        """() => {
            const terms = [...document.querySelectorAll("#thoughts th button")];
            const prior = terms.find((each) => each.textContent === "prior");
            const rows = document.querySelectorAll("#thoughts tbody tr");
            if (!prior || !rows.length) return false;
            prior.click();
            rows.forEach((row) => row.classList.add("drawn-before"));
            return true;
        }""",
        polling="raf",
    )
    expect(page.locator("#thoughts .drawn-before")).to_have_count(0)
    expect(page.locator("#thoughts tbody tr").first).to_be_visible()
    expect(page.locator("#tip")).to_contain_text("prior")


def test_glossary_page_has_every_term(page: Page) -> None:
    page.goto("/glossary")
    terms = [each["term"] for each in json.loads(GLOSSARY.read_text("utf-8"))]
    expect(page.locator("#terms > div")).to_have_count(len(terms))
    assert terms == sorted(terms, key=str.lower)


@pytest.mark.parametrize("path", ["play", "runs", "studies"])
def test_links_stay_in_one_row_on_phone(phone: Page, path: str) -> None:
    phone.goto(f"/{path}")
    tops = phone.locator("nav a").evaluate_all(
        "all => [...new Set(all.map((each) => each.getBoundingClientRect().top))]"
    )
    assert len(tops) == 1
    box = phone.locator("nav").bounding_box()
    current = phone.locator("nav [aria-current]").bounding_box()
    assert box is not None
    assert current is not None
    assert box["x"] <= current["x"]
    assert current["x"] + current["width"] <= box["x"] + box["width"]


def test_wide_tables_become_lists_on_phone(phone: Page, page: Page) -> None:
    for each, display in ((phone, "flow-root"), (page, "table-cell")):
        each.goto(f"/run#run={RUN}")
        cell = each.locator("#networks td").nth(1)
        expect(cell).to_have_css("display", display)
        expect(cell).to_have_role("cell")
        heading = cell.evaluate("each => getComputedStyle(each, '::before').content")
        assert ("training Elo" in heading) == (each is phone)
    assert phone.locator("#networks .scroll").evaluate("each => each.scrollWidth") <= 360
