"""Summaries, references and citations of reports, and content without data."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import (
    Document,
    Heading,
    Paragraph,
    Provenance,
    ReportCitation,
    all_references,
    bibtex,
    cited_references,
    document_references,
    link_citations,
    summary_sentences,
)
from zerolab.report.html import html_page
from zerolab.report.table import Link, Table
from zerolab.report.text import markdown_page
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.studies.statistics import estimate_mean

PROVENANCE = Provenance(3, ["aa", "bb", "cc"], {"zerolab": "0.1.0"}, [0, 1, 2], "a machine", 1.0)
CITATION = ReportCitation(
    "warm-start", "zerolab study warm-start --scale mini", "2026-01-31", "0.1.0"
)
CLEAR, NOISY = [10.0, 12.0, 11.0, 10.5, 12.5], [-10.0, 12.0, 1.0, -9.5, 8.5]


def claim(key, threshold=0.0):
    source = "[Wang2020b, Fig. 5.1]"
    return Claim(key, f"The finding {key}.", source, "Elo", threshold, "above", 1.0)


def document(**estimates):
    claims = {claim(key): estimate for key, estimate in estimates.items()}
    blocks = [
        Heading("Findings"),
        ClaimTable(judge_claims(claims)),
        Paragraph("Compare [Silver2017; Wu2019], [AZG, 2019] and [NoSuchWork2001], not Wang2019."),
        Table("full", "A full table", ["name", "number"], [["one", 1]]),
        Table("empty", "An empty table", ["name", "number"], [["one", None], ["two", None]]),
    ]
    return Document("Warm starts & more", "Few runs.", blocks, PROVENANCE, CITATION)


MISSING = MissingEstimate("no runs")


@pytest.mark.parametrize(
    ("estimates", "counts", "last"),
    [
        (
            {"sure": estimate_mean(CLEAR), "open": estimate_mean(NOISY), "gone": MISSING},
            "Of these, 1 holds, 1 is undecided and 1 has no data.",
            "The clearest verdict is “holds”, on the claim “The finding sure”,"
            " [Wang2020b, Fig. 5.1]",
        ),
        (
            {"open": estimate_mean(NOISY), "other": estimate_mean(NOISY)},
            "Of these, 2 are undecided.",
            "No finding is decided",
        ),
        ({"gone": MISSING}, "Of these, 1 has no data.", "No finding is decided"),
    ],
)
def test_summary_has_three_sentences(estimates, counts, last):
    sentences = summary_sentences(document(**estimates))
    count = len(estimates)
    assert sentences[0] == f"This report tests {count} finding{'s' * (count > 1)} with 3 runs."
    assert sentences[1] == counts
    assert sentences[2].startswith(last)
    assert len(sentences) == 3


def test_summary_comes_first_in_every_format():
    report = document(sure=estimate_mean(CLEAR))
    for page in (html_page(report, {}), markdown_page(report)):
        assert page.index("This report tests 1 finding") < page.index("Limits.")
    assert summary_sentences(replace(report, blocks=[Heading("Nothing")])) == []


def test_references_are_those_cited_and_known():
    keys = [each.key for each in document_references(document(gone=MISSING))]
    assert keys == ["AZG", "Silver2017", "Wang2020b", "Wu2019"]
    assert cited_references(["Wang2019", "[ Wang2019]", "(Wang2019)"]) == []
    assert all(reference.key == key for key, reference in all_references().items())


def test_references_include_those_of_statistics_and_cells():
    statistic = replace(claim("sure"), statistic="Elo as in [Elo1978]")
    blocks = [
        ClaimTable(judge_claims({statistic: estimate_mean(CLEAR)})),
        Table("t", "A table", ["name [Holm1979]"], [[Link("[Wilson1927]", "#x")]]),
    ]
    report = replace(document(), blocks=blocks)
    keys = [each.key for each in document_references(report)]
    assert keys == ["Elo1978", "Holm1979", "Wang2020b", "Wilson1927"]


def test_citations_are_linked_to_references():
    page = html_page(document(sure=estimate_mean(CLEAR)), {})
    targets = set(re.findall(r'href="#(reference-\w+)"', page))
    assert targets == set(re.findall(r'id="(reference-\w+)"', page))
    assert targets == {f"reference-{key}" for key in ("azg", "silver2017", "wang2020b", "wu2019")}
    assert "[NoSuchWork2001]" in page
    assert link_citations("[Wu2019, p. 3]", "<{}>".format) == "[<Wu2019>, p. 3]"


def test_citation_has_command_date_version_and_bibtex():
    report = document(sure=estimate_mean(CLEAR))
    for page in (html_page(report, {}), markdown_page(report)):
        for text in (CITATION.command, CITATION.date, "zerolab 0.1.0", "@misc{zerolab-warm-start-"):
            assert text in page
    entry = bibtex(report, CITATION)
    assert entry.startswith("@misc{zerolab-warm-start-2026,\n")
    assert r"title        = {{Warm starts \& more}}" in entry
    assert entry.count("{") == entry.count("}")
    assert PROVENANCE.digest in entry


def test_pages_without_citation_have_no_references():
    report = replace(document(sure=estimate_mean(CLEAR)), citation=None)
    for page in (html_page(report, {}), markdown_page(report)):
        assert "@misc" not in page
        assert "References" not in page
        assert "reference-" not in page


def test_content_without_data_is_folded_away():
    page = html_page(document(sure=estimate_mean(CLEAR), gone=MISSING, lost=MISSING), {})
    folded = re.findall(r'<details class="folded">.*?</details>', page, re.DOTALL)
    titles = [re.search("<summary>(.*?)</summary>", each)[1] for each in folded]
    assert titles == ["2 findings without data", "An empty table: no data"]
    assert "The finding gone." in folded[0]
    assert "The finding sure." not in folded[0]
    assert "A full table" not in "".join(folded)
    complete = html_page(document(sure=estimate_mean(CLEAR)), {})
    assert complete.count('class="folded"') == 1


def test_pictures_follow_the_dark_theme():
    page = html_page(document(sure=estimate_mean(CLEAR)), {})
    dark = re.search(r"@media \(prefers-color-scheme: dark\) \{\s*figure img \{[^}]*\}", page)
    assert dark is not None
    assert "filter: invert(" in dark[0]
