"""Digests of code change with whatever numba would make other machine code of, and only then."""

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
"""
RULES = """
import numba
import numpy as np
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
        return SLOPE(shape)
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
    """Digest the rules as another process would find them."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def digest_of(rules: str = RULES, helpers: str = HELPERS, **attributes: Any) -> str:
        for name, source in (("my_helpers", helpers), ("my_rules", rules)):
            (tmp_path / f"{name}.py").write_text(source)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        module = importlib.import_module("my_rules")
        for name, value in attributes.items():
            setattr(module, name, value)
        taken = CodeDigest(lambda kind: [module.Rules] if kind is module.Shape else [], _is_covered)
        taken.add_type(module.Shape)
        return taken.hexdigest()

    yield digest_of
    for name in ("my_helpers", "my_rules"):
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
    ],
)
def test_an_edit_changes_the_digest(digest: Callable[..., str], old: str, new: str) -> None:
    assert (RULES + HELPERS).count(old) == 1
    before = digest()
    assert digest(RULES.replace(old, new), HELPERS.replace(old, new)) != before


def test_values_that_no_source_shows_change_the_digest(digest: Callable[..., str]) -> None:
    table = np.arange(3)
    before = digest(CORNER=1, TABLE=table)
    assert before == digest(CORNER=1, TABLE=table.copy())
    assert before != digest(CORNER=1.0, TABLE=table)
    assert before != digest(CORNER=1, TABLE=table.astype(np.int8))


def test_what_kernels_cannot_contain_does_not_change_the_digest(
    digest: Callable[..., str],
) -> None:
    assert digest(LOG=[], OTHER={}) == digest(LOG=[1], OTHER={1: object()})
    assert digest(CORNER=object()) == digest(CORNER=object())
