"""Registries, plug-ins, and quotes and suggestions in error messages."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import get_args

import pytest

from zerolab.core.errors import PluginWarning, UserError, did_you_mean, one_line, quoted
from zerolab.core.registry import PluginLayer, Registry, load_plugins


@pytest.fixture
def losses() -> Registry[int]:
    registry: Registry[int] = Registry("loss")
    registry.add("sum", 1)
    registry.add("product", 2)
    return registry


def test_registry_is_mapping(losses: Registry[int]) -> None:
    assert dict(losses) == {"sum": 1, "product": 2}
    assert "sum" in losses
    assert "policy" not in losses
    assert len(losses) == 2


def test_unknown_names_are_explained(losses: Registry[int]) -> None:
    with pytest.raises(UserError) as caught:
        losses["prodct"]
    expected = 'unknown loss "prodct": expected one of sum, product; did you mean "product"?'
    assert str(caught.value) == expected


def test_duplicate_name_is_refused(losses: Registry[int]) -> None:
    with pytest.raises(ValueError, match="loss 'sum' is registered twice"):
        losses.add("sum", 3)
    assert losses["sum"] == 1


def test_nearest_spelling_is_suggested() -> None:
    assert did_you_mean("otello", ["othello", "gobang"]) == '; did you mean "othello"?'
    assert did_you_mean("WRoRa", ["baseline", "wrora"]) == '; did you mean "wrora"?'
    assert did_you_mean("xyz", ["othello", "gobang"]) == ""
    assert did_you_mean("x", []) == ""
    assert did_you_mean("othello" * 1000, ["othello"]) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("othello", '"othello"'),
        ("a\nb\x1b", '"a\\nb\\x1b"'),
        ("caf\xe9 \udcff", '"café \\udcff"'),
        ("x" * 5000, f'"{"x" * 40}..." (5,000 characters)'),
        (5, "5"),
        (2.5, "2.5"),
        (None, "None"),
        (-(16**5000), "a number with about 6,021 digits"),
        ([1, "two"], "[1, 'two']"),
        ([16**5000], "[a number with about 6,021 digits]"),
        (Path("runs/demo"), "runs/demo"),
        (Path("a" * 5000, "config.toml"), "..." + "a" * 238 + "/config.toml"),
    ],
    ids=count(),
)
def test_values_are_quoted_on_one_short_line(value: object, expected: str) -> None:
    assert quoted(value) == expected


def test_deeply_nested_values_are_abbreviated() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert quoted(nested) == "[[[[...]]]]"


def test_foreign_messages_become_one_line() -> None:
    assert one_line("one\n  two\n") == "one two"
    assert len(one_line("x" * 5000)) < 400


LAYERS = get_args(PluginLayer)


@pytest.fixture
def announce(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that announces the module `added` as a plug-in of every layer."""
    announcement = tmp_path / "third_party-1.dist-info" / "entry_points.txt"
    announcement.parent.mkdir()
    announcement.write_text("".join(f"[zerolab.{each}]\nmine = added\n" for each in LAYERS))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "added", raising=False)
    return tmp_path / "added.py"


@pytest.mark.parametrize("layer", LAYERS)
def test_plugins_are_imported(announce: Path, layer: PluginLayer) -> None:
    announce.write_text("")
    load_plugins(layer)
    assert sys.modules.pop("added").__file__ == str(announce)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("raise ValueError('one\\ntwo')", "one two"),
        ("assert False", "AssertionError"),
        ("import sys; sys.exit('wrong version')", "wrong version"),
        ("raise SystemExit", "SystemExit"),
        ("one two", "invalid syntax (added.py, line 1)"),
    ],
)
def test_broken_plugin_is_left_out_with_one_warning(
    announce: Path, source: str, reason: str
) -> None:
    announce.write_text(source)
    with pytest.warns(PluginWarning) as caught:
        load_plugins("papers")
    start = 'the plug-in "mine" (added) of zerolab.papers cannot be loaded: '
    (warning,) = caught
    assert str(warning.message) == f"{start}{reason}; everything else works without it"
