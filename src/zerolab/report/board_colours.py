"""Colours of pages and boards, as attributes for images and as a style sheet for pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

THEME_COLOUR_PAIRS: Mapping[str, tuple[str, str]] = {
    "paper": ("#fbfaf7", "#14181a"),
    "panel": ("#ffffff", "#1c2225"),
    "ink": ("#1d2427", "#e8ebe9"),
    "soft": ("#556066", "#a6b0b2"),
    "line": ("#d5d9d6", "#374146"),
    "accent": ("#1b6670", "#6cc5cf"),
    "on-accent": ("#ffffff", "#0d1517"),
    "good": ("#1f7a44", "#6fcf8f"),
    "bad": ("#b3261e", "#ff8a7e"),
    "warn": ("#8a5a00", "#e6b450"),
    "cell": ("#f1eee6", "#2b3437"),
    "cell-edge": ("#b9b29f", "#4d595e"),
    "felt": ("#2f8555", "#246b44"),
    "felt-line": ("#1d5a39", "#123c25"),
    "felt-frame": ("#17442b", "#0d2b1b"),
    "wood": ("#e3bb78", "#b08a4e"),
    "wood-edge": ("#b98b46", "#7c5d2c"),
    "wood-line": ("#6d4c1c", "#3d2a0d"),
    "frame": ("#2563c9", "#1f4f9f"),
    "frame-edge": ("#1a4896", "#143872"),
    "frame-back": ("#f3f6fb", "#0e1417"),
    "legal": ("rgba(10, 30, 35, 0.42)", "rgba(255, 255, 255, 0.4)"),
    "win": ("#ffffff", "#ffffff"),
    "win-edge": ("#10181b", "#10181b"),
    "focus": ("#10181b", "#ffffff"),
    "hint-least": ("#f4f8f8", "#26373a"),
    "hint-most": ("#5fc4c9", "#17747c"),
    "hint-edge": ("#3f6d72", "#7fa9ad"),
    "hint-best": ("#0b4850", "#b6f0f5"),
    "hint-wins": ("#84d3a0", "#1d6b3c"),
    "hint-draws": ("#ecdca0", "#665617"),
    "hint-loses": ("#f3aba2", "#8c2f27"),
    "on-hint": ("#0d1517", "#ffffff"),
    "heat": ("27, 102, 112", "108, 197, 207"),
}
"""Colours in the light and in the dark theme, with contrasts that meet WCAG 2.1 AA."""

PAPER, INK = THEME_COLOUR_PAIRS["paper"][0], THEME_COLOUR_PAIRS["ink"][0]
"""Colours of the background and text of images, which use the light theme."""

_PIECES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "red_and_blue": {
        "first": ("#c63d2f", "#ec7263"),
        "first-edge": ("#8e2419", "#f7a89e"),
        "on-first": ("#ffffff", "#3d0d08"),
        "second": ("#2d5fb3", "#7aa7f0"),
        "second-edge": ("#1b3f7d", "#b5cdf7"),
        "on-second": ("#ffffff", "#0a1f45"),
    },
    "red_and_yellow": {
        "first": ("#d93a2b", "#d93a2b"),
        "first-edge": ("#a3231a", "#a3231a"),
        "on-first": ("#7f150e", "#7f150e"),
        "second": ("#f6c92a", "#f6c92a"),
        "second-edge": ("#c2930b", "#c2930b"),
        "on-second": ("#8f6a00", "#8f6a00"),
    },
    "black_and_white": {
        "first": ("#1d2225", "#1d2225"),
        "first-edge": ("#454f54", "#7d888c"),
        "on-first": ("#ffffff", "#ffffff"),
        "second": ("#f6f4ee", "#f6f4ee"),
        "second-edge": ("#9aa19f", "#9aa19f"),
        "on-second": ("#1d2225", "#1d2225"),
    },
}
"""Colours of pieces, their edges and the marks on them, in both themes."""

_PAINTS: Mapping[str, Mapping[str, str]] = {
    "slab": {"fill": "wood", "stroke": "wood-edge", "stroke-width": "0.03"},
    "slab plain": {"fill": "cell-edge", "stroke": "none"},
    "slab felt": {"fill": "felt-frame", "stroke": "none"},
    "cell": {"fill": "cell", "stroke": "cell-edge", "stroke-width": "0.03"},
    "cell felt": {"fill": "felt", "stroke": "felt-line", "stroke-width": "0.03"},
    "lines": {
        "fill": "none", "stroke": "wood-line", "stroke-width": "0.025", "stroke-linecap": "square",
    },
    "star": {"fill": "wood-line"},
    "star felt": {"fill": "felt-line"},
    "back": {"fill": "frame-back"},
    "sheet": {"fill": "frame", "stroke": "frame-edge", "stroke-width": "0.04"},
    "rim": {"fill": "none", "stroke": "frame-edge", "stroke-width": "0.05"},
    **{
        f"edge of-{owner}": {
            "fill": "none", "stroke": owner, "stroke-width": "0.32",
            "stroke-linejoin": "round", "stroke-linecap": "round",
        }
        for owner in ("first", "second")
    },
    "label": {"fill": "soft", "font-size": "0.28"},
    **{
        f"{part} of-{owner}": paint
        for owner in ("first", "second")
        for part, paint in {
            "body": {"fill": owner, "stroke": f"{owner}-edge", "stroke-width": "0.035"},
            "ridge": {"fill": "none", "stroke": f"{owner}-edge", "stroke-width": "0.035"},
            "letter": {"fill": f"on-{owner}", "font-size": "0.4", "font-weight": "700"},
            "last": {"fill": "none", "stroke": f"on-{owner}", "stroke-width": "0.06"},
        }.items()
    },
    "faded": {"opacity": "0.6"},
    "win-edge": {"fill": "none", "stroke": "win-edge", "stroke-width": "0.15"},
    "win": {"fill": "none", "stroke": "win", "stroke-width": "0.08"},
    "heat": {"stroke": "hint-edge", "stroke-width": "0.02"},
    "heat best": {"stroke": "hint-best", "stroke-width": "0.07"},
    "note": {"fill": "on-hint", "font-weight": "600"},
}  # fmt: skip
"""SVG attributes by class; a colour is named as in `THEME_COLOUR_PAIRS` or `_PIECES`."""

_HINT_RULES = """\
.wins { --kind: var(--hint-wins); }
.draws { --kind: var(--hint-draws); }
.loses { --kind: var(--hint-loses); }
.board .heat {
  fill: color-mix(in srgb, var(--tone, var(--hint-most)) var(--share), var(--hint-least));
}
.board .heat:is(.wins, .draws, .loses) {
  --tone: color-mix(in srgb, var(--kind) var(--certainty, 100%), var(--hint-draws));
}
"""
"""CSS counterpart of `hint_fill_colour`: ``--share`` is its `strength`, and ``--certainty`` its
`certainty`."""


@lru_cache
def board_colours(pieces: str) -> Mapping[str, Mapping[str, str]]:
    """Return the light theme's SVG attributes of each CSS class.

    Raises KeyError if there is no palette called `pieces`.
    """
    colours = {
        name: light for name, (light, _) in {**THEME_COLOUR_PAIRS, **_PIECES[pieces]}.items()
    }
    return {
        name: {attribute: colours.get(value, value) for attribute, value in paint.items()}
        for name, paint in _PAINTS.items()
    }


@lru_cache
def style_sheet() -> str:
    """Return the colours of both themes, of pieces and of boards as CSS."""
    return "\n".join([*_theme_rules(), *map(_paint_rule, _PAINTS), _HINT_RULES])


def _theme_rules() -> Iterator[str]:
    sets: dict[str, Mapping[str, tuple[str, str]]]
    sets = {":root": {**THEME_COLOUR_PAIRS, **_PIECES["red_and_blue"]}}
    sets |= {f".{name}": colours for name, colours in _PIECES.items()}
    for selector, colours in sets.items():
        dark = ':root[data-theme="dark"]' + ("" if selector == ":root" else f" {selector}")
        for theme, each in enumerate((selector, dark)):
            yield _rule(each, {f"--{name}": pair[theme] for name, pair in colours.items()})


def _paint_rule(name: str) -> str:
    """Return the rule for a class of shapes on boards and in text."""
    colours = THEME_COLOUR_PAIRS.keys() | _PIECES["red_and_blue"].keys()
    values = {
        attribute: f"var(--{value})" if value in colours else value
        for attribute, value in _PAINTS[name].items()
    }
    if "font-size" in values:
        values["font-size"] += "px"
    return _rule(f":is(.board, .swatch-piece) .{name.replace(' ', '.')}", values)


def _rule(selector: str, values: Mapping[str, str]) -> str:
    return f"{selector} {{ {' '.join(f'{name}: {value};' for name, value in values.items())} }}"


def hint_fill_colour(result: str | None, certainty: float, strength: float) -> str:
    """Return the colour of a hint in the light theme.

    `result` is ``wins``, ``draws``, ``loses`` or, if the value is unknown, None. `certainty` in
    [0, 1] is the share of the result's colour in the tone; the rest is the colour of draws.
    `strength` in [0, 1] is the share of the tone in the returned colour.
    """
    light = {name: colours[0] for name, colours in THEME_COLOUR_PAIRS.items()}
    tone = light["hint-most"]
    if result is not None:
        tone = _mixed(light[f"hint-{result}"], certainty, light["hint-draws"])
    return _mixed(tone, strength, light["hint-least"])


def _mixed(colour: str, share: float, other: str) -> str:
    """Return a mixture of two colours #rrggbb, with `share` in [0, 1] of the first."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
