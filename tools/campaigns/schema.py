"""Random values that match or nearly match a JSON schema."""

from __future__ import annotations

import random
from typing import Any

_TEXTS = (
    "", "x", "trained", "here/trained", "trained@0", "trained?simulations=4", "random", "mcts:4",
    "gobang:3x3:3", "othello:6x6", "connect_four:6x7", "gobang:999x999", "a1", "b2", "c3", "d1",
    "pass", "../../etc/passwd", "/dev/zero", "\x00", "\x1b[2J", "\u202e", "ünï", "x" * 100_000,
    "XXX", "...", "XO.", 'gtp:"sleep 600"', "played", "table-5.1", "smoke", "selfplay", "gate",
    "pgn", "jsonl",
)  # fmt: skip
_WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 10**30, 1e308, "", "x", [], {}, [[]], {"a": {}},
    [None] * 1000,
)  # fmt: skip


_GAMES = ("gobang:3x3:3", "gobang:3x3:3", "othello:6x6", "connect_four:6x7")
_AGENTS = ("trained", "trained@0", "random", "mcts:20", "agent.zerolab", "trained?simulations=4")
_FITTING: dict[str, tuple[Any, ...]] = {
    "game": _GAMES, "agent": _AGENTS, "network": _AGENTS, "run": ("trained",),
    "moves": ("b2", "a1"), "source": ("trained", "played"), "tournament": ("played",),
    "name": ("table-5.1",),
    "scale": ("smoke",), "player": ("random", "trained@0"), "board": ("X..", ".O.", "..."),
    "simulations": (1, 20, 200), "seconds": (0.1, 1), "iteration": (1, 2), "stage": ("gate",),
}  # fmt: skip
"""Plausible values for parameters, by name."""


class Drawn:
    """Generator of random values for the schemas of an OpenAPI document."""

    def __init__(self, document: dict[str, Any], draw: random.Random) -> None:
        self._document = document
        self._draw = draw

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        """Return a value that usually matches a schema, or a typical value for this name."""
        if self._draw.random() < 0.04 or depth > 8:
            return self._draw.choice(_WRONG)
        if "$ref" in schema:
            return self.value(self._resolved(schema["$ref"]), name, depth)
        for several in ("anyOf", "oneOf", "allOf"):
            if several in schema:
                return self.value(self._draw.choice(schema[several]), name, depth + 1)
        is_single = schema.get("type") not in ("array", "object")
        if is_single and name in _FITTING and self._draw.random() < 0.7:
            return self._draw.choice(_FITTING[name])
        return self._plain(schema, name, depth)

    def _plain(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        """Return a value of a schema's type, without following references."""
        if "enum" in schema:
            return self._draw.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        make: Any = {
            "object": self._object, "array": self._array, "integer": self._number,
            "number": self._number, "boolean": lambda *_: self._draw.random() < 0.5,
            "null": lambda *_: None,
        }.get(schema.get("type", ""), lambda *_: self._draw.choice(_TEXTS))  # fmt: skip
        return make(schema, name, depth)

    def _resolved(self, name: str) -> dict[str, Any]:
        schema: Any = self._document
        for part in name.removeprefix("#/").split("/"):
            schema = schema[part]
        return dict(schema)

    def _object(self, schema: dict[str, Any], name: str, depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        fields = {
            key: self.value(each, key, depth + 1)
            for key, each in schema.get("properties", {}).items()
            if self._draw.random() < (0.97 if key in required else 0.3)
        }
        if self._draw.random() < 0.04:
            fields["surplus"] = self._draw.choice(_WRONG)
        return fields

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        count = self._draw.choice([0, 1, 1, 2, 3, 5, 26, 301])
        if count > 5:
            return [self.value(schema.get("items", {}), name, depth + 1)] * count
        return [self.value(schema.get("items", {}), name, depth + 1) for _ in range(count)]

    def _number(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        low, high = schema.get("minimum", 0), schema.get("maximum", 1000)
        return self._draw.choice([low, high, low - 1, high + 1, 1, 2, 5, 0, -1, 0.5, 2**63, 10**25])
