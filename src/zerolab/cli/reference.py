"""`zerolab games`, `perft`, `settings` and `findings`: reference listings and study verdicts."""

from __future__ import annotations

import json as json_format
import os
import textwrap
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import tyro

from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.process import terminal_width
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.files import check_output_path, write_text
from zerolab.report.table import Cell, Table
from zerolab.report.text import print_table
from zerolab.rules import encoding, rules
from zerolab.rules.catalogue import GameRegistration, parse_game, registered_games
from zerolab.rules.compiled_rules import perft

if TYPE_CHECKING:
    from zerolab.core.setting_docs import SettingDescription
    from zerolab.report.document import Document


def games(*, json: bool = False) -> None:
    """List games with their sizes, and their numbers of actions and symmetries at the default size.

    A game name alone, as in zerolab train othello, selects the default size.

    Example: zerolab games --json

    Args:
        json: Print a JSON list instead of a table.
    """
    rows = [_describe(name, entry) for name, entry in registered_games().items()]
    if json:
        print(json_format.dumps(rows))
    else:
        print_table(Console(), _table(rows))


_NAMING = (
    "Games are named GAME:ROWSxCOLUMNS, as in othello:6x6, or just GAME for the default size."
    " Gobang also takes a line length, as in gobang:6x6:5."
)


def _describe(name: str, entry: GameRegistration) -> dict[str, Any]:
    """Return a game's name pattern, its sizes, and its properties at the default size."""
    sizes = entry.field_bounds()
    optional = [f"[:{field.upper()}]" for field in list(sizes)[2:]]
    example: Any = entry.default_game()
    return {
        "name": name,
        "form": f"{name}:ROWSxCOLUMNS{''.join(optional)}",
        "sizes": {field: list(bounds) for field, bounds in sizes.items()},
        "defaults": dict(entry.game_type._field_defaults),
        "example": f"{name}:{example.rows}x{example.columns}",
        "actions": int(rules.action_count(example)),
        "symmetries": int(encoding.symmetry_count(example)),
        "planes": int(encoding.plane_count(example)),
    }


def _table(entries: list[dict[str, Any]]) -> Table:
    rows: list[list[Cell]] = []
    for each in entries:
        defaults = {name: f" (default {value})" for name, value in each["defaults"].items()}
        sizes = ", ".join(
            f"{field} {low}..{high}{defaults.get(field, '')}"
            for field, (low, high) in each["sizes"].items()
        )
        rows.append([each["name"], sizes, each["example"], each["actions"], each["symmetries"]])
    columns = ["game", "sizes", "default", "actions", "symmetries"]
    return Table("games", "", columns, rows, note=_NAMING)


_DEEPEST = 1000


def count_move_sequences(
    game: tyro.conf.Positional[str], depth: tyro.conf.Positional[int], *, json: bool = False
) -> None:
    """Count the move sequences of each length up to DEPTH plies, and how many end the game.

    A pass counts as a ply.

    Example: zerolab perft othello:6x6 8 --json

    Args:
        game: Game, such as othello:6x6 or connect_four:6x7.
        depth: Maximum number of plies.
        json: Print [{"depth": d, "leaves": n, "ended": m}, ...].
    """
    if not 1 <= depth <= _DEEPEST:
        raise UserError(f"depth = {depth}: expected at least 1 and at most {_DEEPEST}")
    began = time.perf_counter()
    counts = []
    for each in perft(parse_game(game), depth):
        counts.append(
            {"depth": each.depth, "leaves": each.leaf_count, "ended": each.ended_leaf_count}
        )
        if not json:
            seconds = time.perf_counter() - began
            print_lines(
                f"{each.depth:3} {each.leaf_count:15,} sequences, {each.ended_leaf_count:,} ended,"
                f" {seconds:.2f} s"
            )
    if json:
        print(json_format.dumps(counts))


_TEXT_WIDTH = 100  # in files, and the maximum in terminals


