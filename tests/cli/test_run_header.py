"""Summaries of settings before training, and runs with no work left."""

from __future__ import annotations

import re
import shutil

import pytest

from zerolab.cli.main import main
from zerolab.cli.progress import finished_message, main_settings
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings, saved_settings


def test_summary_names_what_was_chosen():
    settings = resolve_settings("othello:6x6", "mini", ["seed=7", "search.simulations=33"])
    lines = main_settings(settings)
    assert lines["game"] == "othello:6x6"
    assert lines["preset"] == "mini, seed 7"
    assert lines["network"].startswith("resnet (blocks 4, filters 32, ")
    assert lines["network"].endswith("; heads policy, value")
    assert lines["search"] == "33 simulations per move, puct (c 0.6)"
    assert lines["self-play"] == "20,480 positions per iteration, in 512 games at once"
    assert lines["iterations"] == "8"


def test_episodic_and_league_self_play_are_summarised():
    settings = resolve_settings(
        None, "smoke", ['league.parameters=["c"]', "selfplay.episodes=1000"]
    )
    assert (
        main_settings(settings)["self-play"] == "1,000 games per iteration, episodic, in a league"
    )


@pytest.mark.parametrize("width", [60, 80])
def test_finished_run_says_how_to_go_on(width, smoke_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    folder = tmp_path / "run"
    shutil.copytree(smoke_run, folder)
    assert main(["train", "--run", str(folder)]) == 0
    output = capsys.readouterr().out
    text = " ".join(output.split())
    assert "already finished after 2 iterations" in text
    assert "--set iterations=N" in text
    assert "done, with" not in text
    assert re.search(r"^search +8 simulations", output, re.MULTILINE)
    assert "[search]" not in output
    assert len(output.splitlines()) < 25


def test_extended_run_resumes_at_the_next_iteration(smoke_run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(smoke_run, folder)
    options = ["--set", "iterations=3"]
    assert main(["train", "--run", str(folder), *options]) == 0
    assert f"{folder}: resumed at iteration 3\n" in capsys.readouterr().out


def test_misspelt_run_does_not_begin_a_new_one(smoke_run, tmp_path, capsys):
    shutil.copytree(smoke_run, tmp_path / "demo")
    assert main(["train", "--run", str(tmp_path / "demmo"), "--set", "iterations=3"]) == 2
    message = capsys.readouterr().err
    assert "demmo is not a run: expected a run to resume" in message
    assert 'did you mean "demo"?' in message
    assert not (tmp_path / "demmo").exists()
    assert main(["train", "--run", str(tmp_path / "other")]) == 2
    assert "did you mean" not in capsys.readouterr().err
    options = ["--set", "game=gobang:3x3:3", "--set", "iterations=0"]
    assert main(["train", "--run", str(tmp_path / "new"), *options]) == 2
    assert "iterations = 0" in capsys.readouterr().err


def test_verbose_prints_all_settings(smoke_run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(smoke_run, folder)
    assert main(["train", "--run", str(folder), "--verbose"]) == 0
    output = capsys.readouterr().out
    body = (smoke_run / "config.toml").read_text().partition("\n")[2]
    assert body.strip() in output


def test_message_fits_the_reason_for_the_end(smoke_run):
    run = RunFolder.open(smoke_run)
    settings = saved_settings(run)
    longer = settings.model_copy(update={"iterations": 5})
    assert finished_message(run, longer).endswith(
        'after 2 iterations of 5, because of stop = "never"'
    )
    assert finished_message(run, settings).endswith("--set iterations=N")
