"""Shapes and colours of boards in SVG.

The shapes are those of `web/static/lib/drawing.js`, in units of a cell. The colours are those of
the light theme in `web/static/style.css`. Browser tests compare them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

Point = tuple[float, float]

_HEX_STEP = math.sqrt(3) / 2  # distance of two rows of hexagons whose width is 1
_HEX_RADIUS = 1 / math.sqrt(3)
_HOLE = 0.41
_RADII = {"squares": 0.41, "points": 0.45, "holes": _HOLE, "hexagons": 0.37}  # of pieces
_MARGIN = 0.55  # for the labels of rows and columns
_RIM = 0.14  # of a board beyond its cells


class Shape(NamedTuple):
    """An SVG element without children."""

    tag: str
    css_class: str
    """Class, from which `board_svg` and the pages' style sheet derive the colours."""
    attributes: Mapping[str, str | float]
    text: str = ""


class BoardDrawing(Protocol):
    """Appearance of a board; `rules.drawing.Drawing` explains the fields."""

    @property
    def cells(self) -> str: ...

    @property
    def surface(self) -> str: ...

    @property
    def pieces(self) -> str: ...

    @property
    def edges(self) -> tuple[str, ...] | None: ...


class BoardShapes:
    """Geometry of a board, given its drawing and the labels of its rows and columns."""

    def __init__(self, drawing: BoardDrawing, rows: int, labels: Sequence[str]) -> None:
        self._drawing, self._rows, self._labels = drawing, rows, labels
        self._columns = len(labels)
        self._is_hexagonal = drawing.cells == "hexagons"
        self.is_upright = drawing.cells == "holes"
        self.radius = _RADII[drawing.cells]
        """Radius of a piece."""
        self.width: float = self._columns
        self.height: float = rows
        if self._is_hexagonal:
            self.width = self._columns + (rows - 1) / 2
            self.height = (rows - 1) * _HEX_STEP + 2 * _HEX_RADIUS

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """Left, top, width and height of the drawing, with labels."""
        left, top, right, bottom = _MARGIN + _RIM, _MARGIN + _RIM, 2 * _RIM, 2 * _RIM
        if self.is_upright:
            left, top, right, bottom = 2 * _RIM, 2 * _RIM, 2 * _RIM, _MARGIN + _RIM
        return -left, -top, self.width + left + right, self.height + top + bottom

    def middle(self, cell: int) -> Point:
        """Return the coordinates of the middle of a cell; cells are numbered row by row."""
        return self._middle_of(*divmod(cell, self._columns))

    def _middle_of(self, row: float, column: float) -> Point:
        if self._is_hexagonal:
            return column + row / 2 + 0.5, row * _HEX_STEP + _HEX_RADIUS
        return column + 0.5, row + 0.5

    def ground(self) -> list[Shape]:
        """Return the board below the pieces."""
        slab = {
            "x": -_RIM, "y": -_RIM, "width": self.width + 2 * _RIM,
            "height": self.height + 2 * _RIM, "rx": _RIM,
        }  # fmt: skip
        if self._is_hexagonal:
            return [*self._edges(), *self._cells()]
        if self.is_upright:
            return [Shape("rect", "back", slab)]
        lines = [self._crossings()] if self._drawing.cells == "points" else self._cells()
        return [Shape("rect", "slab", slab), *lines, *self._stars()]

    def front(self) -> list[Shape]:
        """Return the frame before the pieces, with holes; empty unless the board is upright."""
        if not self.is_upright:
            return []
        middles = [self.middle(cell) for cell in range(self._rows * self._columns)]
        r, d = _number(_HOLE), _number(2 * _HOLE)
        holes = (
            f"M{_number(x - _HOLE)} {_number(y)}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0"
            for x, y in middles
        )
        width, height = _number(self.width), _number(self.height)
        right, down, left, up = (
            f"a{_RIM} {_RIM} 0 0 1 {x * _RIM} {y * _RIM}"
            for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))
        )
        sheet = f"M0 {-_RIM}h{width}{right}v{height}{down}h-{width}{left}v-{height}{up}z"
        path = {"fill-rule": "evenodd", "d": sheet + "".join(holes)}
        rims = [Shape("circle", "rim", {"cx": x, "cy": y, "r": _HOLE + 0.02}) for x, y in middles]
        return [Shape("path", "sheet", path), *rims]

    def names(self) -> list[Shape]:
        """Return the names of the columns and rows, as in the names of moves."""
        y = self.height + _RIM + 0.26 if self.is_upright else -_RIM - 0.24
        columns = [
            _label(self._middle_of(0, column)[0], y, label)
            for column, label in enumerate(self._labels)
        ]
        if self.is_upright:
            return columns
        starts = (self._middle_of(row, 0) for row in range(self._rows))
        rows = [
            _label(x - 0.5 - _RIM - 0.24, middle, str(number))
            for number, (x, middle) in enumerate(starts, start=1)
        ]
        return [*columns, *rows]

    def _cells(self) -> list[Shape]:
        middles = (self.middle(cell) for cell in range(self._rows * self._columns))
        if self._is_hexagonal:
            return [Shape("polygon", "cell", {"points": _joined(_hexagon(*at))}) for at in middles]
        return [
            Shape("rect", "cell", {"x": x - 0.5, "y": y - 0.5, "width": 1, "height": 1})
            for x, y in middles
        ]

    def _crossings(self) -> Shape:
        right, bottom = self._columns - 0.5, self._rows - 0.5
        across = (f"M0.5 {row + 0.5}H{right}" for row in range(self._rows))
        down = (f"M{column + 0.5} 0.5V{bottom}" for column in range(self._columns))
        return Shape("path", "lines", {"d": "".join([*across, *down])})

    def _stars(self) -> list[Shape]:
        """Return dots for orientation: on crossings of lines, and on corners of squares of felt."""
        rows, columns = self._rows, self._columns
        if self._drawing.cells == "points":
            is_odd, least, inset = rows % 2 == 1 and columns % 2 == 1, 7, 2.5
            places = [(rows / 2, columns / 2)] if is_odd else []
        elif self._drawing.surface == "felt":
            least, inset, places = 6, 2.0, []
        else:
            return []
        if min(rows, columns) >= least:
            places += [(y, x) for y in (inset, rows - inset) for x in (inset, columns - inset)]
        return [Shape("circle", "star", {"cx": x, "cy": y, "r": 0.07}) for y, x in places]

    def _edges(self) -> list[Shape]:
        """Return coloured borders, each along the outer corners of the hexagons of one edge."""
        if self._drawing.edges is None:
            return []
        bottom, right = self._rows - 1, self._columns - 1

        def corners(
            count: int, place: Callable[[int], Point], numbers: Sequence[int]
        ) -> list[Point]:
            hexagons = (_hexagon(*self._middle_of(*place(index))) for index in range(count))
            return [hexagon[number] for hexagon in hexagons for number in numbers]

        sides = [
            corners(self._columns, lambda column: (0, column), (5, 0, 1)),
            corners(self._rows, lambda row: (row, right), (0, 1, 2)),
            corners(self._columns, lambda column: (bottom, column), (4, 3, 2)),
            corners(self._rows, lambda row: (row, 0), (5, 4, 3)),
        ]
        return [
            Shape("polyline", f"edge of-{owner}", {"points": _joined(_trimmed(points, side))})
            for side, (owner, points) in enumerate(zip(self._drawing.edges, sides, strict=True))
        ]


