"""Board styles, which games declare as data, and the shapes drawn from them, in units of a cell.

Pages and images draw the same shapes. The server sends `BoardShapes` with every position or line of
positions. The data are small because shapes repeated in every cell are described only once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

Point = tuple[float, float]
EdgeOwner = Literal["first", "second"]

_HEX_STEP = math.sqrt(3) / 2  # distance between two rows of hexagons whose width is 1
_HEX_RADIUS = 1 / math.sqrt(3)
_HOLE = 0.41
_RADII = {"squares": 0.41, "points": 0.45, "holes": _HOLE, "hexagons": 0.37}  # of pieces
_MARGIN = 0.55  # width of the margin for row and column labels
_RIM = 0.14  # distance by which the board extends beyond its cells
_ENTRY = -0.33  # height at which a piece is half hidden by the frame
_OWNERS = {"first": "X", "second": "O"}


class BoardStyle(BaseModel):
    """Appearance of a game's board; by default, squares with red and blue pieces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cells: Literal["squares", "points", "holes", "hexagons"] = "squares"
    """Points are crossings of lines. Holes are in an upright frame; pieces fall into its
    columns. Each row of hexagons is half a cell further to the right than the row above."""
    surface: Literal["plain", "felt", "wood", "frame"] = "plain"
    """Material of the board."""
    pieces: Literal["red_and_blue", "red_and_yellow", "black_and_white"] = "red_and_blue"
    """Colours of the first and the second player."""
    edges: tuple[EdgeOwner, EdgeOwner, EdgeOwner, EdgeOwner] | None = None
    """Owners of the top, right, bottom and left edge, in games that connect edges."""
    decided_by: Literal["line", "count", "other"] = "other"
    """Criterion that decides a game: a line or chain of pieces, which is marked, or the number of
    pieces, which is shown. With ``line``, the first two words of a state must be the pieces of the
    mover and of the opponent, as in docs/add-a-game.md."""


class Shape(BaseModel):
    """SVG element without children."""

    model_config = ConfigDict(frozen=True)

    tag: str
    css_class: str
    """CSS class, which determines the colours; see `board_colours`."""
    attributes: dict[str, str | float] = {}
    text: str = ""
    is_per_cell: bool = False
    """True if the shape is drawn around the centre of every cell."""
    cell_hole_path: str = ""
    """Path, without its starting point, that cuts a hole around the centre of every cell."""


class Label(NamedTuple):
    """Name of a row or column, centred at (x, y)."""

    x: float
    y: float
    text: str


class BoardShapes(BaseModel):
    """Geometry of a board. Cells are numbered row by row."""

    model_config = ConfigDict(frozen=True)

    rows: int
    columns: int
    origin: Point
    """Centre of the first cell."""
    row_step: Point
    """Step from a cell to the cell in the next row; the step to the next column is (1, 0)."""
    bounds: tuple[float, float, float, float]
    """Left, top, width and height of the board with its labels."""
    frame: tuple[float, float, float, float]
    """Left, top, width and height of the board without its labels."""
    drop_height: float | None
    """Height from which pieces fall into columns; None if they are placed directly in cells."""
    shapes_below_pieces: list[Shape]
    """Board below the pieces; rotated by half a turn when seen from the other side."""
    shapes_above_pieces: list[Shape]
    """Frame in front of the pieces."""
    labels: list[Label]
    labels_from_behind: list[Label]
    """Labels seen from the other side."""
    cell_symbols: dict[str, list[Shape]]
    """Drawings around the centre of a cell: pieces ``first`` and ``second``, marks
    ``last first``, ``last second`` and ``win``, the plate of a ``hint``, and the clickable
    ``area``."""
    fades_other_pieces: bool
    """True if a winning line is highlighted by fading all other pieces."""

    def cell_centre(self, cell: int) -> Point:
        """Return the coordinates of the centre of a cell."""
        row, column = divmod(cell, self.columns)
        (left, top), (right, down) = self.origin, self.row_step
        return left + column + row * right, top + row * down


def board_shapes(drawing: BoardStyle, rows: int, labels: Sequence[str]) -> BoardShapes:
    """Return the shapes of a board, given the labels of its columns."""
    return _Builder(drawing, rows, labels).build()


