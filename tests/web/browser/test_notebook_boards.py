"""Notebook boards, drawn in Python, compared with those of the pages.

Both use the same shapes and colours, so two boards suffice for the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

import zerolab
from zerolab.agents.analysis import Analysis, MoveAnalysis, analysis_html, board_hints
from zerolab.report.board_svg import CELL_PIXELS

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHAPES = """svg => [...svg.querySelectorAll("rect, circle, path, polygon, polyline, text")]
  .filter((each) => !each.matches(".target, .legal") && getComputedStyle(each).display !== "none")
  .map((each) => {
    const style = getComputedStyle(each);
    const numbers = ["x", "y", "cx", "cy", "r", "rx", "width", "height", "points", "d"]
      .map((name) => each.getAttribute(name) ?? "")
      .flatMap((text) => text.match(/[a-zA-Z]|-?[0-9.]+(e-?[0-9]+)?/g) ?? []);
    const [group, root] = [each.getScreenCTM(), svg.getScreenCTM()];
    const faded = each.closest("[opacity], .faded");
    const isText = each.tagName === "text";
    return {
      tag: each.tagName,
      text: each.textContent,
      numbers: [...numbers.map((text) => (isNaN(text) ? text : Number(text))),
        (group.e - root.e) / root.a, (group.f - root.f) / root.d],
      fill: style.fill,
      paint: [style.stroke, style.stroke === "none" ? "" : style.strokeWidth,
        isText ? [parseFloat(style.fontSize).toFixed(2), style.fontWeight, style.textAnchor] : "",
        faded ? getComputedStyle(faded).opacity : "1"].flat(),
    };
  })"""

ON_PAGE = """async ([game, moves, analysis, cell]) => {
  const { Board } = await import("/static/lib/board.js");
  const { hintsOf } = await import("/static/lib/hints.js");
  const { post } = await import("/static/lib/api.js");
  const position = await post("/position", { game, moves });
  const host = document.createElement("div");
  document.body.append(host);
  const board = new Board(host);
  board.show(position);
  const [, , width] = board.svg.getAttribute("viewBox").split(" ").map(Number);
  Object.assign(host.style, { width: `${cell * width}px`, maxWidth: "none" });
  board.show(position, { hints: analysis ? hintsOf(analysis, null, { byVisits: true }) : {} });
  host.id = "page-board";
}"""

BESIDE = """(html) => {
  const host = document.createElement("div");
  host.id = "notebook-board";
  host.innerHTML = html;
  document.body.append(host);
}"""


def _rgb(colour: str) -> list[float]:
    """Return red, green and blue, 0 to 255, of a computed colour in either notation."""
    kind, _, numbers = colour.rstrip(")").partition("(")
    parts = numbers.replace(",", " ").replace("srgb", "").split()[:3]
    scale = 255 if kind == "color" else 1
    return [scale * float(part) for part in parts]


def _play(game: str, moves: Sequence[str]) -> zerolab.Position:
    position = zerolab.Position.start(game)
    for move in moves:
        position = position.play(move)
    return position


def _analysis(position: zerolab.Position) -> Analysis:
    """An analysis with visits and values of every size, including moves that are not shown."""
    moves = [
        MoveAnalysis(
            action, position.action_name(action), (7 * index) ** 2 % 97, 0.97 - 0.31 * index
        )
        for index, action in enumerate(position.legal_actions)
    ]
    return Analysis("made up", position, moves[0], moves, 0.1, (moves[0].name,))


def _compare(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    for key in ("tag", "text", "paint"):
        assert mine[key] == theirs[key], (mine, theirs)
    numbers = zip(mine["numbers"], theirs["numbers"], strict=True)
    for one, other in numbers:
        assert one == (other if isinstance(other, str) else pytest.approx(other, abs=2e-3))
    assert _rgb(mine["fill"]) == pytest.approx(_rgb(theirs["fill"]), abs=1.0)


@pytest.mark.parametrize(
    ("game", "moves", "with_hints"),
    [
        ("connect_four:6x7", "0 6 1 6 2 6 3", False),
        ("hex:3x5", "a1 c2 d3", True),
    ],
)
def test_python_draws_the_board_of_the_pages(
    page: Page, game: str, moves: str, with_hints: bool
) -> None:
    position = _play(game, moves.split())
    analysis = _analysis(position) if with_hints else None
    page.goto("/glossary")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    data = None
    if analysis is not None:
        rows = [move._asdict() for move in analysis.moves]
        data = {"moves": rows, "simulations": sum(row["visits"] for row in rows)}
    page.evaluate(ON_PAGE, [game, moves.split(), data, CELL_PIXELS])
    theirs = page.locator("#page-board > svg").evaluate(SHAPES)
    html = position._repr_svg_() if analysis is None else analysis_html(analysis)
    page.evaluate(BESIDE, html)
    paper, swatch, *mine, status = page.locator("#notebook-board svg").evaluate(SHAPES)
    assert (paper["tag"], swatch["tag"], status["tag"]) == ("rect", "circle", "text")
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        _compare(one, other)
    if analysis is not None:
        labels = page.locator("#page-board .target").evaluate_all(
            "targets => targets.map((each) => each.getAttribute('aria-label'))"
        )
        words = {
            hint.description()
            for hint in board_hints(analysis).values()
            if hint.visit_share >= 0.005
        }
        assert {each.partition("legal move, ")[2] for each in labels} - {""} == words
        summary = page.locator("#notebook-board svg").get_attribute("aria-label") or ""
        assert all(each in summary for each in words)