def _label(x: float, y: float, name: str) -> Shape:
    return Shape("text", "label", {"x": x, "y": y}, name)


def _hexagon(x: float, y: float) -> list[Point]:
    """Return the corners of a hexagon, clockwise from the top."""
    angles = (corner * math.pi / 3 for corner in range(6))
    return [(x + _HEX_RADIUS * math.sin(a), y - _HEX_RADIUS * math.cos(a)) for a in angles]


def _trimmed(points: list[Point], side: int) -> list[Point]:
    """Let two edges meet in the middle of the side that they share, at the sharp corners."""
    if side in (1, 2):
        return [_half(points[0], points[1]), *points[1:]]
    return [*points[:-1], _half(points[-1], points[-2])]


def _half(one: Point, other: Point) -> Point:
    return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2


def _joined(points: Sequence[Point]) -> str:
    return " ".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(value: float) -> str:
    """Return a number with at most four decimal places."""
    return f"{round(value, 4):g}"


PAPER, INK = "#fbfaf7", "#1d2427"
HINT_LEAST, HINT_MOST = "#f4f8f8", "#5fc4c9"
HINT_KINDS: Mapping[str, str] = {"wins": "#84d3a0", "draws": "#ecdca0", "loses": "#f3aba2"}

_PIECES = {
    "red_and_blue": (("#c63d2f", "#8e2419", "#ffffff"), ("#2d5fb3", "#1b3f7d", "#ffffff")),
    "red_and_yellow": (("#d93a2b", "#a3231a", "#7f150e"), ("#f6c92a", "#c2930b", "#8f6a00")),
    "black_and_white": (("#1d2225", "#454f54", "#ffffff"), ("#f6f4ee", "#9aa19f", "#1d2225")),
}  # body, edge and letter of the first and the second player's pieces
_SLABS = {
    "plain": {"fill": "#b9b29f", "stroke": "none"},
    "felt": {"fill": "#17442b", "stroke": "none"},
}
_SLAB = {"fill": "#e3bb78", "stroke": "#b98b46", "stroke-width": "0.03"}
_CELL = {"fill": "#f1eee6", "stroke": "#b9b29f", "stroke-width": "0.03"}
_FELT = {"fill": "#2f8555", "stroke": "#1d5a39", "stroke-width": "0.03"}