class _Builder:
    """Builder of the shapes of a board."""

    def __init__(self, drawing: BoardStyle, rows: int, labels: Sequence[str]) -> None:
        self._drawing, self._rows, self._labels = drawing, rows, labels
        self._columns = len(labels)
        self._is_hexagonal = drawing.cells == "hexagons"
        self._is_upright = drawing.cells == "holes"
        self._felt = " felt" if drawing.surface == "felt" else ""
        self._width: float = self._columns
        self._height: float = rows
        if self._is_hexagonal:
            self._width = self._columns + (rows - 1) / 2
            self._height = (rows - 1) * _HEX_STEP + 2 * _HEX_RADIUS
        self._frame = (-_RIM, -_RIM, self._width + 2 * _RIM, self._height + 2 * _RIM)

    def build(self) -> BoardShapes:
        left, top, right, bottom = _MARGIN + _RIM, _MARGIN + _RIM, 1.2 * _RIM, 1.2 * _RIM
        if self._is_upright:
            left, top, bottom = 1.2 * _RIM, 1.2 * _RIM, _MARGIN + _RIM
        return BoardShapes(
            rows=self._rows,
            columns=self._columns,
            origin=self._centre(0, 0),
            row_step=(0.5, _HEX_STEP) if self._is_hexagonal else (0.0, 1.0),
            bounds=(-left, -top, self._width + left + right, self._height + top + bottom),
            frame=self._frame,
            drop_height=_ENTRY if self._is_upright else None,
            shapes_below_pieces=self._shapes_below_pieces(),
            shapes_above_pieces=self._shapes_above_pieces(),
            labels=list(self._names(is_behind=False)),
            labels_from_behind=list(self._names(is_behind=True)),
            cell_symbols=self._symbols(),
            # Lines would show through pieces on points.
            fades_other_pieces=self._drawing.surface != "wood",
        )

    def _centre(self, row: float, column: float) -> Point:
        if self._is_hexagonal:
            return column + row / 2 + 0.5, row * _HEX_STEP + _HEX_RADIUS
        return column + 0.5, row + 0.5

    def _shapes_below_pieces(self) -> list[Shape]:
        left, top, width, height = self._frame
        slab = {"x": left, "y": top, "width": width, "height": height, "rx": _RIM}
        if self._is_hexagonal:
            return [*self._edges(), self._cell()]
        if self._is_upright:
            return [_shape("rect", "back", slab)]
        cells = self._crossings() if self._drawing.cells == "points" else self._cell()
        name = "slab plain" if self._drawing.surface == "plain" else f"slab{self._felt}"
        return [_shape("rect", name, slab), cells, *self._stars()]

    def _shapes_above_pieces(self) -> list[Shape]:
        if not self._is_upright:
            return []
        turns = (
            f"a{_RIM} {_RIM} 0 0 1 {x * _RIM} {y * _RIM}"
            for x, y in ((1, 1), (-1, 1), (-1, -1), (1, -1))
        )
        sides = (f"h{self._width}", f"v{self._height}", f"h-{self._width}", f"v-{self._height}")
        outline = "".join(side + turn for side, turn in zip(sides, turns, strict=True))
        path: dict[str, str | float] = {"fill-rule": "evenodd", "d": f"M0 {-_RIM}{outline}z"}
        half = f"a{_HOLE} {_HOLE} 0 1 0"
        hole = f"m-{_HOLE} 0{half} {2 * _HOLE} 0{half} -{2 * _HOLE} 0"
        return [
            Shape(tag="path", css_class="sheet", attributes=path, cell_hole_path=hole),
            _shape("circle", "rim", {"r": _HOLE + 0.02}, is_per_cell=True),
        ]

    def _names(self, *, is_behind: bool) -> Iterator[Label]:
        """Yield the names of the columns and rows, as used in move names."""
        y = self._height + _RIM + 0.26 if self._is_upright else -_RIM - 0.24
        for column, label in enumerate(self._labels):
            seen = self._columns - 1 - column if is_behind else column
            yield Label(round(self._centre(0, seen)[0], 4), round(y, 4), label)
        for row in range(0 if self._is_upright else self._rows):
            x, middle = self._centre(self._rows - 1 - row if is_behind else row, 0)
            yield Label(round(x - 0.5 - _RIM - 0.24, 4), round(middle, 4), str(row + 1))

    def _symbols(self) -> dict[str, list[Shape]]:
        radius = _RADII[self._drawing.cells]
        ring = {"r": radius - 0.02}
        plate = {"x": -0.42, "y": -0.36, "width": 0.84, "height": 0.72, "rx": 0.16}
        hint = ("circle", {"r": 0.43}) if self._is_upright else ("rect", plate)
        return {
            **{owner: list(self._piece(owner, radius)) for owner in _OWNERS},
            **{
                f"last {owner}": [_shape("circle", f"last of-{owner}", {"r": 0.27})]
                for owner in _OWNERS
            },
            "win": [_shape("circle", name, ring) for name in ("win-edge", "win")],
            "hint": [_shape(hint[0], "heat", hint[1])],
            "area": [self._cell()],
        }

    def _piece(self, owner: str, radius: float) -> Iterator[Shape]:
        """Yield a disc and, unless pieces are black and white, a letter that shows its owner."""
        yield _shape("circle", f"body of-{owner}", {"r": radius})
        if self._drawing.pieces == "red_and_yellow":
            yield _shape("circle", f"ridge of-{owner}", {"r": round(0.7 * radius, 4)})
        if self._drawing.pieces != "black_and_white":
            yield _shape("text", f"letter of-{owner}", {"y": 0.01}, _OWNERS[owner])

    def _cell(self) -> Shape:
        name = f"cell{self._felt}"
        if self._is_hexagonal:
            return _shape("polygon", name, {"points": _joined(_hexagon(0, 0))}, is_per_cell=True)
        square = {"x": -0.5, "y": -0.5, "width": 1, "height": 1}
        return _shape("rect", name, square, is_per_cell=True)

    def _crossings(self) -> Shape:
        right, bottom = self._columns - 0.5, self._rows - 0.5
        across = (f"M0.5 {row + 0.5}H{right}" for row in range(self._rows))
        down = (f"M{column + 0.5} 0.5V{bottom}" for column in range(self._columns))
        return _shape("path", "lines", {"d": "".join([*across, *down])})

    def _stars(self) -> list[Shape]:
        """Return dots for orientation: on line crossings, or on the corners of felt squares."""
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
        return [
            _shape("circle", f"star{self._felt}", {"cx": x, "cy": y, "r": 0.07}) for y, x in places
        ]

    def _edges(self) -> list[Shape]:
        """Return coloured borders, each along the outer corners of the hexagons of one edge."""
        if self._drawing.edges is None:
            return []
        bottom, right = self._rows - 1, self._columns - 1

        def corners(
            count: int, place: Callable[[int], Point], numbers: Sequence[int]
        ) -> list[Point]:
            hexagons = (_hexagon(*self._centre(*place(index))) for index in range(count))
            return [hexagon[number] for hexagon in hexagons for number in numbers]

        sides = [
            corners(self._columns, lambda column: (0, column), (5, 0, 1)),
            corners(self._rows, lambda row: (row, right), (0, 1, 2)),
            corners(self._columns, lambda column: (bottom, column), (4, 3, 2)),
            corners(self._rows, lambda row: (row, 0), (5, 4, 3)),
        ]
        return [
            _shape("polyline", f"edge of-{owner}", {"points": _joined(_trimmed(points, side))})
            for side, (owner, points) in enumerate(zip(self._drawing.edges, sides, strict=True))
        ]


def _shape(
    tag: str,
    css_class: str,
    attributes: dict[str, str] | dict[str, float],
    text: str = "",
    *,
    is_per_cell: bool = False,
) -> Shape:
    return Shape(
        tag=tag,
        css_class=css_class,
        attributes=dict(attributes),
        text=text,
        is_per_cell=is_per_cell,
    )


def _hexagon(x: float, y: float) -> list[Point]:
    """Return the corners of a hexagon, clockwise from the top."""
    angles = (corner * math.pi / 3 for corner in range(6))
    return [(x + _HEX_RADIUS * math.sin(a), y - _HEX_RADIUS * math.cos(a)) for a in angles]


def _trimmed(points: list[Point], side: int) -> list[Point]:
    """Shorten an edge so that, at sharp corners, two edges meet in the middle of a shared side."""
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
