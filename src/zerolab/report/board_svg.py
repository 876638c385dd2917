"""Boards as standalone SVG images, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple

from zerolab.report.board_shapes import (
    HINT_KINDS,
    HINT_LEAST,
    HINT_MOST,
    PAPER,
    BoardDrawing,
    BoardShapes,
    Shape,
    board_colours,
    mixed,
)

CELL_PIXELS = 48
"""Width of a cell in pixels, so that hints have texts of 12 pixels."""

_NOTE = 12 / CELL_PIXELS
_OWNERS = {1: "first", -1: "second"}
_SIDES = {1: "X", -1: "O"}
_STATUS = 0.5  # height of the line below the board
_LETTER = 0.165  # mean width of a letter of that line
_LEAST_SHARE = 0.005  # that is shown, as 1 %

Colours = Mapping[str, Mapping[str, str]]
Kind = Literal["wins", "draws", "loses"]


class Hint(NamedTuple):
    """Hint on a move, from an analysis."""

    share: float
    """Share of the visits, or the prior without a search; 0 to 1."""
    value: float | None
    """Value for the side to move, from -1 to 1."""
    is_best: bool
    score: int | None = None
    """Exact score, which replaces the value."""

    @property
    def kind(self) -> Kind | None:
        """Result under perfect play, if it is known."""
        if self.score is None:
            return None
        return "draws" if self.score == 0 else "wins" if self.score > 0 else "loses"

    def lines(self) -> list[str]:
        """Return the texts on the board, such as ``45 %`` and ``+0.12``, or ``W +8``."""
        share = f"{math.floor(100 * self.share + 0.5)} %" if self.share >= _LEAST_SHARE else ""
        if self.kind is not None and self.score is not None:
            letter = self.kind[0].upper()
            exact = f"{letter} {signed(self.score, 0)}" if self.score else letter
            return [each for each in (share, exact) if each]
        value = "" if self.value is None else signed(self.value)
        return [share, value] if share and value else [share or value]

    def fill(self) -> str:
        """Return the colour: the kind or value gives the tone, and the share its strength."""
        strength = 1.0 if self.kind else math.sqrt(min(1.0, self.share))
        if self.kind:
            tone = HINT_KINDS[self.kind]
        elif self.value is None:
            tone = HINT_MOST
        else:
            sign = HINT_KINDS["wins" if self.value >= 0 else "loses"]
            tone = mixed(sign, min(1.0, abs(self.value)), HINT_KINDS["draws"])
        return mixed(tone, strength, HINT_LEAST)


@dataclass(frozen=True)
class Board:
    """Content of an image of a board; cells are numbered row by row."""

    drawing: BoardDrawing
    labels: Sequence[str]
    """Labels of the columns."""
    pieces: Sequence[int]
    """1 for the first player's pieces, -1 for the second player's, and 0, cell by cell."""
    status: str
    """Sentence below the board."""
    side: int
    """Side whose piece is next to the sentence: 1, -1, or 0 for none."""
    summary: str
    """Description for people who cannot see the image."""
    last: int | None = None
    """Cell of the last placed piece."""
    winning: Sequence[int] = ()
    """Cells of the pieces that won."""
    hints: Mapping[int, Hint] = field(default_factory=dict)
    """Hints by cell."""


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, and a minus sign instead of a hyphen."""
    size = math.floor(abs(value) * 10**digits + 0.5) / 10**digits
    sign = "+" if value >= 0 else "\N{MINUS SIGN}"
    return f"{sign}{size:.{digits}f}"


