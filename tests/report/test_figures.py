"""Saving figures: endings, errors and shortened names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from zerolab.core.errors import UserError
from zerolab.report.figures import add_legend_below, new_figure, save_figure, shorten_name


@pytest.mark.parametrize(
    ("name", "head"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")]
)
def test_ending_determines_format(tmp_path, name, head):
    figure = new_figure(3, 2)
    axes = figure.subplots()
    lines = axes.plot([0, 1], label="cost in $ and $")
    add_legend_below(figure, lines)
    save_figure(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(head)


@pytest.mark.parametrize("name", ["a", "a.xyz", "a.toml"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(UserError, match=r"expected an extension such as \.png"):
        save_figure(new_figure(3, 2), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_unwritable_figure_is_reported(tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        save_figure(new_figure(3, 2), tmp_path / "missing" / "a.png")


def test_long_names_are_shortened():
    assert shorten_name("runs/demo", 9) == "runs/demo"
    assert shorten_name("runs/demo@12", 9) == "runs/dem…"


def test_import_does_not_load_matplotlib():
    script = "import sys, zerolab.report.figures; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
