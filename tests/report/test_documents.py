"""A document with every kind of block, in all formats."""

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
from zerolab.report.html import html_page, save_document
from zerolab.report.table import Column, Interval, Table, cell_text, p_value_text, table_as_csv
from zerolab.report.text import escape_markdown, markdown_page, print_document
from zerolab.studies.claims import MissingEstimate, judge_claims
from zerolab.studies.results import describe_this_machine, join_distinct
from zerolab.studies.statistics import BinomialEstimate, StudentEstimate, estimate_mean

NASTY = "a<b> & $c$ | \"d\" *e* `f` [g](http://example.org) <script>alert('h')</script>"

PROVENANCE = Provenance(
    run_count=3,
    run_digests=["aa", "bb", "cc"],
    versions={"zerolab": "0.1.0", "torch": "2.11.0"},
    seeds=[2, 0, 1, 7],
    machine="Processor X, 2 cores",
    training_hours=2.5,
)


def claim(key, threshold=0.0, direction="above"):
    return Claim(
        key, f"{NASTY} wins.", "[Wang2020b], Fig. 5.1", "Elo of a", threshold, direction, 1.0
    )


VERDICTS = judge_claims(
    {
        claim("held"): estimate_mean([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("failed", 50.0): estimate_mean([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("open", 12.0, "below"): estimate_mean([10.0, 12.0, 11.0, 10.5, 12.5]),
        claim("single"): estimate_mean([1.0]),
        claim("missing"): MissingEstimate(f"3 of 32 runs: {NASTY}"),
    }
)

_WON = BinomialEstimate(9, 10).interval

TABLE = Table(
    "win-rates",
    NASTY,
    ("player", Column("won", ".1%"), "games", Column("Elo | $", "+.1f"), "time"),
    [
        [NASTY, _WON, 10, StudentEstimate(-12.34567, 1.0, 8).interval, 0.1 + 0.2],
        ["plain", BinomialEstimate(0, 0).interval, 1_000_000, Interval.unbounded(3.0), None],
        ["nothing", None, None, None, math.nan],
    ],
)


def figure():
    plot = new_figure(4, 3)
    axes = plot.subplots()
    axes.plot([0, 1, 4], [2, 0, 1], marker="o", label="line")
    axes.fill_between([0, 1, 4], [1, 0, 0], [3, 1, 2], alpha=0.2)
    axes.set_title(NASTY, parse_math=False)
    axes.legend()
    return plot


def demo(blocks=None):
    all_blocks = [
        Heading(f"Claims of {NASTY}"), ClaimTable(VERDICTS),
        Heading("Strength"), Paragraph(NASTY), Paragraph("1. no list\n- nor this"), TABLE,
        Picture("strength", figure(), f"Lines: {NASTY}"),
    ]  # fmt: skip
    blocks = all_blocks if blocks is None else blocks
    return Document(f"Study of {NASTY}", f"Mini scale: {NASTY}", blocks, PROVENANCE)


class Page(HTMLParser):
    """A parser that collects the references and text of a page, and checks its nesting."""

    VOID = ("meta", "img", "link", "br", "hr", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.references, self.ids, self.text = [], [], [], [], ""
        self.headings, self.parents_of_tables = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        self.references += [values[name] for name in ("src", "href", "srcset") if name in values]
        self.ids += [values["id"]] if "id" in values else []
        assert not any(name.startswith("on") for name in values)
        if tag == "table":
            self.parents_of_tables.append(self.parent)
        if tag == "th":
            self.headings.append("")
        self.parent = values
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "th" in self.open:
            self.headings[-1] += data


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    save_document(demo(), folder)
    return folder


def test_expected_files_are_written(saved):
    assert sorted(path.name for path in saved.iterdir()) == [
        "README.md", "claims.csv", "index.html", "report.json", "strength.png", "strength.svg",
        "win-rates.csv",
    ]  # fmt: skip


def test_html_page_is_self_contained(saved):
    parsed = Page((saved / "index.html").read_text("utf-8"))
    assert not {"script", "link", "iframe", "object", "b"} & set(parsed.tags)
    for reference in parsed.references:
        assert reference.startswith(("data:image/svg+xml;base64,", "data:text/csv;base64,", "#"))
    anchors = {each[1:] for each in parsed.references if each.startswith("#")}
    assert anchors == set(parsed.ids) == {"section-1", "section-2"}
    assert "@import" not in parsed.text
    assert "url(" not in parsed.text


def test_tables_can_be_scrolled_with_the_keyboard_and_have_titles(saved):
    parsed = Page((saved / "index.html").read_text("utf-8"))
    labels = [each.pop("aria-label") for each in parsed.parents_of_tables]
    assert labels == ["Claims", "1 finding without data", NASTY]
    assert parsed.parents_of_tables == [{"class": "table", "tabindex": "0", "role": "region"}] * 3
    assert "" not in parsed.headings
    assert parsed.headings[5] == "drawing of the interval"


def test_html_page_shows_names_unchanged(saved):
    parsed = Page((saved / "index.html").read_text("utf-8"))
    for text in (f"Study of {NASTY}", f"Mini scale: {NASTY}", f"3 of 32 runs: {NASTY}"):
        assert text in parsed.text
    assert parsed.text.count(NASTY) >= 10
    limits, body = (parsed.text.index(text) for text in ("Limits.", "Contents"))
    assert limits < body
    for word in ("holds", "does not hold", "undecided", "no data"):
        assert word in parsed.text
    assert "\N{MINUS SIGN}12.3" in parsed.text
    assert parsed.tags.count("circle") == 4  # one interval per claim with data


@pytest.mark.parametrize(
    ("direction", "claimed", "values"),
    [
        ("above", "above 10", (10.0, math.inf)),
        ("below", "below 10", (-math.inf, 10.0)),
        ("not below", "not below 10 within 1", (9.0, math.inf)),
        ("not above", "not above 10 within 1", (-math.inf, 11.0)),
        ("equal to", "equal to 10 within 1", (9.0, 11.0)),
    ],
)
def test_claimed_values_are_shaded_and_stated(direction, claimed, values):
    tested = claim("tested", 10.0, direction)
    assert tested.claimed_range == values
    document = demo([ClaimTable(judge_claims({tested: estimate_mean([10.0, 12.0, 11.0, 10.5])}))])
    assert claimed in markdown_page(document)
    page = html_page(document, {})
    assert claimed in Page(page).text
    left, width = map(float, re.findall(r'class="claimed" x="(\S+)" width="(\S+)"', page)[0])
    (threshold,) = map(float, re.findall(r'class="threshold" x1="(\S+)"', page))
    assert (left < threshold) == (values[0] < 10.0)
    assert (left + width > threshold) == (values[1] > 10.0)
    assert (left >= 0) == math.isfinite(values[0])  # infinite ends are outside the drawing
    assert (left + width <= 2 * threshold) == math.isfinite(values[1])


def test_html_page_embeds_pictures_and_tables(saved):
    contents = [
        base64.b64decode(each.partition("base64,")[2])
        for each in Page((saved / "index.html").read_text("utf-8")).references
        if each.startswith("data:")
    ]
    for name in ("strength.svg", "win-rates.csv", "claims.csv"):
        assert (saved / name).read_bytes() in contents


def test_large_drawing_is_embedded_as_png():
    images = {"strength": Image(b"the png", b"x" * 500_000)}
    assert base64.b64encode(b"the png").decode() in html_page(demo(), images)


def test_images_are_small(saved):
    assert (saved / "strength.png").stat().st_size < 30_000
    assert (saved / "strength.svg").read_bytes().startswith(b"<?xml")


def test_equal_documents_give_equal_bytes(saved, tmp_path):
    for _ in range(2):
        save_document(demo(), tmp_path)
        for path in saved.iterdir():
            assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
    document = demo()
    save_document(document, tmp_path)
    save_document(document, tmp_path)  # saves the same figure objects twice
    assert (tmp_path / "strength.svg").read_bytes() == (saved / "strength.svg").read_bytes()


def test_markdown_is_escaped(saved):
    text = (saved / "README.md").read_text("utf-8")
    assert text.splitlines()[2].startswith("> **Limits.** Mini scale:")
    assert "](strength.png)" in text
    assert "http://example.org" in text  # as plain text with escaped brackets
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
def test_markdown_escapes(text, expected):
    assert escape_markdown(text) == expected


def test_csv_has_full_precision():
    rows = list(csv.DictReader(io.StringIO(table_as_csv(TABLE))))
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
    assert table_as_csv(Table("empty", "", ("a", "b"), [])) == "a,b\n"
    claims = list(csv.DictReader(io.StringIO(table_as_csv(ClaimTable(VERDICTS).as_table()))))
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
        (Interval(2e-6, 1e-6, 3e-6), "", "0.000002 (0.000001 to 0.000003)"),
        (Interval(3e-7, 2e-7, 4e-7), "", "3e-07 (2e-07 to 4e-07)"),
    ],
)
def test_cell_text_formats_values(cell, number_format, text):
    assert cell_text(cell, number_format) == text


def test_p_text_formats_p_values():
    assert [p_value_text(p) for p in (None, 0.0001, 0.0123, 0.5)] == [
        "",
        "< 0.001",
        "0.012",
        "0.50",
    ]


def test_json_is_finite_and_complete():
    content = demo().as_dict()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["tables"]["win-rates"][1]["Elo | $_low"] is None
    assert content["tables"]["win-rates"][2]["time"] is None
    assert [each["verdict"] for each in content["claims"]] == [each.word for each in VERDICTS]


def test_terminal_shows_names_and_intervals():
    console = Console(file=io.StringIO(), width=160, soft_wrap=True, markup=False, emoji=False)
    print_document(demo(), console)
    text = console.file.getvalue()
    assert text.splitlines()[1] == f"Limits: Mini scale: {NASTY}"
    assert text.count(NASTY) >= 10
    assert "-12.3 (-14.7 to -10.0)" in text
    assert "Figure strength.png" in text
    assert PROVENANCE.summary() in text


def test_obsolete_files_are_removed(tmp_path):
    save_document(demo(), tmp_path)
    (tmp_path / "own.csv").write_text("mine")
    save_document(demo([Heading("Nothing yet")]), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "README.md", "index.html", "own.csv", "report.json",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["README.md", "index.html"])
def test_foreign_pages_are_not_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match="is not a study report"):
        save_document(demo([]), tmp_path)
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
def test_invalid_file_list_is_refused(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    (tmp_path.parent / "outside.csv").write_text("mine")
    with pytest.raises(UserError, match=r"report\.json"):
        save_document(demo([]), tmp_path)
    assert (tmp_path.parent / "outside.csv").exists()


def test_invalid_documents_are_refused():
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


def test_provenance_line_summarises_runs():
    line = PROVENANCE.summary()
    assert "3 runs" in line
    assert "seeds 0 to 2, 7" in line
    assert "2.5 hours of training" in line
    many = Provenance(**{**vars(PROVENANCE), "seeds": [2, 0, *range(1000, 9000, 1000)]}).summary()
    assert "seeds 0 to 8000 (10 of them)" in many
    without_runs = Provenance(
        **{**vars(PROVENANCE), "run_count": 0, "run_digests": [], "seeds": []}
    ).summary()
    assert without_runs == "No runs; zerolab 0.1.0, torch 2.11.0; Processor X, 2 cores."
    shuffled = Provenance(**{**vars(PROVENANCE), "run_digests": ["cc", "aa", "bb"]})
    assert shuffled.digest == PROVENANCE.digest
    other = Provenance(**{**vars(PROVENANCE), "run_digests": ["cc", "aa"]})
    assert other.digest != PROVENANCE.digest
    assert join_distinct(["2.12.0", "2.13.0", "2.12.0"]) == "2.12.0 and 2.13.0"
    assert re.fullmatch(r".+, \d+ cores?, GPU Y", describe_this_machine("GPU Y"))