def settings(pattern: tyro.conf.Positional[str] = "", *, json: bool = False) -> None:
    """List run settings with their types, bounds, defaults, preset values and published values.

    If a setting, such as search.selection, is a choice between alternatives, each alternative has
    its own settings. Change a setting with zerolab train --set KEY=VALUE, or in a file for
    zerolab train --preset FILE.toml.

    Examples:
      zerolab settings
      zerolab settings gate
      zerolab settings 'search.*.c'
      zerolab settings --json

    Args:
        pattern: Part of a key, the name of an alternative, or a pattern that matches keys, with *
            and ? as wildcards. By default, all settings are listed.
        json: Print a JSON list.
    """
    matches = _matching(pattern)
    presets = preset_values()
    if json:
        print_json([setting_as_dict(each, presets) for each in matches])
        return
    for each in matches:
        for line in _lines(each, presets):
            print_lines(line)


def _matching(pattern: str) -> list[SettingDescription]:
    """Return the settings that match a pattern.

    If there are none, return the setting that papers call by this name, as with ``lr``. Raises
    UserError if there is no such setting either.
    """
    from zerolab.core.config import find_setting_key
    from zerolab.training.train_settings import TrainSettings

    every = all_settings()
    folded = pattern.casefold()
    if any(character in folded for character in "*?"):
        matches = [each for each in every if fnmatchcase(each.key, folded)]
    else:
        matches = [
            each
            for each in every
            if folded in each.key or folded in (each.variant, *each.type.split(" | "))
        ]
    if not matches and (key := find_setting_key(TrainSettings, folded)):
        matches = [each for each in every if each.key == key]
    if not matches:
        parts = [part for each in every for part in (each.key, *each.key.split("."), each.variant)]
        raise UserError(
            f"no setting has {quoted(pattern)} in its key{did_you_mean(pattern, parts)}"
        )
    return matches


def all_settings() -> list[SettingDescription]:
    """Return all settings of a run."""
    from zerolab.core.setting_docs import describe_settings
    from zerolab.training.train_settings import TrainSettings

    return list(describe_settings(TrainSettings))


def preset_values() -> dict[str, dict[str, Any]]:
    """Return the settings of every built-in preset, by preset name and dotted key.

    A setting that a preset does not set has the default given by `all_settings`.
    """
    from zerolab.core.setting_docs import flatten_settings
    from zerolab.training.configure import resolve_settings
    from zerolab.training.shorthands import preset_names

    defaults = {each.key: each.default for each in all_settings() if not each.variant}
    values = {}
    for name in preset_names():
        preset = resolve_settings(None, name)
        explicit = dict(flatten_settings(preset.model_dump(exclude_unset=True)))
        values[name] = {
            key: value if key in explicit else defaults.get(key, value)
            for key, value in flatten_settings(preset.model_dump())
        }
    return values


def values_by_preset(
    presets: Mapping[str, Mapping[str, Any]], setting: SettingDescription
) -> dict[str, Any]:
    """Return the values of a setting by preset name.

    Presets that select another alternative are omitted. In a list of alternatives, the settings of
    an alternative have keys that include its name.
    """
    parent = setting.key.rpartition(".")[0]
    return {
        name: values[setting.key]
        for name, values in presets.items()
        if setting.key in values
        and (not setting.variant or values.get(parent, setting.variant) == setting.variant)
    }


