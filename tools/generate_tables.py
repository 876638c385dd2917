"""Regenerate documentation tables of registered components, settings and measurements.

Also regenerate the references of reports from docs/references.md.

A generated table is between two comments; the first one contains its name:

    <!-- table: losses -->
    ...
    <!-- end -->

Usage: python tools/generate_tables.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import zerolab.agents.specs  # noqa: F401  registers the kinds of agents
from api_table import api, one_line, summary
from zerolab.agents.agent import AGENT_KINDS
from zerolab.cli.agents import agents_table, listed_agents
from zerolab.cli.reference import (
    all_settings,
    format_preset_values,
    format_value,
    preset_values,
    type_and_bounds,
)
from zerolab.core.config import VariantSettings
from zerolab.core.setting_docs import Unit, describe_settings
from zerolab.league.league_settings import LeagueSettings
from zerolab.networks.catalogue import GROWTHS, HEADS, INPUT_PLANES, NETWORKS
from zerolab.networks.objectives import LOSSES
from zerolab.play.game_starts import GAME_STARTS
from zerolab.replay.window_rules import MERGINGS, WINDOWS
from zerolab.report.text import markdown_table
from zerolab.rules.catalogue import registered_games
from zerolab.search.budgets import BUDGETS
from zerolab.search.methods import (
    FPU_SETTINGS,
    LEAF_EVALUATOR_SETTINGS,
    ROOT_RULE_SETTINGS,
    SELECTION_SETTINGS,
)
from zerolab.studies.study import registered_studies
from zerolab.training.criteria import GATES, RAMPS, STOP_RULES
from zerolab.training.optimization import OPTIMIZERS, RATE_SCHEDULES
from zerolab.training.records import Record
from zerolab.training.warm_start import WARM_START_VARIANTS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_KEYS = re.findall(r"\*\*\[\[(\w+)\]\]", (ROOT / "docs" / "references.md").read_text("utf-8"))
_CITED = re.compile(rf"(\[|, |; )({'|'.join(sorted(_KEYS, key=len, reverse=True))})(?=[\],;])")
"""Key in a citation such as [Wang2020a, Eq. 2] or [Wang2019; Wang2020b]."""
_MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Rows = Iterable[Sequence[str]]


def regenerate(text: str, folder: Path) -> str:
    """Return the text of a page in `folder` with all marked tables regenerated."""
    root = os.path.relpath(ROOT, folder)

    def replace(match: re.Match[str]) -> str:
        table = _CITED.sub(_linked, TABLES[match[2]]()).replace("](/", f"]({root}/")
        return f"{match[1]}{table}{match[3]}"

    return _MARKED.sub(replace, text)


def _linked(citation: re.Match[str]) -> str:
    return f"{citation[1]}[{citation[2]}](/docs/references.md#{citation[2].lower()})"


def markdown(headings: Sequence[str], rows: Rows) -> str:
    """Return a Markdown table; columns whose headings begin with > are right-aligned."""
    titles = [heading.lstrip(">") for heading in headings]
    rules = ["---:" if heading.startswith(">") else "---" for heading in headings]
    lines = [f"| {' | '.join(titles)} |", f"|{'|'.join(rules)}|"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    return "".join(f"{line}\n" for line in lines)


def source(kind: Any) -> str:
    """Return a link to a class's file, relative to the repository root."""
    path = f"src/{kind.__module__.replace('.', '/')}.py"
    return f"[`{path.removeprefix('src/zerolab/')}`](/{path})"


def choices(registry: Mapping[str, type[VariantSettings]]) -> str:
    """Return the table of a setting's alternatives."""
    rows = []
    for name, settings in registry.items():
        kind = type(settings().build())
        if kind.__module__.startswith("zerolab."):
            rows.append([f"`{name}`", summary(settings), _fields(settings), source(kind)])
    return markdown(["name", "description", "settings and defaults", "file"], rows)


def _fields(settings: type[VariantSettings]) -> str:
    """Return the settings of an alternative with their defaults."""
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in settings.model_fields.items()
        if name != "name"
    }
    return ", ".join(f"`{name}` {_format(value)}" for name, value in defaults.items())


