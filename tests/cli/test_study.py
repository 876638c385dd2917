"""`zerolab study` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerolab.cli.main import main
from zerolab.play.tournament import Tournament
from zerolab.studies import table_5_1
from zerolab.studies.interface import registered_studies

TINY = ["study", "table-5.1", "--games", "2", "--playouts", "2"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(table_5_1, "PLAYERS", dict.fromkeys(table_5_1.PLAYERS, "random"))


def test_studies_are_listed(capsys):
    assert main(["study"]) == 0
    assert all(name in capsys.readouterr().out for name in registered_studies())
    assert main(["study", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == list(registered_studies())
    assert "Table 5.1" in listed[0]["help"]


@pytest.mark.parametrize("name", registered_studies())
def test_every_study_has_help(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["study", name, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert f"usage: zerolab study {name}" in told
    assert f"Examples:\n  zerolab study {name}" in told
    options = (field.replace("_", "-") for field in registered_studies()[name].model_fields)
    assert all(f"--{option} " in told or f"--no-{option} " in told for option in options)
    assert f"(default: studies/{name})" in told


def test_tables_and_json(capsys):
    assert main(TINY) == 0
    printed = capsys.readouterr().out
    assert printed.count("rhea against rave") == 3
    assert printed.count("column beats row, % (published)") == 3
    assert "of 18 pairs agree" in printed
    assert "tables and figure: studies/table-5.1" in printed
    assert main([*TINY, "--json"]) == 0
    saved = Path("studies/table-5.1/results.json").read_text()
    assert json.loads(capsys.readouterr().out) == json.loads(saved)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tabel-5.1"], 'unknown study "tabel-5.1": expected one of'),
        (["tabel-5.1"], 'did you mean "table-5.1"?'),
        (["--json", "table-5.1"], "expected the name first, as in zerolab study table-5.1"),
        (["table-5.1", "--gmes", "4"], "Unrecognized options: --gmes"),
        (["table-5.1", "--games", "many"], "Error parsing --games"),
        (["table-5.1", "--games", "0"], "games = 0: expected at least 2"),
        (["table-5.1", "--games", "7"], "7 is odd: expected an even number"),
        (["table-5.1", "--playouts", "0"], "playouts = 0: expected at least 1"),
        (["table-5.1", "--seed", "-1"], "seed = -1: expected at least 0"),
        (["table-5.1", "--folder", "full"], "full is not a study and not empty"),
        (["table-5.1", "--folder", "full/letter"], "full/letter"),
    ],
)
def test_mistakes_are_one_line_and_code_two(arguments, expected, capsys):
    Path("full").mkdir()
    Path("full/letter").write_text("mine")
    assert main(["study", *arguments]) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert not Path("studies").exists()


def test_other_settings_for_a_folder_are_refused(capsys):
    assert main(TINY) == 0
    assert main([*TINY, "--seed", "1"]) == 2
    assert "seed = 1 differs from 0 in studies/table-5.1" in capsys.readouterr().err


def test_ctrl_c_tells_how_to_go_on(capsys, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Tournament, "play", stopped)
        assert main([*TINY, "--folder", "my results"]) == 130
    told = capsys.readouterr().err
    command = "zerolab study table-5.1 --games 2 --playouts 2 --folder 'my results'"
    assert f"what is finished is stored, resume with: {command}" in told
    assert main([*TINY, "--folder", "my results"]) == 0
