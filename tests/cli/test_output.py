"""Output of commands is plain text: names chosen by strangers cannot act on a terminal."""

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
from zerolab.cli.output import Console, say
from zerolab.cli.process import report_interruption, resumable, warnings_in_one_line
from zerolab.cli.progress import new_bar
from zerolab.core.errors import MissingExtraWarning
from zerolab.store.games import GameRecord, GameStore

EVIL = "\x1b[2J\x1b]0;title\x07\x9b5A\u202eevil\r[bold red]:boom:\x7f"
"""Clears the screen, names the window, goes up, turns text around, and is markup."""
SHOWN = r"\x1b[2J\x1b]0;title\x07\x9b5A\u202eevil\r[bold red]:boom:\x7f"


def printed(shown: object) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def without_bells(text: str) -> str:
    """Leave out what rich drops from texts by itself."""
    return text.replace(r"\x07", "").replace(r"\r", "")


@pytest.mark.parametrize("wrap", [str, Text], ids=["str", "Text"])
def test_names_in_tables_and_lines_cannot_act(wrap):
    table = Table("player", title=EVIL, header_style="bold")
    table.add_row(wrap(EVIL))
    for shown in (printed(table), printed(wrap(EVIL))):
        assert without_bells(SHOWN) in shown
        assert EVIL not in shown
        assert "\x1b[2J" not in shown
        assert "\u202e" not in shown
    assert "\x1b[1m" in printed(table)  # bold is ours


def test_a_bar_moves_the_cursor_but_its_titles_do_not():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with new_bar(console) as bar:
        bar.add_task(EVIL, total=2, unit=EVIL, note=EVIL)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "\x1b[2K" in shown  # erases its own line
    assert shown.count("\\x1b[2J") >= 3
    assert "\x1b[2J" not in shown


def test_lines_keep_their_ends_and_tabs(capsys):
    say("a\tb", EVIL)
    say(EVIL, end="", error=True)
    assert capsys.readouterr() == (f"a\tb\n{SHOWN}\n", SHOWN)


def test_a_name_makes_no_lines_of_its_own(tmp_path, capsys):
    say("a\nb", "c")
    assert capsys.readouterr().out == "a\\nb\nc\n"
    GameStore(tmp_path / "games.sqlite").record(1, "gate", [GameRecord(1, "a\n1 c", "b", (), 1)])
    assert main(["rate", str(tmp_path)]) == 0
    assert "a\\n1 c" in capsys.readouterr().out


def test_data_for_programs_are_as_they_are(tmp_path, capsys):
    name = "\u00e4\u00a0b\u200dc\nd,\re\x1b"
    GameStore(tmp_path / "games.sqlite").record(1, "gate", [GameRecord(1, name, "b", (), 1)])
    assert main(["rate", str(tmp_path), "--csv"]) == 0
    shown = capsys.readouterr().out
    rows = csv.DictReader(io.StringIO(shown, newline=""))
    assert [row["player"] for row in rows] == [name, "b"]
    assert main(["rate", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["players"][0]["player"] == name


def test_warnings_and_advice_are_shown_escaped(capsys):
    with pytest.warns(RuntimeWarning) as others, warnings_in_one_line():
        warnings.warn(EVIL, MissingExtraWarning, stacklevel=1)
        warnings.warn(EVIL, RuntimeWarning, stacklevel=1)
    assert [str(each.message) for each in others] == [SHOWN]
    with pytest.raises(KeyboardInterrupt) as stopped, resumable("all is saved", EVIL):
        raise KeyboardInterrupt
    report_interruption(stopped.value)
    shown = capsys.readouterr().err
    assert shown.count(SHOWN) == 2
    assert EVIL not in shown


@pytest.mark.parametrize("option", [[], ["--csv"], ["--json"]], ids=str)
def test_players_of_a_stranger_are_shown_escaped(tmp_path, monkeypatch, capsys, option):
    if option:  # a table would have colours
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    GameStore(tmp_path / "games.sqlite").record(1, "gate", [GameRecord(1, EVIL, "b", (1,), 1)])
    assert main(["rate", str(tmp_path), *option]) == 0
    shown = capsys.readouterr().out
    assert "evil" in shown
    assert shown.replace("\n", "").isprintable()


def test_folders_and_messages_are_shown_escaped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = Path(EVIL)
    folder.mkdir()
    (folder / "config.toml").write_text(EVIL)
    assert main(["runs", "."]) == 0
    assert main(["tensorboard", str(folder)]) == 2
    assert main(["rate", str(folder / "none.pgn")]) == 2
    for shown in capsys.readouterr():
        assert r"\x1b" in shown
        assert shown.replace("\n", "").isprintable()


def test_no_command_prints_text_of_others_by_itself():
    """`say` and `Console` escape it; `print` does not."""
    for path in Path(zerolab.cli.__file__).parent.glob("*.py"):
        if path.name not in ("main.py", "output.py", "process.py"):
            calls = (each for each in ast.walk(ast.parse(path.read_text())) if _is_print(each))
            assert not [f"{path.name}:{call.lineno}" for call in calls if not _is_safe(call)]


def _is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"


def _is_safe(call: ast.Call) -> bool:
    """Return whether a call prints constants or JSON, in which all but ASCII is escaped."""
    return all(
        isinstance(each, ast.Constant)
        or (isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "dumps")
        for each in call.args
    )
