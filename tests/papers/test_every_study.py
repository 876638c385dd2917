"""All studies at the smallest scale, from runs to reports."""

from __future__ import annotations

import ast
import json
from html import escape
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

from studies.in_process import Here
from zerolab.evaluation import dataset
from zerolab.papers.hyperparameters import study as sweep
from zerolab.report.claims import ClaimTable
from zerolab.report.document import Image
from zerolab.report.html import html_page
from zerolab.report.text import markdown_page
from zerolab.studies.execution import StudyExecution
from zerolab.studies.study import registered_studies

PARTS = {
    "hyperparameter-sweep": ["I", "lr", "n"],
    "loss-functions": ["connect_four-6x6"],
    "published-bugs": ["mirrored-policy", "tournament-closure", "win-labels"],
    "transfer": ["connect_four-4x4", "gobang-3x3"],
}
"""Parts with every kind of run, tournament and computation, for studies with similar parts."""
RUN_ELSEWHERE = {"table-5.1"}
"""Studies that another test file performs: test_table_5_1.py."""


def verdicts_of(document):
    (table,) = [each for each in document.blocks if isinstance(each, ClaimTable)]
    assert table.verdicts
    return table.verdicts


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of all studies, which share runs."""
    return tmp_path_factory.mktemp("studies")


@pytest.fixture
def smaller_work(monkeypatch):
    """Plan fewer combinations, and play no more games than small sets of positions need."""
    monkeypatch.setitem(sweep.GRID_LEVELS, "smoke", {**sweep.GRID_LEVELS["smoke"], "m": (2,)})
    monkeypatch.setattr(dataset, "GAMES_PER_CHUNK", 4)


@pytest.mark.usefixtures("smaller_work")
@pytest.mark.parametrize("name", sorted(registered_studies().keys() - RUN_ELSEWHERE))
def test_study_runs_and_reports(name, root):
    parts = PARTS.get(name, [])
    done = StudyExecution.plan(registered_studies()[name], "smoke", root, parts)
    assert done.progress().is_unfinished
    assert done.perform_all(Here(), lambda view: None) == {}
    assert not done.progress().is_unfinished
    document = done.report()
    verdicts = verdicts_of(document)
    assert all(each.note for each in verdicts if each.word == "no data")
    assert document.limitations.startswith("Scale smoke")
    assert document.pictures
    assert document.tables
    json.dumps(document.as_dict(), allow_nan=False)
    # Files and layout of figures are slow and covered by the report tests.
    for each in document.pictures:
        each.figure.set_layout_engine("none")
        each.figure.draw_without_rendering()
    page = html_page(document, {each.name: Image(b"", b"") for each in document.pictures})
    assert all(f'alt="{escape(each.caption)}"' in page for each in document.pictures)
    assert markdown_page(document).startswith(f"# {document.title}")


@pytest.mark.parametrize("name", registered_studies())
def test_new_study_reports_missing_data(name, tmp_path):
    begun = StudyExecution.plan(registered_studies()[name], "smoke", tmp_path)
    begun.create_folder()
    verdicts = verdicts_of(begun.report())
    assert {each.word for each in verdicts} == {"no data"}
    assert all(each.note for each in verdicts)


def modules_of(module):
    """Return the modules of the same paper imported at the top level of `module`."""
    source = Path(find_spec(module).origin).read_text(encoding="utf-8")
    paper = module.rpartition(".")[0]
    return {
        node.module
        for node in ast.parse(source).body
        if isinstance(node, ast.ImportFrom) and node.module.startswith(f"{paper}.")
    }


@pytest.mark.parametrize("paper", [point.value for point in entry_points(group="zerolab.papers")])
def test_study_design_does_not_import_its_report(paper):
    seen, remaining = set(), {paper}
    while remaining:
        module = remaining.pop()
        seen.add(module)
        remaining |= modules_of(module) - seen
    allowed = {"study", "variants", "costs"}
    assert {module.rpartition(".")[2] for module in seen} <= allowed
