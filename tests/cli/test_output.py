"""Escaping of untrusted names in the output, which could otherwise control the terminal."""

from __future__ import annotations

import ast
import csv
import io
import json
import sys
import warnings
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import zerolab.cli
from zerolab.cli.main import main
from zerolab.cli.output import Console, print_lines
from zerolab.cli.process import advise_resuming, print_warnings_as_lines, report_interruption
from zerolab.cli.progress import new_rich_progress
from zerolab.core.errors import SlowFallbackWarning
from zerolab.store.games import GameRecord, GameStore

EVIL = "\x1b[2J\x1b]0;title\x07\x9b5A\u202eevil\r[bold red]:boom:\x7f"
"""Clears the screen, sets the title, moves the cursor, reverses text, and contains markup."""
ESCAPED = r"\x1b[2J\x1b]0;title\x07\x9b5A\u202eevil\r[bold red]:boom:\x7f"


def rendered(item: object) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    console.print(item)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def without_bells(text: str) -> str:
    """Remove the control characters that rich itself drops."""
    return text.replace(r"\x07", "").replace(r"\r", "")


@pytest.mark.parametrize("wrap", [str, Text], ids=["str", "Text"])
def test_names_in_tables_and_lines_are_escaped(wrap):
    table = Table("player", title=EVIL, header_style="bold")
    table.add_row(wrap(EVIL))
    for output in (rendered(table), rendered(wrap(EVIL))):
        assert without_bells(ESCAPED) in output
        assert EVIL not in output
        assert "\x1b[2J" not in output
        assert "\u202e" not in output
    assert "\x1b[1m" in rendered(table)  # the header's own style


def test_progress_bar_escapes_titles():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with new_rich_progress(console) as bar:
        bar.add_task(EVIL, total=2, unit=EVIL, note=EVIL)
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    assert "\x1b[2K" in output  # erases its own line
    assert output.count("\\x1b[2J") >= 3
    assert "\x1b[2J" not in output


def test_say_keeps_tabs_and_line_ends(capsys):
    print_lines("a\tb", EVIL)
    print_lines(EVIL, end="", error=True)
    assert capsys.readouterr() == (f"a\tb\n{ESCAPED}\n", ESCAPED)


def test_line_breaks_in_names_are_escaped(tmp_path, capsys):
    print_lines("a\nb", "c")
    assert capsys.readouterr().out == "a\\nb\nc\n"
    GameStore(tmp_path / "games.sqlite").write_stage(
        1, "gate", [GameRecord(1, "a\n1 c", "b", (), 1)]
    )
    assert main(["rate", str(tmp_path)]) == 0
    assert "a\\n1 c" in capsys.readouterr().out


def test_csv_and_json_contain_names_unchanged(tmp_path, capsys):
    name = "\u00e4\u00a0b\u200dc\nd,\re\x1b"
    GameStore(tmp_path / "games.sqlite").write_stage(1, "gate", [GameRecord(1, name, "b", (), 1)])
    assert main(["rate", str(tmp_path), "--csv"]) == 0
    output = capsys.readouterr().out
    rows = csv.DictReader(io.StringIO(output, newline=""))
    assert [row["player"] for row in rows] == [name, "b"]
    assert main(["rate", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["players"][0]["player"] == name


def test_warnings_and_advice_are_escaped(capsys):
    with pytest.warns(RuntimeWarning) as caught, print_warnings_as_lines():
        warnings.warn(EVIL, SlowFallbackWarning, stacklevel=1)
        warnings.warn(EVIL, RuntimeWarning, stacklevel=1)
    assert [str(each.message) for each in caught] == [ESCAPED]
    with pytest.raises(KeyboardInterrupt) as interruption, advise_resuming("all is saved", EVIL):
        raise KeyboardInterrupt
    report_interruption(interruption.value)
    output = capsys.readouterr().err
    assert output.count(ESCAPED) == 2
    assert EVIL not in output


@pytest.mark.parametrize("option", [[], ["--csv"], ["--json"]], ids=str)
def test_player_names_are_escaped_on_terminals(tmp_path, monkeypatch, capsys, option):
    if option:  # a table would have colours
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    GameStore(tmp_path / "games.sqlite").write_stage(1, "gate", [GameRecord(1, EVIL, "b", (1,), 1)])
    assert main(["rate", str(tmp_path), *option]) == 0
    output = capsys.readouterr().out
    assert "evil" in output
    assert output.replace("\n", "").isprintable()


def test_folders_and_messages_are_escaped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = Path(EVIL)
    folder.mkdir()
    (folder / "config.toml").write_text(EVIL)
    assert main(["runs", "."]) == 0
    assert main(["tensorboard", str(folder)]) == 2
    assert main(["rate", str(folder / "none.pgn")]) == 2
    for output in capsys.readouterr():
        assert r"\x1b" in output
        assert output.replace("\n", "").isprintable()


def test_commands_do_not_print_unescaped_text():
    """`print_lines` and `Console` escape it; `print` does not."""
    for path in Path(zerolab.cli.__file__).parent.glob("*.py"):
        if path.name not in ("main.py", "output.py", "process.py"):
            calls = (each for each in ast.walk(ast.parse(path.read_text())) if _is_print(each))
            assert not [f"{path.name}:{call.lineno}" for call in calls if not _is_safe(call)]


def _is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"


def _is_safe(call: ast.Call) -> bool:
    """Return True if a call prints only constants or JSON, which escapes all but ASCII."""
    return all(
        isinstance(each, ast.Constant)
        or (isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "dumps")
        for each in call.args
    )
