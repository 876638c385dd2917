"""Charts in a real browser: axes in real pixels, the cursor, the legend, log scale, smoothing."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Page, expect

from browser.audits import fits_phone, serious_findings

SLIDER = "[role=slider]"


def draw(page: Page, series: list[dict[str, object]], **options: object) -> None:
    """Draw a chart on an otherwise empty page of the server; repeated calls update it.

    The chart is above anything the page's script may still show, so it does not move.
    """
    if page.url == "about:blank":
        page.goto("/studies")
        page.locator("#studies").wait_for()
        page.evaluate(
            "document.querySelector('main').innerHTML ="
            " '<h1>Chart</h1><div id=here></div><div id=error></div><div id=studies></div>'"
        )
    page.evaluate(
        f"""async () => {{
        const {{ lineChart }} = await import("/static/lib/chart.js");
        const options = {json.dumps(options)};
        if (options.onPick) options.onPick = (x) => (document.title = `picked ${{x}}`);
        lineChart(document.querySelector("#here"), {json.dumps(series)}, options);
        }}"""
    )
    expect(page.locator("#here svg")).to_be_visible()


def line(name: str, values: list[float | None]) -> dict[str, object]:
    return {"name": name, "points": [[x + 1, y] for x, y in enumerate(values)]}


def ticks(page: Page, anchor: str) -> list[str]:
    """Labels of the x axis (middle) or the y axis (end), without titles."""
    return page.locator(f'#here text[text-anchor="{anchor}"]:not(.title)').all_text_contents()


@pytest.mark.parametrize("screen", ["page", "phone"])
def test_text_has_twelve_pixels_and_does_not_overlap(
    screen: str, request: pytest.FixtureRequest
) -> None:
    page: Page = request.getfixturevalue(screen)
    draw(
        page, [line("a", [1e5 * n for n in range(1, 31)])],
        xLabel="self-play games", yLabel="positions per second",
    )  # fmt: skip
    boxes = page.evaluate(
        """[...document.querySelectorAll("#here text")].map((each) => {
        const {left, right, top, bottom} = each.getBoundingClientRect();
        const scale = each.ownerSVGElement.getScreenCTM().a;
        return {left, right, top, bottom, size: scale * parseFloat(getComputedStyle(each).fontSize)}
        })"""
    )
    assert {each["size"] for each in boxes} == {12}
    for i, a in enumerate(boxes):
        assert a["left"] >= 0
        assert a["right"] <= page.evaluate("innerWidth")
        for b in boxes[:i]:
            apart = a["right"] <= b["left"] or b["right"] <= a["left"]
            assert apart or a["bottom"] <= b["top"] or b["bottom"] <= a["top"], (a, b)


@pytest.mark.parametrize("count", [2, 3, 5, 12, 40])
def test_iterations_have_whole_ticks(page: Page, count: int) -> None:
    draw(page, [line("a", [0.5] * count)], xLabel="iteration")
    labels = [float(each) for each in ticks(page, "middle")]
    assert all(each.is_integer() and 1 <= each <= count for each in labels)
    assert len({round(b - a, 9) for a, b in pairwise(labels)}) <= 1
    assert len(labels) >= 2


def test_arrow_keys_move_an_announced_cursor(page: Page) -> None:
    draw(
        page, [line("policy", [1.5, None, 0.25]), line("value", [0.9, 0.8, 0.7])],
        xLabel="iteration", yLabel="loss",
    )  # fmt: skip
    cursor = page.locator(SLIDER)
    expect(cursor).to_have_accessible_name("loss, over iteration")
    page.locator(".legend button").first.focus()
    page.keyboard.press("Shift+Tab")
    expect(cursor).to_be_focused()
    said = {}
    for key in ("End", "ArrowLeft", "Home", "ArrowLeft"):
        page.keyboard.press(key)
        said[key] = cursor.get_attribute("aria-valuetext")
    assert said["End"] == "iteration 3: policy 0.25; value 0.7"
    assert said["Home"] == said["ArrowLeft"] == "iteration 1: policy 1.5; value 0.9"
    page.keyboard.press("ArrowRight")
    expect(cursor).to_have_attribute("aria-valuenow", "2")
    expect(page.locator(".readout")).to_contain_text("value0.8")
    page.keyboard.press("Escape")
    expect(page.locator(".readout")).to_be_hidden()


def test_pointer_reads_values_and_picks(page: Page) -> None:
    draw(page, [line("a", [3.0, 1.0, 2.0])], xLabel="ply", onPick=True)
    box = page.locator(SLIDER).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
    expect(page.locator(".readout")).to_have_text("ply 3 a2")
    page.mouse.click(box["x"] + box["width"] / 2 + 10, box["y"] + 60)
    expect(page).to_have_title("picked 2")
    page.locator(SLIDER).press("Home")
    page.keyboard.press("Enter")
    expect(page).to_have_title("picked 1")


def test_legend_hides_series_and_rescales(page: Page) -> None:
    draw(page, [line("small", [1.0, 2.0]), line("large", [100.0, 200.0])], xLabel="iteration")
    assert "200" in ticks(page, "end")
    large = page.get_by_role("button", name="large")
    large.click()
    expect(large).to_have_attribute("aria-pressed", "false")
    expect(page.locator('#here g[data-name="large"]')).to_have_count(0)
    assert max(map(float, ticks(page, "end"))) <= 2.5
    draw(page, [line("small", [1.0, 2.0, 3.0]), line("large", [1.0, 2.0, 9.0])])
    expect(large).to_have_attribute("aria-pressed", "false")
    large.click()
    expect(page.locator('#here g[data-name="large"]')).to_have_count(1)


def test_hidden_series_cannot_be_picked_and_take_the_cursor_along(page: Page) -> None:
    draw(page, [line("a", [1.0, 2.0]), line("b", [2.0, 1.0])], xLabel="ply", onPick=True, mark=1)
    page.locator(SLIDER).press("End")
    for name in "ab":
        page.locator(".legend").get_by_role("button", name=name).click()
    title = page.title()
    page.locator(SLIDER).click()
    page.keyboard.press("Enter")
    expect(page).to_have_title(title)
    expect(page.locator("#here .guide")).to_have_count(0)
    expect(page.locator(SLIDER)).to_have_attribute("aria-valuetext", "All series are hidden.")


def test_cursor_does_not_survive_its_measurement(page: Page) -> None:
    draw(page, [line("a", [1.0, 2.0, 3.0])], xLabel="ply")
    page.locator(SLIDER).press("End")
    expect(page.locator(".readout")).to_contain_text("ply 3")
    draw(page, [line("a", [4.0, 5.0])], xLabel="ply")
    expect(page.locator(".readout")).to_be_hidden()
    expect(page.locator(SLIDER)).to_have_attribute("aria-valuenow", "2")


def test_shown_runs_have_different_colours(page: Page) -> None:
    draw(page, [line("a", [1.0, 2.0])])
    colours = page.evaluate(
        """async () => {
        const { colourOfRun, keepColours } = await import("/static/lib/curves.js");
        const shown = [..."abcdefghijklmnopqrstuvwxyz"].map((_, n, all) => all.slice(n, n + 12));
        return shown.map((runs) => {
            keepColours(runs);
            return runs.map(colourOfRun);
        });
        }"""
    )
    assert all(len(set(each)) == len(each) for each in colours)
    for before, after in pairwise(colours):
        assert after[: len(before) - 1] == before[1:], "a run keeps its colour"


def test_log_scale_has_equal_distances_for_equal_ratios(page: Page) -> None:
    draw(page, [line("a", [1.0, 10.0, 100.0, 0.0])], isLog=True)
    heights = page.locator("#here g[data-name=a] circle").evaluate_all(
        "all => all.map(each => Number(each.getAttribute('cy')))"
    )
    assert len(heights) == 3, "0 has no logarithm"
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2])
    assert {"1", "10", "100"} <= set(ticks(page, "end"))


def test_smoothing_averages_with_falling_weights_over_a_pale_curve(page: Page) -> None:
    values = [4.0, 0.0, 2.0]
    draw(page, [line("a", values)], xLabel="iteration", smoothing=0.5)
    weights = [0.25, 0.5, 1.0]
    expected = math.fsum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    page.locator(SLIDER).press("End")
    text = page.locator(SLIDER).get_attribute("aria-valuetext")
    assert text == f"iteration 3: a {expected:.4g} (measured 2)"
    opacity = "each => Number(getComputedStyle(each).opacity)"
    assert page.locator("#here .raw").evaluate(opacity) < 0.5
    assert page.locator("#here .curve").evaluate(opacity) == 1


def test_series_of_a_chart_differ_in_colour_and_keep_theirs(page: Page) -> None:
    names = ["policy", "value", *"abcdefghij"]
    series = [line(name, [float(n), n + 1.0]) for n, name in enumerate(names)]
    draw(page, series)
    colour = "all => all.map(each => getComputedStyle(each).stroke)"
    colours = page.locator("#here .curve").evaluate_all(colour)
    assert len(set(colours)) == len(names)
    draw(page, series[::-1])
    assert page.locator("#here .curve").evaluate_all(colour) == colours[::-1]


def test_chart_is_accessible_and_fits_phone(phone: Page) -> None:
    draw(phone, [line("policy", [2.0, 1.0]), line("value", [1.0, 0.5])], yLabel="loss")
    assert serious_findings(phone) == []
    assert fits_phone(phone)
    expect(phone.locator(".legend button").first).to_have_accessible_name(re.compile("policy"))
