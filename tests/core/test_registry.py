"""Registries and the nearest spelling."""

from __future__ import annotations

import pytest

from zerolab.core.errors import UserError, nearest
from zerolab.core.registry import Registry


@pytest.fixture
def losses() -> Registry[int]:
    made: Registry[int] = Registry("loss")
    made.add("sum", 1)
    made.add("product", 2)
    return made


def test_a_registry_is_a_mapping(losses: Registry[int]) -> None:
    assert dict(losses) == {"sum": 1, "product": 2}
    assert "sum" in losses
    assert "policy" not in losses
    assert len(losses) == 2


def test_unknown_names_are_explained(losses: Registry[int]) -> None:
    with pytest.raises(UserError) as caught:
        losses["prodct"]
    expected = 'unknown loss "prodct": expected one of sum, product; did you mean "product"?'
    assert str(caught.value) == expected


def test_a_name_is_taken_once(losses: Registry[int]) -> None:
    with pytest.raises(ValueError, match="loss 'sum' is registered twice"):
        losses.add("sum", 3)
    assert losses["sum"] == 1


def test_nearest_spelling_or_nothing() -> None:
    assert nearest("otello", ["othello", "gobang"]) == '; did you mean "othello"?'
    assert nearest("WRoRa", ["baseline", "wrora"]) == '; did you mean "wrora"?'
    assert nearest("xyz", ["othello", "gobang"]) == ""
    assert nearest("x", []) == ""
