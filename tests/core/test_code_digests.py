"""Digests of kernel code, which change exactly when numba would generate different machine code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerolab.core.code_digests import CodeDigest

HELPERS = """
BONUS = 3
def inner(value):
    return value + 1
def scaled(value):
    raise NotImplementedError
"""
EFFECTS = """
import numba
import my_helpers
LIMITS = {"low": 7}
@numba.extending.overload(my_helpers.scaled)
def _(value):
    limit = LIMITS["low"]
    return lambda value: value * limit
"""
RULES = """
import typing
import numba
import numpy as np
import my_effects
import my_helpers
from my_helpers import BONUS, inner
TABLE = np.arange(3)
class Shape(tuple):
    _fields = ("side",)
class Base:
    @staticmethod
    def corners(shape):
        return 4 * CORNER
class Rules(Base):
    WEIGHT = 2
    @staticmethod
    def area(shape):
        return inner(shape[0]) + BONUS + my_helpers.inner(TABLE[0]) + Rules.WEIGHT
    @staticmethod
    def outline(shape):
        return OUTLINE(shape)
    @staticmethod
    def slope(shape):
        return SLOPE(shape) + my_helpers.scaled(PLACE.row)
    @staticmethod
    def chosen(shape):
        return FIRST(shape) + SECOND(shape) + CHOSEN(shape)
class Place(typing.NamedTuple):
    row: int = 0
PLACE = Place(5)
class PlaceRules:
    @staticmethod
    def distance(place):
        return place.row + 11
@numba.njit(error_model="numpy")
def FIRST(shape):
    return 1
@numba.njit
def SECOND(shape):
    return 2
CHOSEN = (FIRST, SECOND)[0]
CORNER = 1
@numba.njit
def OUTLINE(shape):
    return shape[0] * 4
def slopes(degree):
    def slope(shape, start=0):
        return start + degree * shape[0]
    return slope
SLOPE = slopes(2)
"""


@pytest.fixture
def digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A function that digests the rules as a new process would load them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def digest_rules(
        rules: str = RULES, helpers: str = HELPERS, effects: str = EFFECTS, **attributes: Any
    ) -> str:
        sources = {"my_helpers": helpers, "my_effects": effects, "my_rules": rules}
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module("my_rules")
        for name, value in attributes.items():
            for each in sources if name == "__file__" else ("my_rules",):
                setattr(sys.modules[each], name, value)
        implementations = {module.Shape: [module.Rules], module.Place: [module.PlaceRules]}
        code_digest = CodeDigest(lambda kind: implementations.get(kind, []), _is_covered)
        code_digest.add_type(module.Shape)
        return code_digest.hexdigest()

    yield digest_rules
    for name in ("my_helpers", "my_effects", "my_rules"):
        sys.modules.pop(name, None)


def _is_covered(module: str) -> bool:
    return module.startswith("zerolab.")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BONUS = 3", "BONUS = 4"),
        ("value + 1", "value + 2"),
        ("WEIGHT = 2", "WEIGHT = 3"),
        ("CORNER = 1", "CORNER = 2"),
        ("4 * CORNER", "5 * CORNER"),
        ("np.arange(3)", "np.arange(1, 4)"),
        ("shape[0] * 4", "shape[0] * 5"),
        ("slopes(2)", "slopes(3)"),
        ("start=0", "start=1"),
        ('("side",)', '("size",)'),
        ("Place(5)", "Place(6)"),
        ("place.row + 11", "place.row + 12"),
        ("SECOND)[0]", "SECOND)[1]"),
        ('error_model="numpy"', 'error_model="python"'),
        ("value * limit", "value + limit"),
        ('"low": 7', '"low": 8'),
    ],
)
def test_edit_changes_digest(digest: Callable[..., str], old: str, new: str) -> None:
    sources = [RULES, HELPERS, EFFECTS]
    assert "".join(sources).count(old) == 1
    # As in a notebook, where only objects in memory are available.
    without_sources = {"__file__": ""}
    before = digest(*sources), digest(*sources, **without_sources)
    edited = [each.replace(old, new) for each in sources]
    assert before[0] != digest(*edited)
    assert before[1] != digest(*edited, **without_sources)
    assert before == (digest(*sources), digest(*sources, **without_sources))


def test_values_without_source_change_digest(digest: Callable[..., str]) -> None:
    table = np.arange(3)
    before = digest(CORNER=1, TABLE=table)
    assert before == digest(CORNER=1, TABLE=table.copy())
    assert before != digest(CORNER=1.0, TABLE=table)
    assert before != digest(CORNER=1, TABLE=table.astype(np.int8))


def test_unused_names_and_plain_objects_do_not_change_digest(
    digest: Callable[..., str],
) -> None:
    assert digest(LOG=[], OTHER={}) == digest(LOG=[1], OTHER={1: object()}), "unused names"
    assert digest(CORNER=object()) == digest(CORNER=object())
