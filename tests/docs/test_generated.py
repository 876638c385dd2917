"""Generated tables, links, paths and citations in the documentation."""

from __future__ import annotations

import csv
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import zerolab
from zerolab.report.document import all_references
from zerolab.studies.ledger import read_ledger
from zerolab.studies.results import Results
from zerolab.studies.study import registered_studies

ROOT = Path(__file__).resolve().parents[2]


def _tool(name: str) -> ModuleType:
    """Import and return a tool, which other tools can then import."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Not imported through sys.path, because other files in tools are named like test folders.
_tool("api_table")
tables = _tool("generate_tables")

PAGES = [*tables.PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
_PATH = re.compile(r"`((?!\.|runs/)[\w.-]+(?:/[\w.-]+)*/(?:[\w-]+\.(?:py|md|toml|json))?)`")
_CITED = re.compile(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?)[\],;]")


@by_page
def test_generated_tables_are_up_to_date(page: Path) -> None:
    text = page.read_text("utf-8")
    assert tables.regenerate(text, page.parent) == text, "run make docs"


def test_findings_in_the_readme_have_the_intervals_of_the_reports() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme[
        readme.index("with 95 % intervals:") : readme.index("[Methods](docs/methods.md)")
    ]
    quoted = re.findall(r"\(([\d.]+) to ([\d.]+)\)", section)
    reported = set()
    for path in (ROOT / "docs" / "results").glob("*/claims.csv"):
        for row in csv.DictReader(path.read_text("utf-8").splitlines()):
            ends = sorted(abs(float(row[name] or "inf")) for name in ("found_low", "found_high"))
            decimals = [(scale * ends[0], scale * ends[1]) for scale in (1, 100)]
            reported |= {(f"{a:.{n}f}", f"{b:.{n}f}") for a, b in decimals for n in (0, 1, 2)}
    assert len(quoted) >= 5
    assert set(quoted) <= reported


def test_references_of_reports_are_up_to_date() -> None:
    assert tables.REFERENCES.read_text("utf-8") == tables.references(), "run make docs"
    listed = set(
        re.findall(r'<a id="(\w+)">', (ROOT / "docs" / "references.md").read_text("utf-8"))
    )
    assert {key.lower() for key in all_references()} == listed
    for each in all_references().values():
        assert each.text.endswith((".", ")"))
        assert not re.search(r"[<>*]|  | [.,]", each.text)
        assert not each.url or re.match(r"https?://\w", each.url)


def test_tables_are_generated_from_registries() -> None:
    page = "<!-- table: losses -->\nold\n<!-- end -->\n"
    changed = tables.regenerate(page, ROOT / "docs")
    assert "`product`" in changed
    assert "old" not in changed
    assert tables.regenerate(changed, ROOT / "docs") == changed


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page: element ids and GitHub's names for headings."""
    text = _FENCED.sub("", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'id="([^"]+)"', text))


@by_page
def test_relative_links_have_targets(page: Path) -> None:
    text = _FENCED.sub("", page.read_text("utf-8"))
    for inline, defined in _LINK.findall(text):
        target, _, anchor = (inline or defined).partition("#")
        if target.startswith(("http:", "https:")):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in _anchors(file), f"{page.name} links to {target}#{anchor}"


@by_page
def test_mentioned_files_exist(page: Path) -> None:
    text = _FENCED.sub("", page.read_text("utf-8"))
    roots = ROOT, ROOT / "docs", ROOT / "src", ROOT / "src" / "zerolab"
    for path in _PATH.findall(text):
        assert any((root / path).exists() for root in roots), f"{page.name} names {path}"


def test_keys_cited_in_docstrings_are_defined() -> None:
    known = _anchors(ROOT / "docs" / "references.md")
    for file in (ROOT / "src").rglob("*.py"):
        for key in _CITED.findall(file.read_text("utf-8")):
            assert key.lower() in known, f"{file.relative_to(ROOT)} cites {key}"


def test_papers_are_cited_by_key() -> None:
    shorthand = re.compile(r"\b[WHLCT]'s\b|\b[WHLCT](?:, [WHLCT])+\b|\b(?:FACTS|DESIGN) \d")
    folders = [ROOT / name for name in ("src", "docs", "examples", "tools")]
    for file in (file for folder in folders for file in folder.rglob("*")):
        if file.suffix in {".py", ".md", ".toml"}:
            match = shorthand.search(file.read_text("utf-8"))
            assert not match, f"{file.relative_to(ROOT)}: {match}"


LEDGERS = sorted((ROOT / "docs" / "results").glob("*/ledger.parquet"))


@pytest.mark.parametrize("ledger", LEDGERS, ids=lambda path: path.parent.name)
def test_ledgers_fit_their_studies(ledger: Path) -> None:
    """Ledgers have their study's design, and claims name figures of the report."""
    header = read_ledger(ledger).header
    study = registered_studies()[header.study]
    assert study.scale_of_ledger(ledger, header) == header.scale
    results = Results("smoke", study.planned_design("smoke"), [], {})
    figures = {each.claim.figure for each in study.verdicts(results)} - {""}
    assert figures <= {path.stem for path in ledger.parent.glob("*.png")}


def test_site_has_every_page_and_public_name() -> None:
    index = (ROOT / "docs/site/index.md").read_text()
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f"\n../{name}\n" not in index] == []
    reference = (ROOT / "docs/site/reference.md").read_text()
    names = set(zerolab.__all__) - {"ONGOING", "__version__"}
    assert [name for name in sorted(names) if f":: zerolab.{name}\n" not in reference] == []


def test_published_figures_have_their_place_in_reports() -> None:
    """Reports without a ledger are from earlier versions, and may lack some."""
    page = (ROOT / "docs" / "studies.md").read_text("utf-8")
    section = page.split("## Published tables and figures")[-1].split("\n## ")[0]
    rows = re.findall(r"^\| (\[.*?) \| `([\w.-]+)` \| (.*?) \|$", section, re.MULTILINE)
    assert len(rows) > 20
    for _, study, names in rows:
        assert study in registered_studies()
        folder = ROOT / "docs" / "results" / study
        if (folder / "ledger.parquet").is_file():
            for name in re.findall(r"`([\w.-]+)`", names):
                assert any((folder / f"{name}.{ending}").is_file() for ending in ("png", "csv"))