def board_colours(drawing: BoardDrawing) -> dict[str, dict[str, str]]:
    """Return the SVG attributes of every class of shapes on a board."""
    is_felt = drawing.surface == "felt"
    first, second = _PIECES[drawing.pieces]
    edge = {"fill": "none", "stroke-width": "0.32", "stroke-linejoin": "round"}
    edge |= {"stroke-linecap": "round"}
    return {
        "slab": _SLABS.get(drawing.surface, _SLAB),
        "cell": _FELT if is_felt else _CELL,
        "lines": {
            "fill": "none", "stroke": "#6d4c1c", "stroke-width": "0.025", "stroke-linecap": "square"
        },
        "star": {"fill": "#1d5a39" if is_felt else "#6d4c1c"},
        "back": {"fill": "#f3f6fb"},
        "sheet": {"fill": "#2563c9", "stroke": "#1a4896", "stroke-width": "0.04"},
        "rim": {"fill": "none", "stroke": "#1a4896", "stroke-width": "0.05"},
        "edge of-first": {**edge, "stroke": first[0]},
        "edge of-second": {**edge, "stroke": second[0]},
        "label": {"fill": "#556066", "font-size": "0.28"},
        **_piece_colours("first", *first),
        **_piece_colours("second", *second),
        "win-edge": {"fill": "none", "stroke": "#10181b", "stroke-width": "0.15"},
        "win": {"fill": "none", "stroke": "#ffffff", "stroke-width": "0.08"},
        "heat": {"stroke": "#3f6d72", "stroke-width": "0.02"},
        "heat best": {"stroke": "#0b4850", "stroke-width": "0.07"},
        "note": {"fill": "#0d1517", "font-weight": "600"},
        "status": {"fill": INK, "font-size": "0.3", "font-weight": "600"},
    }  # fmt: skip


def _piece_colours(owner: str, body: str, edge: str, letter: str) -> dict[str, dict[str, str]]:
    return {
        f"body {owner}": {"fill": body, "stroke": edge, "stroke-width": "0.035"},
        f"ridge {owner}": {"fill": "none", "stroke": edge, "stroke-width": "0.035"},
        f"letter {owner}": {"fill": letter, "font-size": "0.4", "font-weight": "700"},
        f"last {owner}": {"fill": "none", "stroke": letter, "stroke-width": "0.06"},
    }


def mixed(colour: str, share: float, other: str) -> str:
    """Return a mixture of two colours #rrggbb, with `share` in [0, 1] of the first."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
