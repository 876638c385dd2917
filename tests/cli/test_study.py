"""`zerolab study` and `zerolab report` as a user meets them; no study is worked on here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerolab.cli import study
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.store.folder import exclusive
from zerolab.studies.study import registered_studies
from zerolab.studies.study_folder import STUDY
from zerolab.studies.work import StudyWork

OPTIONS = ("scale", "only", "workers", "ray", "status", "folder", "json")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_studies_are_listed(capsys):
    assert main(["study"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in registered_studies())
    assert main(["study", "--json"]) == 0
    listed = {each["name"]: each["help"] for each in json.loads(capsys.readouterr().out)}
    assert list(listed) == sorted(registered_studies())
    assert "Table 5.1" in listed["table-5.1"]


@pytest.mark.parametrize("name", registered_studies())
def test_every_study_has_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["study", name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"usage: zerolab study {name}" in shown
    assert f"Examples:\n  zerolab study {name}" in shown
    assert all(f"--{option} " in shown or f"--no-{option} " in shown for option in OPTIONS)


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
        (["table-5.1", "--folder", "full"], "full/table-5.1-mini is not a study and not empty"),
        (["table-5.1", "--folder", "letter"], "letter"),
        (["table-5.1", "--folder", "begun"], "begun/table-5.1-mini was begun by a version of"),
    ],
)
def test_mistakes_are_one_line_and_code_two(arguments, expected, capsys):
    Path("letter").write_text("mine")
    full, begun = Path("full/table-5.1-mini"), Path("begun/table-5.1-mini")
    full.mkdir(parents=True)
    (full / "letter").write_text("mine")
    begun.mkdir(parents=True)
    saved = {"study": "table-5.1", "scale": "mini", "design": "of another version"}
    STUDY.write_settings(begun, saved)
    assert main(["study", *arguments]) == 2
    shown = capsys.readouterr().err
    assert expected in shown
    assert len(shown.splitlines()) == 1
    assert not Path("studies").exists()
    assert [path.name for path in full.iterdir()] == ["letter"]


def test_a_damaged_folder_is_told(capsys):
    path = Path("studies/table-5.1-mini")
    path.mkdir(parents=True)
    STUDY.write_settings(path, {"study": "table-5.1", "scale": "mini", "design": "x"})
    settings = path / "study.toml"
    settings.write_text(settings.read_text().replace("mini", "paper"))
    for command in ("study", "report"):
        assert main([command, "table-5.1"]) == 2
        assert "is damaged" in capsys.readouterr().err


def test_one_process_at_a_time(capsys):
    path = Path("studies/table-5.1-mini")
    path.mkdir(parents=True)
    with exclusive(path):
        assert main(["study", "table-5.1"]) == 2
    assert "another process is at work" in capsys.readouterr().err


def test_failures_are_listed_whatever_becomes_of_the_report(capsys, monkeypatch):
    def failing(*arguments):
        raise UserError("the disk is full")

    monkeypatch.setattr(study, "_work", lambda *arguments: {"a: a run": ["it is broken"]})
    monkeypatch.setattr(study, "show_report", failing)
    assert main(["study", "table-5.1"]) == 2
    shown = capsys.readouterr().err
    assert "a: a run failed:\n  it is broken" in shown
    assert "the disk is full" in shown
    monkeypatch.setattr(study, "show_report", lambda *arguments: None)
    assert main(["study", "table-5.1"]) == 2
    assert "1 of the tasks failed, as listed above" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "workers", "expected"),
    [
        ("published-bugs", 1, " games to play, 6 of 6 computations to do with 1 worker; about"),
        ("table-5.1", 2, "mini: 15,000 of 15,000 games to play with 2 workers; about"),
    ],
)
def test_what_is_to_be_done_is_announced(name, workers, expected, tmp_path, capsys):
    planned = StudyWork.of(registered_studies()[name], "mini", tmp_path)
    study._announce(planned, planned.progress(), workers)
    assert expected in capsys.readouterr().err


def test_the_status_of_a_study_that_was_not_begun(capsys):
    assert main(["study", "table-5.1", "--scale", "paper", "--status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["study"], status["scale"]) == ("table-5.1", "paper")
    assert (status["runs"], status["games"], status["finished_games"]) == (0, 15_000, 0)
    games = {part["part"]: part["games"] for part in status["parts"]}
    assert games == dict.fromkeys(("gobang", "connect_four", "othello"), 5_000)
    assert status["seconds"] > status["done_seconds"] == 0
    assert status["failures"] == {}
    assert main(["study", "table-5.1", "--only", "othello", "--status"]) == 0
    shown = capsys.readouterr().out
    assert "0/5,000" in shown
    assert "gobang" not in shown
    assert main(["study", "published-bugs", "--status"]) == 0
    assert "0/6" in capsys.readouterr().out
    assert not Path("studies").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "NAME"),
        (["table-5.1"], "studies/table-5.1-mini holds no study"),
        (["table-5.1"], "zerolab study table-5.1 --scale mini"),
        (["tabel-5.1"], 'did you mean "table-5.1"?'),
        (["table-5.1", "--scale", "papre"], "papre"),
    ],
)
def test_mistakes_of_reports_are_one_line_and_code_two(arguments, expected, capsys):
    assert main(["report", *arguments]) == 2
    shown = capsys.readouterr().err
    assert expected in shown
    assert len(shown.splitlines()) == 1
    assert not Path("studies").exists()
