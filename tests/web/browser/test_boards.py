"""Boards of all games in a real browser: drawings, movement, hints and their contrast."""

from __future__ import annotations

import re

import pytest
from tiny_laboratory import GAME, RUN

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser, Page, expect

from browser.audits import serious_findings
from browser.served import SECONDS, Server

PIECES = "#board .piece"
ACTIVE = '#board .target[aria-disabled="false"]'


def _play(page: Page, cell: int) -> None:
    page.locator(f'{ACTIVE}[data-cell="{cell}"]').click()


@pytest.mark.parametrize(
    ("game", "moves", "shapes"),
    [
        ("connect_four:6x7", "3", {".sheet": 1, ".rim": 42, ".cell": 0}),
        ("othello:8x8", "d3", {".cell": 64, ".star": 4, ".sheet": 0}),
        ("gobang:7x7:5", "d4", {".lines": 1, ".star": 5, ".cell": 0}),
        ("hex:4x4", "b2", {"polygon.cell": 16, ".edge.of-first": 2, ".edge.of-second": 2}),
    ],
    ids=["connect_four", "othello", "gobang", "hex"],
)
def test_game_draws_itself(page: Page, game: str, moves: str, shapes: dict[str, int]) -> None:
    page.goto(f"/play#game={game}&o=person&moves={moves}")
    expect(page.locator("#board .last")).to_have_count(1)
    for shape, count in shapes.items():
        expect(page.locator(f"#board {shape}")).to_have_count(count)
    page.click("#flip")
    for shape, count in shapes.items():
        expect(page.locator(f"#board {shape}")).to_have_count(count)
    assert serious_findings(page) == []


def test_hexagons_do_not_overlap_and_are_clicked_exactly(page: Page) -> None:
    page.goto("/play#game=hex:3x3&o=person")
    for count, cell in enumerate([8, 2, 6, 4, 0], start=1):
        _play(page, cell)
        expect(page.locator(PIECES)).to_have_count(count)
        expect(page.locator(f'.target[data-cell="{cell}"]')).to_have_attribute(
            "aria-label", re.compile("last move")
        )


def test_othello_discs_turn_in_place_and_are_counted(page: Page) -> None:
    page.goto("/play#game=othello:6x6&o=person")
    sides = page.locator("#game-title [data-side]")
    expect(sides).to_have_text(["A person (X) 2", "A person (O) 2"])
    page.evaluate("document.querySelector('#board > svg').kept = true")
    page.evaluate("document.querySelectorAll('#board .piece').forEach((each) => each.kept = true)")
    _play(page, 8)  # c2
    expect(sides).to_have_text(["A person (X) 4", "A person (O) 1"])
    expect(page.locator("#board .turns")).to_have_count(1)
    kept = "[...document.querySelectorAll('#board .piece')].filter((each) => each.kept).length"
    assert page.evaluate(kept) == 3  # all but the new disc and the one that turns
    assert page.evaluate("document.querySelector('#board > svg').kept")
    page.click("#undo")
    expect(sides).to_have_text(["A person (X) 2", "A person (O) 2"])
    expect(page.locator("#board .turns")).to_have_count(0)  # only moves are animated


def test_disc_falls_from_above_its_column(page: Page) -> None:
    page.goto("/play#game=connect_four:6x7&o=person")
    target = page.locator('#board .target[data-cell="10"]')  # second row, column 3
    target.hover()
    ghost = page.locator("#board .ghost .first")
    expect(ghost).to_have_count(1)
    frame = page.locator("#board .sheet").bounding_box()
    above = ghost.bounding_box()
    assert frame is not None and above is not None
    assert above["y"] + above["height"] / 2 < frame["y"]
    target.click()
    page.mouse.move(0, 0)
    piece = page.locator("#board .falls")
    expect(piece).to_have_count(1)
    assert piece.evaluate("each => getComputedStyle(each).animationName") == "fall"
    piece.evaluate("each => Promise.all(each.getAnimations().map((one) => one.finished))")
    landed = piece.bounding_box()
    assert landed is not None
    assert landed["x"] == pytest.approx(above["x"], abs=1)
    assert landed["y"] > frame["y"] + 0.7 * frame["height"]
    expect(ghost).to_have_count(0)


def test_reduced_motion_is_respected(browser: Browser, server: Server) -> None:
    context = browser.new_context(base_url=server.address, reduced_motion="reduce")
    context.set_default_timeout(1000 * SECONDS)
    page = context.new_page()
    page.goto("/play#game=connect_four:6x7&o=person")
    _play(page, 38)
    expect(page.locator(PIECES)).to_have_count(1)
    assert page.evaluate("document.getAnimations().length") == 0
    context.close()


def test_winning_line_stands_out(page: Page) -> None:
    page.goto("/play#game=connect_four:6x7&o=person&moves=0,6,1,6,2,6,3")
    expect(page.locator("#board .win")).to_have_count(4)
    expect(page.locator("#board .faded .piece")).to_have_count(3)
    page.click("#undo")
    expect(page.locator("#board .faded")).to_have_count(0)


@pytest.mark.parametrize("game", [GAME, "othello:4x4", "gobang:3x3:3", "hex:3x3"])
def test_hints_are_legible(page: Page, game: str) -> None:
    """The text of every hint contrasts with its own plate, which hides the board."""
    page.goto(f"/analyse#game={game}&agents=mcts:200&simulations=200")
    page.uncheck("#solve")
    expect(page.locator("#board .best")).not_to_have_count(0)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        plates = page.evaluate(  # in one step, because a search replaces the hints
            "[...document.querySelectorAll('#board .heat')].map((each) => ["
            "getComputedStyle(each).fill, getComputedStyle(each.nextElementSibling).fill])"
        )
        assert plates
        for plate, text in plates:
            assert _contrast(plate, text) >= 4.5, (theme, plate, text)


def _contrast(one: str, other: str) -> float:
    """Return the WCAG contrast ratio of two computed colours without transparency."""
    darker, lighter = sorted(_luminance(each) for each in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    numbers = [float(each) for each in re.findall(r"[\d.]+(?:e-\d+)?", colour)]
    assert len(numbers) == 3, colour
    scale = 1.0 if colour.startswith("color(srgb ") else 255.0
    parts = [each / scale for each in numbers]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_added_agents_are_different_networks(page: Page) -> None:
    page.goto(f"/analyse#game={GAME}&agents={RUN}")
    expect(page.locator("#thoughts table")).to_have_count(1)
    first = page.locator("#agents select").first.locator("option:checked").inner_text()
    iteration = re.search(r"iteration (\d+)", first)
    assert iteration is not None
    for count in (2, 3, 4):
        page.click("#add")
        expect(page.locator("#agents select")).to_have_count(count)
    menus = page.locator("#agents select")
    specs = [menus.nth(number).input_value() for number in range(4)]
    assert len(set(specs)) == 4
    assert f"{RUN}@{iteration[1]}" not in specs  # the first agent is this network
