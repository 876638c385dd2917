"""Colours of boards in SVG: those of the light theme in `web/static/style.css`.

A browser test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping

from zerolab.report.board_shapes import BoardDrawing

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
