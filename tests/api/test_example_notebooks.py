"""Example notebooks: their cells run, and their stored outputs are small and portable."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

import zerolab
from zerolab.rules.catalogue import registered_games

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))
_MAX_BYTES = 100_000


def _code_cells(name: str) -> list[dict]:
    cells = json.loads((FOLDER / name).read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def _run(source: str, names: dict) -> object:
    """Run a cell as a notebook would, and return the value of its last expression."""
    if source.startswith("%%writefile "):
        first, _, content = source.partition("\n")
        Path(first.split()[1]).write_text(content, "utf-8")
        return None
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names) if last else None


@pytest.fixture
def in_new_folder(tmp_path, monkeypatch):
    """Run in an empty folder, from which modules can be imported; forget new games afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    games = registered_games()
    monkeypatch.setattr(games, "_entries", dict(games._entries))
    yield
    sys.modules.pop("misere", None)


def test_there_are_three_notebooks():
    assert len(NAMES) == 3


@pytest.fixture
def short_training(monkeypatch):
    """Train as the notebook says, but with fewer iterations and games."""
    train = zerolab.train

    def train_briefly(*arguments, settings, **others):
        shorter = {**settings, "iterations": 2, "selfplay.episodes": 8}
        assert shorter.keys() == settings.keys()
        return train(*arguments, settings=shorter, **others)

    monkeypatch.setattr(zerolab, "train", train_briefly)


@pytest.mark.usefixtures("in_new_folder", "short_training")
@pytest.mark.parametrize("name", NAMES)
def test_cells_run_and_show_what_is_stored(name, monkeypatch):
    names: dict = {}
    for cell in _code_cells(name):
        shown = _run("".join(cell["source"]), names)
        stored = {kind for output in cell["outputs"] for kind in output.get("data", {})}
        if shown is None:
            assert "text/plain" not in stored or "display_data" in _kinds(cell)
            continue
        assert ("text/html" in stored) == hasattr(shown, "_repr_html_")
        assert ("image/svg+xml" in stored) == hasattr(shown, "_repr_svg_")
        assert "text/plain" in stored


def _kinds(cell: dict) -> set[str]:
    return {output["output_type"] for output in cell["outputs"]}


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_are_small_and_without_errors_and_paths(name):
    text = (FOLDER / name).read_text("utf-8")
    assert len(text) < _MAX_BYTES
    assert not any(word in text for word in ("/home", "/root", "/tmp", "Traceback"))
    cells = _code_cells(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not any("error" in _kinds(cell) for cell in cells)


def test_most_visited_moves_and_exact_values_of_the_tutorial_agree():
    """The trained agent of the notebook prefers a move that the solver calls a win."""
    cells = _code_cells("ten_minutes_of_alphazero.ipynb")
    texts = ["".join(o.get("data", {}).get("text/plain", "")) for c in cells for o in c["outputs"]]
    (analysis,) = (text for text in texts if text.startswith("<Analysis"))
    best = analysis.split(": ")[1].split(",")[0]
    values = zerolab.solve(zerolab.Position.start("gobang:3x3:3").play("b2").play("b1"))
    assert values[best] == max(values.values())