def _format(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return ", ".join(map(_format, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def agents() -> str:
    """Return the table of agent kinds."""
    rows = []
    for name, kind in sorted(AGENT_KINDS.items()):
        rows.append([f"`{name}`", kind.spec_form, summary(type(kind)), source(type(kind))])
    return markdown(["kind", "written as", "description", "file"], rows)


def shipped_agents() -> str:
    """Return the table of shipped agents, and the commands that trained them."""
    listed = list(listed_agents())
    if not listed:
        return "None yet.\n"
    commands = [
        f"- `{each.name}`: `{each.card.training.command}`\n" for each in listed if each.card
    ]
    return f"{markdown_table(agents_table(listed))}\n\n{''.join(commands)}"


def examples() -> str:
    """Return the list of examples with the first paragraphs of their docstrings."""
    lines = []
    for path in sorted((ROOT / "examples").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        text = one_line(docstring.split("\n\n")[0])
        lines.append(f"- [`{path.name}`](/examples/{path.name}): {text}\n")
    return "".join(lines)


def games() -> str:
    """Return the table of built-in games."""
    rows = []
    for name, entry in registered_games().items():
        if entry.game_type.__module__.startswith("zerolab."):
            sizes = [
                f"{field} {low} to {high}" for field, (low, high) in entry.field_bounds().items()
            ]
            rows.append(
                [f"`{name}`", summary(entry.game_type), ", ".join(sizes), source(entry.game_type)]
            )
    return markdown(["name", "description", "sizes", "file"], rows)


def variants() -> str:
    """Return the table of warm-start variants."""
    rows = [
        [f"`{name}`", *(f"`{rule}`" if rule else "" for rule in variant)]
        for name, variant in WARM_START_VARIANTS.items()
    ]
    return markdown(["variant", "selection", "leaf evaluator"], rows)


def settings() -> str:
    """Return a heading and a table for each section of the run settings."""
    presets, every = preset_values(), all_settings()
    groups = {each.key.partition(".")[0] for each in every if "." in each.key}
    sections: dict[str, list[list[str]]] = {}
    for each in every:
        group = each.key.partition(".")[0]
        condition = f" with `{each.variant}`" if each.variant else ""
        text = " ".join(filter(None, (each.description, each.papers)))
        cells = [
            f"`{each.key}`{condition}", type_and_bounds(each), format_value(each.default),
            format_preset_values(presets, each), text,
        ]  # fmt: skip
        escaped = [cell.replace("|", r"\|").replace("``", "`") for cell in cells]
        title = f"## {group}" if group in groups else "## The run"
        sections.setdefault(title, []).append(escaped)
    headings = ["key", "type", "default", "in presets", "description"]
    return "\n".join(f"{title}\n\n{markdown(headings, rows)}" for title, rows in sections.items())


def league() -> str:
    """Return the table of league settings without the search settings shared with runs."""
    rows = []
    for each in describe_settings(LeagueSettings):
        if each.key.startswith("search.") or each.key in ("game", "network", "identity", "seed"):
            continue
        text = " ".join(filter(None, (each.description, each.papers)))
        cells = [f"`{each.key}`", type_and_bounds(each), format_value(each.default), text]
        rows.append([cell.replace("|", r"\|").replace("``", "`") for cell in cells])
    return markdown(["key", "type", "default", "description"], rows)


def studies() -> str:
    """Return the table of studies."""
    rows = [
        [f"`{name}`", summary(study), source(study)]
        for name, study in sorted(registered_studies().items())
        if study.__module__.startswith("zerolab.")
    ]
    return markdown(["name", "description", "file"], rows)


def benchmarks() -> str:
    """Return the table of all measurements in docs/benchmarks.json."""
    rows = []
    for entry in json.loads((ROOT / "docs" / "benchmarks.json").read_text("utf-8")):
        parts = [f"{part} {100 * share:.1f} %" for part, share in entry.get("shares", {}).items()]
        remarks = "; ".join(filter(None, [", ".join(parts), entry.get("note", "")]))
        rows.append(
            [
                f"`{entry['name']}`", f"{_number(entry['median'])} {entry['unit']}",
                f"{_number(entry['limit'])}: {entry['limit_of']}", f"{entry['ratio']:.3g}", remarks,
            ]
        )  # fmt: skip
    headings = ["benchmark", ">median", "limit", ">ratio", "time by part; remarks"]
    return markdown(headings, rows)


def glossary() -> str:
    """Return the table of terms, which the pages of the laboratory also show."""
    path = ROOT / "src" / "zerolab" / "web" / "static" / "glossary.json"
    rows = []
    for entry in json.loads(path.read_text("utf-8")):
        names = [f"**{entry['term']}**", *entry["also"]]
        page = entry["more"].partition("#")[0]
        rows.append([", ".join(names), entry["text"], f"[{page}](/docs/{entry['more']})"])
    return markdown(["term", "meaning", "more"], rows)


def metrics() -> str:
    """Return a table for each record type in metrics.jsonl."""
    common = _record_rows(Record, Record.model_fields)
    parts = ["## All lines\n\n" + markdown(_RECORD_HEADINGS, common)]
    for stage, kind in Record.class_by_stage.items():
        text = " ".join((kind.__doc__ or "").split()).replace("``", "`")
        own = [name for name in kind.model_fields if name not in Record.model_fields]
        table = markdown(_RECORD_HEADINGS, _record_rows(kind, own))
        parts.append(f"## {stage}\n\n{text}\n\n{table}")
    return "\n" + "\n".join(parts)


_RECORD_HEADINGS = ("field", "type", "unit", "meaning")


def _record_rows(kind: type[Record], names: Iterable[str]) -> Rows:
    """Yield the name, type, unit and meaning of each field of a record."""
    for name in names:
        field = kind.model_fields[name]
        annotation, is_optional = _annotation(field.annotation)
        units = [each.name for each in (*field.metadata, *annotation[1]) if isinstance(each, Unit)]
        meaning = " ".join((field.description or "").split()).replace("``", "`")
        kind_name = ("*optional* " if is_optional else "") + annotation[0]
        yield [f"`{name}`", kind_name, units[0] if units else "", meaning]


def _annotation(annotation: Any) -> tuple[tuple[str, tuple[Any, ...]], bool]:
    """Return the name of a field's type, its metadata, and whether the field is optional."""
    members = [each for each in get_args(annotation) if each is not type(None)]
    is_optional = type(None) in get_args(annotation)
    inner = members[0] if is_optional else annotation
    details = getattr(inner, "__metadata__", ())
    plain = get_args(inner)[0] if details else inner
    if get_origin(plain) is Literal:
        name = " or ".join(get_args(plain))
    else:
        name = str(plain) if get_args(plain) else plain.__name__
    return (name, details), is_optional


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"


TABLES: Mapping[str, Callable[[], str]] = {
    "agents": agents,
    "api": api,
    "benchmarks": benchmarks,
    "examples": examples,
    "fpu": lambda: choices(FPU_SETTINGS),
    "budgets": lambda: choices(BUDGETS),
    "gates": lambda: choices(GATES),
    "games": games,
    "game-starts": lambda: choices(GAME_STARTS),
    "glossary": glossary,
    "growths": lambda: choices(GROWTHS),
    "heads": lambda: choices(HEADS),
    "input-planes": lambda: choices(INPUT_PLANES),
    "league": league,
    "leaf-evaluators": lambda: choices(LEAF_EVALUATOR_SETTINGS),
    "root-rules": lambda: choices(ROOT_RULE_SETTINGS),
    "losses": lambda: choices(LOSSES),
    "mergings": lambda: choices(MERGINGS),
    "metrics": metrics,
    "networks": lambda: choices(NETWORKS),
    "optimizers": lambda: choices(OPTIMIZERS),
    "rate-schedules": lambda: choices(RATE_SCHEDULES),
    "schedules": lambda: choices(RAMPS),
    "settings": settings,
    "shipped-agents": shipped_agents,
    "selections": lambda: choices(SELECTION_SETTINGS),
    "stop-rules": lambda: choices(STOP_RULES),
    "studies": studies,
    "variants": variants,
    "windows": lambda: choices(WINDOWS),
}
"""Table generators by the names in the comments."""


REFERENCES = ROOT / "src" / "zerolab" / "report" / "references.json"
"""References that reports list."""

_ENTRY = re.compile(r"^- <a id=\"[^\"]+\"></a>\*\*\[\[(\w+)\]\]\*\* (.*(?:\n  .*)*)", re.MULTILINE)
_URL = re.compile(r"\[[^\]]*\]\((https?://[^)\s]+)\)|<(https?://[^>]+)>")


def references() -> str:
    """Return the entries of docs/references.md as JSON: text without links and the first link."""
    entries = {}
    for key, entry in _ENTRY.findall((ROOT / "docs" / "references.md").read_text("utf-8")):
        links = [link[1] or link[2] for link in _URL.finditer(entry)]
        text = " ".join(_URL.sub("", entry).replace("*", "").split())
        text = re.sub(r"[\s,.:;]*([.,;])(?=\s|$)", r"\1", text)  # left around links
        text = re.sub(r"[,;](?: [^;,.]*:| preprint)?$", "", text.strip())  # before a link
        text = text if text.endswith((".", ")")) else f"{text}."
        entries[key] = [text, links[0] if links else ""]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Regenerate the tables of all pages and the references, and print the changed pages."""
    if references() != REFERENCES.read_text("utf-8"):
        REFERENCES.write_text(references(), "utf-8")
        sys.stdout.write(f"{REFERENCES.relative_to(ROOT)}\n")
    for page in PAGES:
        text = page.read_text("utf-8")
        regenerated = regenerate(text, page.parent)
        if regenerated != text:
            page.write_text(regenerated, "utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
