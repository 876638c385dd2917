"""Flattening of nested tables to dotted keys."""

from __future__ import annotations

import pytest

from zerolab.core.errors import UserError
from zerolab.core.nested_tables import flatten

_HEADS = ({"name": "policy", "weight": 1.0}, {"name": "outcome", "layers": {"count": 2}})
_TABLE = {"seed": 3, "noise": {}, "search": {"name": "puct", "c": 1.5}, "heads": _HEADS}


def test_keys_of_nested_tables_are_dotted():
    assert list(flatten(_TABLE)) == [
        ("seed", 3), ("noise", {}), ("search.name", "puct"), ("search.c", 1.5), ("heads", _HEADS)
    ]  # fmt: skip


def test_keys_must_be_text():
    with pytest.raises(UserError, match=r"search.1 is not a key"):
        dict(flatten({"search": {1: 2}}))


def test_keys_of_listed_tables_contain_their_names():
    heads = {key: value for key, value in flatten(_TABLE, into_lists=True) if "heads" in key}
    assert heads == {
        "heads": ["policy", "outcome"],
        "heads.policy.weight": 1.0,
        "heads.outcome.layers.count": 2,
    }


def test_empty_lists_and_tuples_are_equal_values():
    assert dict(flatten({"a": ()}, into_lists=True)) == dict(flatten({"a": []}, into_lists=True))
