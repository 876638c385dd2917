"""`zerolab study` and `zerolab report`, without running a study."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerolab.cli import study
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.store.folder import lock_folder
from zerolab.studies.execution import StudyExecution
from zerolab.studies.ledger import Ledger, LedgerHeader, read_ledger, write_ledger
from zerolab.studies.study import registered_studies
from zerolab.studies.study_folder import STUDY_FOLDER_KIND

OPTIONS = ("scale", "only", "workers", "ray", "seeds", "hours", "status", "folder", "json")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_studies_are_listed(capsys):
    assert main(["study"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in registered_studies())
    assert main(["study", "--json"]) == 0
    listed = {each["name"]: each["description"] for each in json.loads(capsys.readouterr().out)}
    assert list(listed) == sorted(registered_studies())
    assert "Table 5.1" in listed["table-5.1"]


@pytest.mark.parametrize("name", registered_studies())
def test_every_study_has_help_with_examples(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["study", name, "--help"])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    assert f"usage: zerolab study {name}" in printed
    assert f"Examples:\n  zerolab study {name}" in printed
    assert all(f"--{option} " in printed or f"--no-{option} " in printed for option in OPTIONS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tabel-5.1"], 'unknown study "tabel-5.1": expected one of'),
        (["tabel-5.1"], 'did you mean "table-5.1"?'),
        (["--json", "table-5.1"], "expected the name first, as in zerolab study table-5.1 --json"),
        (["table-5.1", "--scael", "mini"], "Unrecognized options: --scael"),
        (["table-5.1", "--scale", "papre"], "papre"),
        (["table-5.1", "--only", "otello"], 'unknown part "otello": expected one of gobang, conn'),
        (["table-5.1", "--only", "otello"], 'did you mean "othello"?'),
        (["table-5.1", "--only", "otello", "--status"], 'unknown part "otello"'),
        (["table-5.1", "--workers", "-1"], "workers = -1: expected 1 to 100000"),
        (["table-5.1", "--workers", "two"], "Error parsing --workers"),
        (["table-5.1", "--seeds", "100"], "table-5.1 has no runs: leave out --seeds"),
        (["warm-start", "--seeds", "1-3"], '--seeds "1-3": expected seeds from 100 to 999'),
        (
            ["warm-start", "--seeds", "x"],
            '--seeds "x": expected numbers and ranges such as',
        ),
        (["warm-start", "--hours", "0"], "--hours 0.0: expected a positive number"),
        (["warm-start", "--hours", "nan"], "--hours nan: expected a positive number"),
        (["warm-start", "--hours", "0.01"], "--hours 0.01 is too short for a round"),
        (["warm-start", "--hours", "9", "--only", "gobang"], "leave out --only"),
        (["warm-start", "--hours", "9", "--scale", "smoke"], "has one seed at the smoke scale"),
        (["table-5.1", "--hours", "9"], "has no seeds at the mini scale"),
        (["table-5.1", "--folder", "full"], "full/table-5.1-mini is not a study and not empty"),
        (["table-5.1", "--folder", "letter"], "letter"),
        (["table-5.1", "--folder", "begun"], "begun/table-5.1-mini was started by a version of"),
    ],
)
def test_mistakes_print_one_line_and_exit_with_2(arguments, expected, capsys):
    Path("letter").write_text("mine")
    full, older = Path("full/table-5.1-mini"), Path("begun/table-5.1-mini")
    full.mkdir(parents=True)
    (full / "letter").write_text("mine")
    older.mkdir(parents=True)
    saved = {"study": "table-5.1", "scale": "mini", "design": "of another version"}
    STUDY_FOLDER_KIND.write_settings(older, saved)
    assert main(["study", *arguments]) == 2
    printed = capsys.readouterr().err
    assert expected in printed
    assert len(printed.splitlines()) == 1
    assert not Path("studies").exists()
    assert [path.name for path in full.iterdir()] == ["letter"]


def test_damaged_folder_is_reported(capsys):
    path = Path("studies/table-5.1-mini")
    path.mkdir(parents=True)
    STUDY_FOLDER_KIND.write_settings(path, {"study": "table-5.1", "scale": "mini", "design": "x"})
    settings = path / "study.toml"
    settings.write_text(settings.read_text().replace("mini", "paper"))
    for command in ("study", "report"):
        assert main([command, "table-5.1"]) == 2
        assert "is damaged" in capsys.readouterr().err


def test_report_is_not_written_through_a_link(tmp_path, capsys):
    own, path = tmp_path / "own", Path("studies/table-5.1-mini")
    own.mkdir()
    path.mkdir(parents=True)
    (path / "report").symlink_to(own)
    assert main(["report", "table-5.1"]) == 2
    assert "report: it is a link" in capsys.readouterr().err
    assert not list(own.iterdir())


def test_second_process_is_refused(capsys):
    path = Path("studies/table-5.1-mini")
    path.mkdir(parents=True)
    with lock_folder(path):
        assert main(["study", "table-5.1"]) == 2
    assert "in use by another process" in capsys.readouterr().err


def test_failures_are_listed_even_if_report_fails(capsys, monkeypatch):
    def raise_disk_full(*arguments):
        raise UserError("the disk is full")

    monkeypatch.setattr(study, "_perform", lambda *arguments: {"a: a run": ["it is broken"]})
    monkeypatch.setattr(study, "show_report", raise_disk_full)
    assert main(["study", "table-5.1"]) == 2
    printed = capsys.readouterr().err
    assert "a: a run failed:\n  it is broken" in printed
    assert "the disk is full" in printed
    monkeypatch.setattr(study, "show_report", lambda *arguments: None)
    assert main(["study", "table-5.1"]) == 2
    assert "1 of the tasks failed, as listed above" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "workers", "expected"),
    [
        ("published-bugs", 1, " games to play, 6 of 6 computations to do with 1 worker; about"),
        ("table-5.1", 2, "mini: 157,500 of 157,500 games to play with 2 workers; about"),
    ],
)
def test_remaining_work_is_announced(name, workers, expected, tmp_path, capsys):
    planned = StudyExecution.plan(registered_studies()[name], "mini", tmp_path)
    study._announce(planned, planned.progress(), workers)
    assert expected in capsys.readouterr().err


def test_status_of_new_study_counts_all_games(capsys):
    assert main(["study", "table-5.1", "--scale", "paper", "--status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["study"], status["scale"]) == ("table-5.1", "paper")
    assert (status["planned_runs"], status["planned_games"], status["finished_games"]) == (
        0,
        157_500,
        0,
    )
    games = {part["part"]: part["planned_games"] for part in status["parts"]}
    assert games == dict.fromkeys(("gobang", "connect_four", "othello"), 52_500)
    assert status["planned_core_seconds"] > status["finished_core_seconds"] == 0
    assert status["failures"] == {}
    assert main(["study", "table-5.1", "--only", "othello", "--status"]) == 0
    printed = capsys.readouterr().out
    assert "0/52,500" in printed
    assert "gobang" not in printed
    assert main(["study", "published-bugs", "--status"]) == 0
    assert "0/6" in capsys.readouterr().out
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "NAME"),
        (["table-5.1"], "studies/table-5.1-mini"),
        (["table-5.1"], "zerolab study table-5.1 --scale mini"),
        (["tabel-5.1"], 'did you mean "table-5.1"?'),
        (["table-5.1", "--scale", "papre"], "papre"),
        (["table-5.1", "--ledger", "none"], "--ledger needs --output"),
        (["table-5.1", "--ledger", "a", "--scale", "mini"], "--scale has no effect with --ledger"),
        (["table-5.1", "--ledger", "a", "--folder", "b"], "--folder has no effect with --ledger"),
        (
            ["table-5.1", "--ledger", "none", "--output", "out"],
            "expected a study ledger file written by",
        ),
        (["table-5.1", "--ledger", "letter", "--output", "out"], "letter is not a Parquet file"),
        (["table-5.1", "--ledger", "a", "--ledger", "./a", "--output", "out"], "a file twice"),
        (
            ["table-5.1", "--ledger", "a", "--ledger", "ledger.parquet", "--output", "."],
            "--output . contains a --ledger",
        ),
        (["table-5.1", "--ledger", "loss", "--output", "out"], 'is a ledger of "loss-functions"'),
        (["loss-functions", "--ledger", "loss", "--output", "out"], "a different design of loss-"),
    ],
)
def test_report_mistakes_print_one_line_and_exit_with_2(arguments, expected, capsys):
    Path("letter").write_text("mine")
    header = LedgerHeader("loss-functions", "smoke", "of another version")
    write_ledger(Path("loss"), Ledger(header, [100], [], 1))
    assert main(["report", *arguments]) == 2
    printed = capsys.readouterr().err
    assert expected in printed
    assert len(printed.splitlines()) == 1
    assert not Path("studies").exists()
    assert not Path("out").exists()


def test_report_from_an_empty_ledger_has_no_data(capsys):
    study = registered_studies()["loss-functions"]
    header = LedgerHeader(study.name, "smoke", study.design_digest("smoke"))
    write_ledger(Path("empty"), Ledger(header, [100], [], 1))
    assert main(["report", study.name, "--ledger", "empty", "--output", "out", "--json"]) == 0
    claims = json.loads(capsys.readouterr().out)["claims"]
    assert {each["verdict"] for each in claims} == {"no data"}
    assert read_ledger(Path("out/ledger.parquet")) == read_ledger(Path("empty"))


@pytest.mark.parametrize(
    ("name", "seeds", "options"),
    [
        ("warm-start", range(101, 104), " --seeds 101-103"),
        ("warm-start", [100, 107], " --seeds 100,107"),
        ("table-5.1", [], ""),
    ],
)
def test_cited_command_names_seeds_that_are_not_the_planned_ones(name, seeds, options):
    planned = registered_studies()[name]
    command = f"zerolab study {name} --scale smoke"
    assert planned.repeat_command("smoke", list(seeds)) == command + options
    own = planned.planned_seeds("smoke")
    assert planned.repeat_command("smoke", own) == command
