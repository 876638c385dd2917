"""Boards as standalone SVG images, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal, NamedTuple

from zerolab.report.board_colours import INK, PAPER, board_colours, hint_fill_colour
from zerolab.report.board_shapes import BoardShapes, Shape

CELL_PIXELS = 48
"""Width of a cell in pixels."""

_NOTE = 12 / CELL_PIXELS  # font size of hints in cells; 12 pixels
_OWNERS = {1: "first", -1: "second"}
_PADDING = 0.11  # space around the board in cells
_STATUS = 0.5  # height of the line below the board in cells
_LETTER = 0.165  # mean width of a character in that line in cells
_MIN_SHARE = 0.005  # smallest share that is shown, as 1 %

HintResult = Literal["wins", "draws", "loses"]


class Hint(NamedTuple):
    """Hint for a move, from an analysis."""

    visit_share: float
    """Share of the visits, or the prior if there was no search; 0 to 1."""
    value: float | None
    """Value for the side to move, from -1 to 1."""
    is_best: bool
    exact_score: int | None = None
    """Exact score, which replaces the value."""

    @property
    def result(self) -> HintResult | None:
        """Result under perfect play, if it is known."""
        if self.exact_score is None:
            return None
        return "draws" if self.exact_score == 0 else "wins" if self.exact_score > 0 else "loses"

    def labels(self) -> list[str]:
        """Return the labels on the board, such as ``45 %`` and ``+0.12``, or ``W +8``."""
        share = (
            f"{math.floor(100 * self.visit_share + 0.5)} %"
            if self.visit_share >= _MIN_SHARE
            else ""
        )
        if self.result is not None and self.exact_score is not None:
            letter = self.result[0].upper()
            exact = f"{letter} {signed_number(self.exact_score, 0)}" if self.exact_score else letter
            return [each for each in (share, exact) if each]
        value = "" if self.value is None else signed_number(self.value)
        return [share, value] if share and value else [share or value]

    def description(self) -> str:
        """Return the labels in words, such as ``45 %, +0.12, best`` or ``wins +8``."""
        lines = self.labels()
        if self.result is not None:
            lines[-1] = self.result + lines[-1][1:]
        return ", ".join(filter(None, [*lines, "best" if self.is_best else ""]))

    def fill_colour(self) -> str:
        """Return the fill colour.

        A known result has a fixed colour at full strength. Otherwise, the value determines the
        tone, and the share determines its strength.
        """
        if self.result is not None:
            return hint_fill_colour(self.result, 1.0, 1.0)
        strength = math.sqrt(min(1.0, self.visit_share))
        if self.value is None:
            return hint_fill_colour(None, 1.0, strength)
        kind = "wins" if self.value >= 0 else "loses"
        return hint_fill_colour(kind, min(1.0, abs(self.value)), strength)


@dataclass(frozen=True)
class BoardImageContent:
    """Content of an image of a board; cells are numbered row by row."""

    shapes: BoardShapes
    piece_colours: str
    """Colours of the pieces, as in `report.board_shapes.BoardStyle.pieces`."""
    pieces: Sequence[int]
    """Content of each cell: 1 for the first player's pieces, -1 for the second player's, 0 if
    empty."""
    status: str
    """Sentence below the board."""
    status_piece: int
    """Side whose piece is next to the sentence: 1, -1, or 0 for none."""
    alt_text: str
    """Description for people who cannot see the image."""
    last_cell: int | None = None
    """Cell of the last placed piece."""
    winning_cells: Sequence[int] = ()
    """Cells of the winning pieces."""
    hints: Mapping[int, Hint] = field(default_factory=dict)
    """Hints by cell."""


def signed_number(value: float, digits: int = 2) -> str:
    """Return a number with an explicit sign, using a true minus sign rather than a hyphen."""
    size = math.floor(abs(value) * 10**digits + 0.5) / 10**digits
    sign = "+" if value >= 0 else "\N{MINUS SIGN}"
    return f"{sign}{size:.{digits}f}"


def draw_board(board: BoardImageContent) -> str:
    """Return a board as an SVG image."""
    picture = _Picture(board)
    width, height = picture.bounds[2:]
    view = " ".join(f"{each:.6g}" for each in picture.bounds)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{round(CELL_PIXELS * width)}"'
        f' height="{round(CELL_PIXELS * height)}"'
        f' viewBox="{view}" role="img" aria-label="{escape(board.alt_text)}"'
        ' font-family="system-ui, sans-serif" text-anchor="middle" dominant-baseline="central">'
        f"{''.join(picture.elements())}</svg>"
    )


class _Picture:
    """Elements of an image, in the order in which they are drawn."""

    def __init__(self, board: BoardImageContent) -> None:
        self._board = board
        self._shapes = board.shapes
        self._colours = board_colours(board.piece_colours)
        left, top, width, height = self._shapes.bounds
        size = width + 2 * _PADDING, height + 2 * _PADDING + _STATUS
        self.bounds = left - _PADDING, top - _PADDING, *size
        """Left, top, width and height of the image."""

    def elements(self) -> Iterator[str]:
        board, shapes = self._board, self._shapes
        left, top, width, height = self.bounds
        paper = {"x": left, "y": top, "width": width, "height": height, "rx": 0.1, "fill": PAPER}
        below = left + width / 2, top + height - _STATUS / 2 - 0.05
        yield self._element(Shape(tag="rect", css_class="", attributes=paper))
        yield from self._swatch(*below)
        yield from map(self._element, shapes.shapes_below_pieces)
        for label in shapes.labels:
            place = {"x": label.x, "y": label.y}
            yield self._element(
                Shape(tag="text", css_class="label", attributes=place, text=label.text)
            )
        for cell, piece in enumerate(board.pieces):
            if piece:
                yield self._in_cell(cell, shapes.cell_symbols[_OWNERS[piece]], self._paleness(cell))
        yield from map(self._element, shapes.shapes_above_pieces)
        for cell in range(len(board.pieces)):
            yield self._marks(cell)
        for cell, hint in sorted(board.hints.items()):
            if hint.result is not None or hint.visit_share >= _MIN_SHARE:
                yield self._in_cell(cell, self._plate(hint))
        x, y = below
        sentence = {"x": x, "y": y, "fill": INK, "font-size": 0.3, "font-weight": 600}
        yield self._element(Shape(tag="text", css_class="", attributes=sentence, text=board.status))

    def _swatch(self, x: float, y: float) -> Iterator[str]:
        """Yield a small piece to the left of the sentence; the sentence's width is estimated."""
        if self._board.status_piece:
            circle = {"cx": x - _LETTER * len(self._board.status) / 2 - 0.36, "cy": y, "r": 0.15}
            name = f"body of-{_OWNERS[self._board.status_piece]}"
            yield self._element(Shape(tag="circle", css_class=name, attributes=circle))

    def _paleness(self, cell: int) -> Mapping[str, str]:
        """Return attributes that fade a piece outside a winning line; empty for other pieces."""
        board = self._board
        is_pale = (
            board.winning_cells
            and self._shapes.fades_other_pieces
            and cell not in board.winning_cells
        )
        return self._colours["faded"] if is_pale else {}

    def _marks(self, cell: int) -> str:
        """Return the marks of a winning piece and of the last move; empty if there are none."""
        board, symbols = self._board, self._shapes.cell_symbols
        marks = [*symbols["win"]] if cell in board.winning_cells else []
        if cell == board.last_cell:
            marks += symbols[f"last {_OWNERS[board.pieces[cell]]}"]
        return self._in_cell(cell, marks) if marks else ""

    def _plate(self, hint: Hint) -> list[Shape]:
        (plate,) = self._shapes.cell_symbols["hint"]
        filled = {
            "css_class": "heat best" if hint.is_best else "heat",
            "attributes": {**plate.attributes, "fill": hint.fill_colour()},
        }
        lines = hint.labels()
        heights = (1.07 * _NOTE * (each - (len(lines) - 1) / 2) for each in range(len(lines)))
        notes = (
            Shape(
                tag="text",
                css_class="note",
                attributes={"x": 0, "y": y, "font-size": _NOTE},
                text=line,
            )
            for y, line in zip(heights, lines, strict=True)
        )
        return [plate.model_copy(update=filled), *notes]

    def _in_cell(
        self, cell: int, shapes: Iterable[Shape], attributes: Mapping[str, str] | None = None
    ) -> str:
        group = {**self._place(cell), **(attributes or {})}
        content = "".join(_tag(each, self._attributes(each)) for each in shapes)
        return f"<g{_attributes_text(group)}>{content}</g>"

    def _place(self, cell: int) -> dict[str, str]:
        x, y = self._shapes.cell_centre(cell)
        return {"transform": f"translate({x:.6g} {y:.6g})"}

    def _element(self, shape: Shape) -> str:
        """Return the SVG of a shape, repeated in every cell if it is drawn per cell."""
        cells = range(len(self._board.pieces))
        attributes = self._attributes(shape)
        if shape.is_per_cell:
            places = (self._place(cell) for cell in cells)
            return "".join(_tag(shape, {**attributes, **place}) for place in places)
        if shape.cell_hole_path:
            centres = (self._shapes.cell_centre(cell) for cell in cells)
            holes = (f"M{x:.6g} {y:.6g}{shape.cell_hole_path}" for x, y in centres)
            attributes = {**attributes, "d": "".join([str(attributes["d"]), *holes])}
        return _tag(shape, attributes)

    def _attributes(self, shape: Shape) -> Mapping[str, str | float]:
        return {**shape.attributes, **self._colours.get(shape.css_class, {})}


def _tag(shape: Shape, attributes: Mapping[str, str | float]) -> str:
    end = f">{escape(shape.text)}</{shape.tag}>" if shape.text else "/>"
    return f"<{shape.tag}{_attributes_text(attributes)}{end}"


def _attributes_text(attributes: Mapping[str, str | float]) -> str:
    texts = (
        (name, f"{value:.6g}" if isinstance(value, float) else escape(str(value)))
        for name, value in attributes.items()
    )
    return "".join(f' {name}="{text}"' for name, text in texts)
