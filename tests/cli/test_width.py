"""Help, tables and lines that fit the width of the terminal without breaking words."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter

import pytest

from zerolab.cli.main import COMMANDS, main
from zerolab.cli.output import Console, print_lines
from zerolab.cli.process import wrap_line
from zerolab.cli.progress import new_rich_progress
from zerolab.report.table import Column, Interval, Table
from zerolab.report.text import print_table
from zerolab.studies.study import registered_studies

HELP = [
    [],
    *([name] for name in COMMANDS),
    ["bench", "strength"],
    *(["study", name] for name in registered_studies()),
]


def help_text(command, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    if command:
        with pytest.raises(SystemExit):
            main([*command, "--help"])
    else:
        main(["--help"])
    return capsys.readouterr().out


def words(text):
    """Count the words of a help text below the usage, without frames and backslashes."""
    below_usage = text.partition("\n\n")[2]
    return Counter(
        word for word in re.findall(r"[^\s│]+", below_usage) if not re.match(r"[-─╭╰╮╯\\]+$", word)
    )


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_help_fits_the_terminal_with_whole_words(command, monkeypatch, capsys):
    complete = words(help_text(command, 400, monkeypatch, capsys))
    for width in (60, 80, 140):
        text = help_text(command, width, monkeypatch, capsys)
        assert max(map(len, text.split("\n"))) <= width
        assert words(text) == complete


def test_wrapped_examples_can_be_pasted(monkeypatch, capsys):
    text = help_text(["league"], 60, monkeypatch, capsys)
    assert re.search(r"  zerolab league gobang:6x6:4 \\\n      --set 'parameters=\[", text)


def test_help_in_a_terminal_has_no_gap_after_a_line_that_just_fits(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for width in range(70, 90):
        text = help_text(["solve"], width, monkeypatch, capsys)
        options = re.sub(r"\x1b\[[\d;]*m", "", text).partition("options")[2]
        assert not re.search(r"\n[│ ]*\n", options)


COLUMNS = [
    "player",
    Column("points per game", ".1%"),
    *(f"against {name}" for name in ("random", "mcts:100?tie_break=random", "runs/demo@12")),
    "remarks",
]
ROWS = [
    [
        f"runs/connect_four-6x7-{n}",
        Interval(0.5, 0.25, 0.75),
        n,
        0.5,
        None,
        "stopped by a person " * n,
    ]
    for n in range(1, 4)
]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_tables_fit_the_terminal_with_whole_words(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(Console(), Table("", "results", COLUMNS, ROWS, "a note below the table"))
    output = capsys.readouterr().out
    assert max(map(len, output.split("\n"))) <= width
    for word in ("50.0 % (25.0 to 75.0)", "runs/connect_four-6x7-2", "mcts:100?tie_break=random"):
        assert word in output
    assert output.count("results") == output.count("a note below the table") == 1
    assert output.count("stopped") == sum(range(1, 4))


def test_tables_in_files_have_one_line_per_row(monkeypatch, capsys):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(Console(), Table("", "", COLUMNS[:-1], [row[:-1] for row in ROWS]))
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(ROWS)


def test_games_and_settings_fit_the_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for arguments in (["games"], ["settings"], ["study"]):
        assert main(arguments) == 0
        lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
        assert max(map(len, lines)) <= 80


def test_lines_are_wrapped_only_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    line = "    " + "word " * 12 + "/a/path/that/is/much/longer/than/forty/columns"
    print_lines(line)
    assert capsys.readouterr().out == f"{line}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_lines(line)
    output = capsys.readouterr().out
    assert output.count("\n    word") >= 1
    assert line.rsplit(maxsplit=1)[-1] in output.split()
    assert wrap_line(line, None) == line


@pytest.mark.parametrize("value", ["", "0", "-5", "eighty", "٨٠"])
def test_unusable_columns_are_ignored(value, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", value)
    print_table(Console(), Table("", "", ["x" * 100], []))
    assert "x" * 100 in capsys.readouterr().out


def test_mistakes_are_reported_without_colours_in_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["games", "--jsn"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('zerolab: Unrecognized options: --jsn; did you mean "--json"? (see ')


def test_progress_keeps_counts_and_times_at_80_columns():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with new_rich_progress(console) as bar:
        title = "iteration 2/2 against mcts:100?tie_break=random"
        bar.add_task(title, total=40, completed=20, unit="games", note="90 positions/s, about 1 s")
    assert isinstance(console.file, io.StringIO)
    output = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", console.file.getvalue())
    lines = [line for line in output.replace("\n", "\r").split("\r") if line.strip()]
    assert lines
    for line in lines:
        assert re.search("20/40 games 0:00:0. -:--:--", line)
        assert len(line) <= 80
