"""Hints for options, games, scales and files, and warnings about settings without effect."""

from __future__ import annotations

import pytest

from zerolab.cli import study, train
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.rules.catalogue import canonical_game_name, parse_game, registered_games
from zerolab.studies.study import registered_studies
from zerolab.studies.study_folder import STUDY_FOLDER_KIND
from zerolab.training.configure import no_effect_preset_messages, resolve_settings


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["train", "--iterations", "5"], "did you mean --set iterations=5?"),
        (["train", "--iterations=5"], "did you mean --set iterations=5?"),
        (["train", "--learning-rate", "0.1"], "did you mean --set learn.learning_rate=0.1?"),
        (["train", "--lr", "--json"], "did you mean --set learn.learning_rate=VALUE?"),
        (["train", "--seed", "a b"], "did you mean --set 'seed=a b'?"),
        (["league", "othello:6x6", "--active", "9"], "did you mean --set active=9?"),
        (["train", "--prest", "small"], 'did you mean "--preset"?'),
        (["runs", "--jsn"], 'did you mean "--json"?'),
    ],
)
def test_unknown_options_suggest_settings_and_options(arguments, hint, capsys):
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zerolab: Unrecognized options: ")
    assert hint in line


@pytest.mark.parametrize(
    ("arguments", "unexpected", "example"),
    [
        (["solve", "gobang:3x3:3", "a1", "b1"], "a1, b1", "--moves"),
        (["train", "othello:6x6", "strong"], "strong", "--preset"),
    ],
)
def test_values_without_an_option_name_the_first_option(arguments, unexpected, example, capsys):
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"zerolab: unexpected {unexpected}: expected the name of an option first, such as {example}"
    )


def test_long_values_without_an_option_are_shortened(capsys):
    assert main(["solve", "gobang:3x3:3", "x" * 3000]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("zerolab: unexpected xxx") and len(line) < 450


def test_unknown_words_have_no_hint(capsys):
    assert main(["train", "--no-such-thing-zzz", "5"]) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_name_of_a_game_means_its_default_size(tmp_path, monkeypatch, capsys):
    games = []
    monkeypatch.setattr(train, "train_run", lambda *arguments: games.append(arguments[2].game))
    for name in ("connect_four", "othello:4x4"):
        run = str(tmp_path / name.replace(":", "-"))
        assert main(["train", name, "--preset", "smoke", "--run", run]) == 0
    assert games == ["connect_four:6x7", "othello:4x4"]
    assert main(["perft", "connect_four", "1"]) == 0
    assert " 7 sequences" in capsys.readouterr().out


@pytest.mark.parametrize("name", registered_games())
def test_default_sizes_are_valid(name):
    game = registered_games()[name].default_game()
    assert parse_game(name) == parse_game(f"{name}:{game.rows}x{game.columns}") == game


def test_games_with_a_standard_board_have_it():
    assert canonical_game_name("connect_four") == "connect_four:6x7"
    assert canonical_game_name("othello") == "othello:8x8"


def test_report_takes_the_only_scale(tmp_path):
    some_study = registered_studies()["warm-start"]
    assert study._only_scale(some_study, tmp_path) == "mini"
    for scale, expected in (("small", "small"), ("paper", ""), ("mini", "mini")):
        folder = tmp_path / f"warm-start-{scale}"
        folder.mkdir()
        STUDY_FOLDER_KIND.write_settings(folder, {"study": "warm-start", "scale": scale})
        if expected:
            assert study._only_scale(some_study, tmp_path) == expected
        else:
            with pytest.raises(UserError, match="expected --scale small or --scale paper"):
                study._only_scale(some_study, tmp_path)


@pytest.mark.parametrize("content", [b"", b"x", b"a text with solved positions\n" * 9])
@pytest.mark.parametrize("command", [["evaluate", "random", "--positions"], ["fit"]])
def test_text_is_not_a_parquet_file(command, content, tmp_path, capsys):
    path = tmp_path / "positions.parquet"
    path.write_bytes(content)
    assert main([*command, str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        "is not a Parquet file: expected a solved positions file written by zerolab dataset" in line
    )


def test_settings_without_effect_in_own_presets_are_named(tmp_path):
    preset = tmp_path / "own.toml"
    preset.write_text('[selfplay]\nmode = "continuous"\nepisodes = 20\n')
    settings = resolve_settings("gobang:3x3:3", str(preset))
    (message,) = no_effect_preset_messages(settings, str(preset))
    assert message.startswith(
        f'{preset}: selfplay.episodes has no effect with selfplay.mode = "continuous": expected '
    )
    preset.write_text("[selfplay]\nepisodes = 20\n")
    settings = resolve_settings("gobang:3x3:3", str(preset))
    assert no_effect_preset_messages(settings, str(preset)) == []
    assert no_effect_preset_messages(resolve_settings(None, "mini"), "mini") == []


def test_training_prints_settings_without_effect(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train, "train_run", lambda *arguments: None)
    preset = tmp_path / "own.toml"
    preset.write_text('game = "gobang:3x3:3"\n[selfplay]\nmode = "continuous"\nepisodes = 20\n')
    assert main(["train", "--preset", str(preset), "--run", str(tmp_path / "run")]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"zerolab: {preset}: selfplay.episodes has no effect with ")
