"""Every study at its smallest scale, from runs to a report."""

from __future__ import annotations

import json

import pytest
from in_process import Here

from zerolab.report.claims import ClaimTable
from zerolab.report.document import Image
from zerolab.report.figures import figure_bytes
from zerolab.report.html import page
from zerolab.report.markdown import markdown
from zerolab.studies.study import SCALES, registered_studies
from zerolab.studies.work import StudyWork


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """One folder for all studies, so that they share runs."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", registered_studies())
def test_a_study_runs_and_reports(name, root):
    done = StudyWork.of(registered_studies()[name], "smoke", root)
    assert done.progress().is_unfinished
    assert done.work(Here(), lambda view: None) == {}
    assert not done.progress().is_unfinished
    document = done.document()
    verdicts = [
        verdict
        for block in document.blocks
        if isinstance(block, ClaimTable)
        for verdict in block.verdicts
    ]
    assert verdicts
    assert all(each.note for each in verdicts if each.word == "no data")
    assert document.limits.startswith("Scale smoke")
    assert document.pictures
    assert document.tables
    json.dumps(document.as_dict(), allow_nan=False)
    # A PNG takes twice as long; the tests of reports save them.
    drawn = {each.name: Image(b"", figure_bytes(each.figure, "svg")) for each in document.pictures}
    assert len(page(document, drawn)) > 10_000
    assert markdown(document).startswith(f"# {document.title}")


@pytest.mark.parametrize("name", registered_studies())
def test_a_study_that_has_just_begun_reports_what_is_missing(name, tmp_path):
    begun = StudyWork.of(registered_studies()[name], "smoke", tmp_path)
    with begun.folder.locked(begun.design):
        pass
    document = begun.document()
    verdicts = next(each for each in document.blocks if isinstance(each, ClaimTable)).verdicts
    assert {each.word for each in verdicts} == {"no data"}
    assert all(each.note for each in verdicts)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", registered_studies())
def test_claims_are_the_same_at_every_scale(name, scale, tmp_path):
    """A claim that depends on the scale could be chosen by what was seen."""
    claims = []
    for each in ("smoke", scale):
        begun = StudyWork.of(registered_studies()[name], each, tmp_path)
        with begun.folder.locked(begun.design):
            pass
        blocks = begun.document().blocks
        table = next(block for block in blocks if isinstance(block, ClaimTable))
        claims.append([verdict.claim for verdict in table.verdicts])
    assert claims[0] == claims[1]
