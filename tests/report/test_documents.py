"""A document with every kind of block, in every format."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from zerolab.core.errors import UserError
from zerolab.report.claims import Claim, ClaimTable
from zerolab.report.document import Document, Heading, Image, Paragraph, Picture, Provenance
from zerolab.report.figures import new_figure
from zerolab.report.html import page
from zerolab.report.interval import Interval, cell_text, p_text
from zerolab.report.markdown import escaped
from zerolab.report.save import save
from zerolab.report.table import Column, Table, csv_text
from zerolab.report.terminal import show
from zerolab.studies.claims import Missing, judge
from zerolab.studies.results import distinct, this_machine
from zerolab.studies.statistics import BinomialEstimate, StudentEstimate, mean_of

NASTY = "a<b> & $c$ | \"d\" *e* `f` [g](http://example.org) <script>alert('h')</script>"

PROVENANCE = Provenance(
    runs=3,
    digests=["aa", "bb", "cc"],
    versions={"zerolab": "0.1.0", "torch": "2.11.0"},
    seeds=[2, 0, 1, 7],
    machine="Processor X, 2 cores",
    hours=2.5,
)


def claim(key, threshold=0.0, direction="above"):
    return Claim(key, f"{NASTY} wins.", "[Wang2020b], Fig. 5.1", "Elo of a", threshold, direction)


VERDICTS = judge(
    {
        claim("held"): mean_of([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("failed", 50.0): mean_of([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("open", 12.0, "below"): mean_of([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("single"): mean_of([1.0]),
        claim("missing"): Missing(f"3 of 32 runs: {NASTY}"),
    }
)

_WON = BinomialEstimate(9, 10).interval

TABLE = Table(
    "win-rates",
    NASTY,
    ("player", Column("won", ".1%"), "games", Column("Elo | $", "+.1f"), "time"),
    [
        [NASTY, _WON, 10, StudentEstimate(-12.34567, 1.0, 8).interval, 0.1 + 0.2],
        ["plain", BinomialEstimate(0, 0).interval, 1_000_000, Interval.unknown(3.0), None],
        ["nothing", None, None, None, math.nan],
    ],
)


def figure():
    drawn = new_figure(4, 3)
    axes = drawn.subplots()
    axes.plot([0, 1, 4], [2, 0, 1], marker="o", label="line")
    axes.fill_between([0, 1, 4], [1, 0, 0], [3, 1, 2], alpha=0.2)
    axes.set_title(NASTY, parse_math=False)
    axes.legend()
    return drawn


def demo(blocks=None):
    every = [
        Heading(f"Claims of {NASTY}"), ClaimTable(VERDICTS),
        Heading("Strength"), Paragraph(NASTY), Paragraph("1. no list\n- nor this"), TABLE,
        Picture("strength", figure(), f"Lines: {NASTY}"),
    ]  # fmt: skip
    blocks = every if blocks is None else blocks
    return Document(f"Study of {NASTY}", f"Mini scale: {NASTY}", blocks, PROVENANCE)


class Page(HTMLParser):
    """Collects what a page refers to, and its text; tags must be closed in order."""

    VOID = ("meta", "img", "link", "br", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.ids, self.text = [], [], [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        found = dict(attributes)
        self.references += [found[name] for name in ("src", "href", "srcset") if name in found]
        self.ids += [found["id"]] if "id" in found else []
        assert not any(name.startswith("on") for name in found)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    save(demo(), folder)
    return folder


def test_the_files(saved):
    assert sorted(path.name for path in saved.iterdir()) == [
        "README.md", "claims.csv", "index.html", "report.json", "strength.png", "strength.svg",
        "win-rates.csv",
    ]  # fmt: skip


def test_the_page_needs_nothing_else(saved):
    found = Page((saved / "index.html").read_text("utf-8"))
    assert not {"script", "link", "iframe", "object", "b"} & set(found.tags)
    for reference in found.references:
        assert reference.startswith(("data:image/svg+xml;base64,", "data:text/csv;base64,", "#"))
    anchors = {each[1:] for each in found.references if each.startswith("#")}
    assert anchors == set(found.ids) == {"section-1", "section-2"}
    assert "@import" not in found.text
    assert "url(" not in found.text


def test_the_page_shows_names_as_they_are(saved):
    found = Page((saved / "index.html").read_text("utf-8"))
    for text in (f"Study of {NASTY}", f"Mini scale: {NASTY}", f"3 of 32 runs: {NASTY}"):
        assert text in found.text
    assert found.text.count(NASTY) >= 10
    limits, body = (found.text.index(text) for text in ("Limits.", "Contents"))
    assert limits < body
    for word in ("holds", "does not hold", "undecided at this scale", "no data"):
        assert word in found.text
    assert "\N{MINUS SIGN}12.3" in found.text
    assert found.tags.count("circle") == 4  # a bar for every claim that has data


def test_pictures_and_tables_are_in_the_page(saved):
    contents = [
        base64.b64decode(each.partition("base64,")[2])
        for each in Page((saved / "index.html").read_text("utf-8")).references
        if each.startswith("data:")
    ]
    for name in ("strength.svg", "win-rates.csv", "claims.csv"):
        assert (saved / name).read_bytes() in contents


def test_a_large_drawing_is_shown_as_png():
    images = {"strength": Image(b"the png", b"x" * 500_000)}
    assert base64.b64encode(b"the png").decode() in page(demo(), images)


def test_an_image_is_small(saved):
    assert (saved / "strength.png").stat().st_size < 30_000
    assert (saved / "strength.svg").read_bytes().startswith(b"<?xml")


def test_equal_documents_give_equal_bytes(saved, tmp_path):
    for _ in range(2):
        save(demo(), tmp_path)
        for path in saved.iterdir():
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    document = demo()
    save(document, tmp_path)
    save(document, tmp_path)  # the same figures, drawn twice
    assert (tmp_path / "strength.svg").read_bytes() == (saved / "strength.svg").read_bytes()


def test_markdown(saved):
    text = (saved / "README.md").read_text("utf-8")
    assert text.splitlines()[2].startswith("> **Limits.** Mini scale:")
    assert "](strength.png)" in text
    assert "http://example.org" in text  # as text: its brackets are escaped
    assert "](http" not in re.sub(r"\\.", "", text)
    plain = re.sub(r"\\.", "", text)
    assert not re.search("<[a-z/]", plain)
    assert "$" not in plain
    tables = [line for line in plain.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables} == {len(TABLE.columns) + 1, 7}
    assert "1\\. no list - nor this" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.5 (3 to 4)", "12.5 (3 to 4)"),
        ("-5", "-5"),
        ("- item", "\\- item"),
        ("### title", "\\### title"),
        ("7) item", "7\\) item"),
        ("a_b | c\nd", "a\\_b \\| c d"),
        ("> quoted > not", "\\> quoted > not"),
        ("p < 0.1 & <b> &lt;", "p < 0.1 & \\<b> \\&lt;"),
        ("", ""),
    ],
)
def test_escapes_of_markdown(text, expected):
    assert escaped(text) == expected


def test_csv_round_trip():
    rows = list(csv.DictReader(io.StringIO(csv_text(TABLE))))
    assert list(rows[0]) == [
        "player", "won", "won_low", "won_high", "games", "Elo | $", "Elo | $_low", "Elo | $_high",
        "time",
    ]  # fmt: skip
    estimate = TABLE.rows[0][3]
    assert rows[0]["player"] == NASTY
    assert float(rows[0]["Elo | $"]) == estimate.value
    assert float(rows[0]["Elo | $_low"]) == estimate.low
    assert float(rows[0]["time"]) == 0.1 + 0.2
    assert rows[1]["Elo | $_low"] == rows[1]["time"] == rows[2]["time"] == rows[2]["won_low"] == ""
    assert csv_text(Table("empty", "", ("a", "b"), [])) == "a,b\n"
    claims = list(csv.DictReader(io.StringIO(csv_text(ClaimTable(VERDICTS).as_table()))))
    assert [each["verdict"] for each in claims] == [each.word for each in VERDICTS]
    assert float(claims[0]["found_high"]) == VERDICTS[0].estimate.high


@pytest.mark.parametrize(
    ("cell", "number_format", "text"),
    [
        (None, "", ""),
        ("text", ".1f", "text"),
        (True, "", "yes"),
        (3, "", "3"),
        (3, ".1f", "3.0"),
        (1 / 3, "", "0.3333"),
        (-0.04, ".1f", "0.0"),
        (0.125, ".1%", "12.5 %"),
        (math.nan, ".1f", "\N{EN DASH}"),
        (StudentEstimate(12.3456, 1.0, 1e9).interval, "", "12.3 (10.4 to 14.3)"),
        (StudentEstimate(1234.56, 100.0, 1e9).interval, "", "1235 (1039 to 1431)"),
        (StudentEstimate(5.0, math.inf, 0).interval, "", "5 (no interval)"),
        (BinomialEstimate(5, 10).interval, ".0%", "50 % (24 to 76)"),
    ],
)
def test_cells(cell, number_format, text):
    assert cell_text(cell, number_format) == text


def test_p_values():
    assert [p_text(p) for p in (None, 0.0001, 0.0123, 0.5)] == ["", "< 0.001", "0.012", "0.50"]


def test_json():
    found = demo().as_dict()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["tables"]["win-rates"][1]["Elo | $_low"] is None
    assert found["tables"]["win-rates"][2]["time"] is None
    assert [each["verdict"] for each in found["claims"]] == [each.word for each in VERDICTS]


def test_in_a_terminal():
    console = Console(file=io.StringIO(), width=160, soft_wrap=True, markup=False, emoji=False)
    show(demo(), console)
    text = console.file.getvalue()
    assert text.splitlines()[1] == f"Limits: Mini scale: {NASTY}"
    assert text.count(NASTY) >= 10
    assert "-12.3 (-14.7 to -10.0)" in text
    assert "Figure strength.png" in text
    assert PROVENANCE.line() in text


def test_files_that_a_later_report_lacks_are_removed(tmp_path):
    save(demo(), tmp_path)
    (tmp_path / "own.csv").write_text("mine")
    save(demo([Heading("Nothing yet")]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md", "index.html", "own.csv", "report.json",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_pages_of_others_stay(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="is not a study report"):
        save(demo([]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"schema_version": 1, "files": ["../outside.csv"]}',
        '{"schema_version": 1, "files": ["study.toml"]}',
        '{"schema_version": 1, "files": [7]}',
        '{"schema_version": 2, "files": []}',
    ],
)
def test_a_list_of_files_by_somebody_else_is_refused(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    (tmp_path.parent / "outside.csv").write_text("mine")
    with pytest.raises(UserError, match=r"report\.json"):
        save(demo([]), tmp_path)
    assert (tmp_path.parent / "outside.csv").exists()


def test_documents_that_cannot_be():
    with pytest.raises(ValueError, match="share a name"):
        demo([TABLE, TABLE])
    with pytest.raises(ValueError, match="not a file name"):
        demo([Table("../a", "", ("a",), [])])
    with pytest.raises(ValueError, match="share a title"):
        Table("a", "", ("a", "a"), [])
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        Table("a", "", ("a", "b"), [["x"]])
    with pytest.raises(ValueError, match="limits"):
        Document("title", " ", [], PROVENANCE)


def test_provenance():
    line = PROVENANCE.line()
    assert "3 runs" in line
    assert "seeds 0 to 2, 7" in line
    assert "2.5 hours of training" in line
    many = Provenance(**{**vars(PROVENANCE), "seeds": [2, 0, *range(1000, 9000, 1000)]}).line()
    assert "seeds 10 between 0 and 8000" in many
    without_runs = Provenance(**{**vars(PROVENANCE), "runs": 0, "digests": [], "seeds": []}).line()
    assert without_runs == "No runs; zerolab 0.1.0, torch 2.11.0; Processor X, 2 cores."
    shuffled = Provenance(**{**vars(PROVENANCE), "digests": ["cc", "aa", "bb"]})
    assert shuffled.digest == PROVENANCE.digest
    other = Provenance(**{**vars(PROVENANCE), "digests": ["cc", "aa"]})
    assert other.digest != PROVENANCE.digest
    assert distinct(["2.12.0", "2.13.0", "2.12.0"]) == "2.12.0 and 2.13.0"
    assert re.fullmatch(r".+, \d+ cores?, GPU Y", this_machine("GPU Y"))