def draw_board(board: Board) -> str:
    """Return a board as an SVG image."""
    shapes = BoardShapes(board.drawing, len(board.pieces) // len(board.labels), board.labels)
    colours = board_colours(board.drawing)
    left, top, width, height = shapes.bounds
    paper = {"x": left, "y": top, "width": width, "height": height + _STATUS, "rx": 0.1}
    below = {"x": left + width / 2, "y": top + height + _STATUS / 2 - 0.05}
    elements = [
        _element(Shape("rect", "", {**paper, "fill": PAPER}), {}),
        *(_element(each, colours) for each in _swatch(board, below)),
        *(_element(each, colours) for each in [*shapes.ground(), *shapes.names()]),
        *_pieces(board, shapes, colours),
        *(_element(each, colours) for each in shapes.front()),
        *_marks(board, shapes, colours),
        *_hints(board, shapes, colours),
        _element(Shape("text", "status", below, board.status), colours),
    ]
    view = " ".join(f"{each:.6g}" for each in (left, top, width, height + _STATUS))
    pixels = [round(CELL_PIXELS * each) for each in (width, height + _STATUS)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{pixels[0]}" height="{pixels[1]}"'
        f' viewBox="{view}" role="img" aria-label="{escape(board.summary)}"'
        ' font-family="system-ui, sans-serif" text-anchor="middle" dominant-baseline="central">'
        f"{''.join(elements)}</svg>"
    )


def _swatch(board: Board, place: Mapping[str, float]) -> list[Shape]:
    """Return a small piece to the left of the sentence, whose width is an estimate."""
    if board.side == 0:
        return []
    x = place["x"] - _LETTER * len(board.status) / 2 - 0.36
    return [Shape("circle", f"body {_OWNERS[board.side]}", {"cx": x, "cy": place["y"], "r": 0.15})]


def _pieces(board: Board, shapes: BoardShapes, colours: Colours) -> Iterator[str]:
    is_pale = bool(board.winning) and board.drawing.surface != "wood"
    for cell, piece in enumerate(board.pieces):
        if piece == 0:
            continue
        owner, radius = _OWNERS[piece], shapes.radius
        parts = [Shape("circle", f"body {owner}", {"r": radius})]
        if board.drawing.pieces == "red_and_yellow":
            parts.append(Shape("circle", f"ridge {owner}", {"r": 0.7 * radius}))
        if board.drawing.pieces != "black_and_white":
            parts.append(Shape("text", f"letter {owner}", {"y": 0.01}, _SIDES[piece]))
        opacity = ' opacity="0.6"' if is_pale and cell not in board.winning else ""
        yield _group(shapes, cell, (_element(each, colours) for each in parts), opacity)


def _marks(board: Board, shapes: BoardShapes, colours: Colours) -> Iterator[str]:
    """Mark the pieces that won and the last move."""
    for cell in range(len(board.pieces)):
        ring = {"r": shapes.radius - 0.02}
        names = ("win-edge", "win") if cell in board.winning else ()
        parts = [Shape("circle", name, ring) for name in names]
        if cell == board.last:
            parts.append(Shape("circle", f"last {_OWNERS[board.pieces[cell]]}", {"r": 0.27}))
        if parts:
            yield _group(shapes, cell, (_element(each, colours) for each in parts))


def _hints(board: Board, shapes: BoardShapes, colours: Colours) -> Iterator[str]:
    square = {"x": -0.42, "y": -0.36, "width": 0.84, "height": 0.72, "rx": 0.16}
    tag, plate = ("circle", {"r": 0.43}) if shapes.is_upright else ("rect", square)
    for cell, hint in sorted(board.hints.items()):
        if hint.kind is None and hint.share < _LEAST_SHARE:
            continue
        name = "heat best" if hint.is_best else "heat"
        parts = [Shape(tag, name, {**plate, "fill": hint.fill()})]
        lines = hint.lines()
        for number, line in enumerate(lines):
            y = 1.07 * _NOTE * (number - (len(lines) - 1) / 2)
            parts.append(Shape("text", "note", {"x": 0, "y": y, "font-size": _NOTE}, line))
        yield _group(shapes, cell, (_element(each, colours) for each in parts))


def _group(shapes: BoardShapes, cell: int, elements: Iterable[str], attributes: str = "") -> str:
    x, y = shapes.middle(cell)
    return f'<g transform="translate({x:.6g} {y:.6g})"{attributes}>{"".join(elements)}</g>'


def _element(shape: Shape, colours: Colours) -> str:
    attributes = {**shape.attributes, **colours.get(shape.css_class, {})}
    texts = (
        (name, f"{value:.6g}" if isinstance(value, float) else escape(str(value)))
        for name, value in attributes.items()
    )
    text = "".join(f' {name}="{value}"' for name, value in texts)
    end = f">{escape(shape.text)}</{shape.tag}>" if shape.text else "/>"
    return f"<{shape.tag}{text}{end}"