def setting_as_dict(
    setting: SettingDescription, presets: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a setting and its values in presets as a JSON-compatible dictionary."""
    return {**setting._asdict(), "presets": values_by_preset(presets, setting)}


def format_value(value: Any) -> str:
    """Return the value of a setting as users write it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    text = ", ".join(map(format_value, value)) if isinstance(value, list | tuple) else str(value)
    return text or "empty"


def type_and_bounds(setting: SettingDescription) -> str:
    """Return the type and bounds of a setting as text."""
    return ", ".join(filter(None, (setting.type, setting.bounds)))


def format_preset_values(
    presets: Mapping[str, Mapping[str, Any]], setting: SettingDescription
) -> str:
    """Return the preset values of a setting as text, such as ``60 (mini), 8 (smoke)``."""
    grouped: dict[str, list[str]] = {}
    for name, value in values_by_preset(presets, setting).items():
        grouped.setdefault(format_value(value), []).append(name)
    if list(grouped) == [format_value(setting.default)] and not setting.variant:
        return "default in all"
    return ", ".join(f"{value} ({', '.join(names)})" for value, names in grouped.items())


def _lines(setting: SettingDescription, presets: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    condition = f" (with {setting.variant})" if setting.variant else ""
    default = format_value(setting.default)
    width = min(terminal_width() or _TEXT_WIDTH, _TEXT_WIDTH)
    yield f"{setting.key}{condition}: {type_and_bounds(setting)}; default {default}"
    values = format_preset_values(presets, setting)
    for text in (setting.description, setting.papers, f"presets: {values}" if values else ""):
        yield from textwrap.wrap(
            text, width, initial_indent="    ", subsequent_indent="    ",
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


_PAGE_SUFFIXES = (".md", ".html")


def findings(
    *,
    folder: Path = Path("studies"),
    output: Path | None = None,
    json: bool = False,
) -> None:
    """Show the verdict on every published finding, from the ledgers of all studies.

    For each finding, show where the paper states it, the test statistic with its interval, and the
    verdict, power and seeds at every measured scale.

    Examples:
      zerolab findings
      zerolab findings --folder docs/results --output docs/findings.md
      zerolab findings --json

    Args:
        folder: Folder of studies or published reports, with a ledger in each subfolder.
        output: Write a page to this file, whose name ends in .md or .html, instead of printing
            tables.
        json: Print all findings as JSON.
    """
    from zerolab.cli.progress import progress_bar
    from zerolab.report.text import print_document
    from zerolab.studies.findings import (
        findings_as_dict,
        findings_document,
        judge_studies,
        read_ledgers,
    )

    if output is not None and output.suffix not in _PAGE_SUFFIXES:
        raise UserError(f"--output {quoted(output)}: expected a name that ends in .md or .html")
    if output is not None and json:
        raise UserError("--json prints the findings: leave out --output")
    if output is not None:
        check_output_path(output)
    if not folder.is_dir():
        problem = "is not a folder" if folder.exists() else "does not exist"
        raise UserError(
            f"--folder {quoted(folder)} {problem}: expected a folder of studies, as created by"
            " zerolab study NAME, or of published reports, such as docs/results"
        )
    ledgers, refused = read_ledgers(folder)
    with progress_bar("findings", len(ledgers), "ledgers") as update:
        studies, unfit = judge_studies(ledgers, update)
    refused += unfit
    for message in refused:
        print_lines(f"skipped: {message}", error=True)
    if json:
        print_json(findings_as_dict(studies))
        return
    start = output.parent if output else Path()
    document = findings_document(
        studies, lambda path, name: _link_to_report(path, name, start), refused
    )
    if output is None:
        print_document(document, Console())
    else:
        _write_findings(document, output)


def _link_to_report(ledger: Path, figure: str, start: Path) -> str:
    """Return the path from `start` to a figure or page of a ledger's report; "" if missing."""
    from zerolab.studies.study import REPORT_FOLDER

    for folder in (ledger.parent, ledger.parent / REPORT_FOLDER):
        path = folder / (f"{figure}.png" if figure else "README.md")
        if path.is_file():
            return quote(Path(os.path.relpath(path, start)).as_posix())
    return ""


def _write_findings(document: Document, output: Path) -> None:
    from zerolab.report.html import html_page
    from zerolab.report.text import markdown_page

    page = html_page(document, {}) if output.suffix == ".html" else markdown_page(document)
    write_text(output, page)
    print_lines(f"written: {output}")
