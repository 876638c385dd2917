"""Accuracy measurements during training."""

from __future__ import annotations

import json

import pytest

from evaluation.exhaustive import exhaustive
from training.tiny_training import train
from zerolab.cli.main import main
from zerolab.evaluation.collecting import DatasetSettings, collect_positions
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training import evaluation_stages
from zerolab.training.configure import resolve_settings
from zerolab.training.curves import draw_curves

GAME = parse_game("gobang:3x3:3")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "solved.parquet"
    write_positions(
        path, collect_in_memory(GAME, 60, DatasetSettings(), exhaustive(GAME)).positions, {}
    )
    return path


def assignments(file, *changes):
    return ["iterations=4", "accuracy.every=3", f"accuracy.positions={file}", *changes]


def command(folder, file, *changes):
    arguments = ["train", "--run", str(folder), "--preset", "smoke"]
    return arguments + [f"--set={assignment}" for assignment in assignments(file, *changes)]


def lines(folder):
    """Return the metrics without wall-clock values."""
    return [
        {key: value for key, value in json.loads(line).items() if not key.startswith("wall_")}
        for line in (folder / "metrics.jsonl").read_text().splitlines()
    ]


@pytest.fixture(scope="module")
def trained(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main(command(folder, file)) == 0
    return folder


def test_accuracy_is_measured_in_every_third_iteration_and_in_the_last(trained, capsys):
    measurements = [line for line in lines(trained) if line["stage"] == "accuracy"]
    assert [line["iteration"] for line in measurements] == [3, 4]
    for line in measurements:
        assert line["positions"] == 60
        for player in ("network", "search"):
            for measure in ("strong", "weak"):
                key = f"{player}_{measure}"
                assert line[f"{key}_low"] <= line[key] <= line[f"{key}_high"]
            assert line[f"{player}_strong"] <= line[f"{player}_weak"]
            assert 0 < line[f"{player}_value_error"] < 4
    best = RunFolder.open(trained).progress.best
    assert measurements[-1]["network"] == best
    arguments = ["evaluate", str(trained), "--json"]
    positions = RunFolder.open(trained).config["accuracy"]["positions"]
    capsys.readouterr()
    assert main([*arguments, "--positions", positions]) == 0
    players = json.loads(capsys.readouterr().out)["accuracy"]["players"]
    assert players[0]["all_positions"]["strong"]["mean"] == measurements[-1]["network_strong"]
    assert players[1]["all_positions"]["weak"]["mean"] == measurements[-1]["search_weak"]


def test_iteration_that_meets_the_stop_rule_is_measured(file, tmp_path):
    rule = ["stop=spent", "stop.evaluations=1"]
    train(tmp_path / "run", resolve_settings(None, "smoke", assignments(file, *rule)))
    stages = [(line["iteration"], line["stage"]) for line in lines(tmp_path / "run")]
    assert (1, "accuracy") in stages
    assert max(iteration for iteration, _ in stages) == 1


def interrupt(*_, **options):
    raise KeyboardInterrupt


def test_run_interrupted_while_measuring_resumes_to_the_same_result(
    trained, file, tmp_path, monkeypatch
):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(evaluation_stages, "player_choices", interrupt)
        train(folder, resolve_settings(None, "smoke", assignments(file)))
    assert lines(folder)[-1]["stage"] == "gate"
    assert main(command(folder, file)) == 0
    assert lines(folder) == lines(trained)
    for path in (trained / "checkpoints").iterdir():
        assert (folder / "checkpoints" / path.name).read_bytes() == path.read_bytes()


def test_curves_include_accuracy(trained):
    titles = [axes.get_title() for axes in draw_curves([RunFolder.open(trained)]).axes]
    assert "strong accuracy on solved positions" in titles
    assert "weak accuracy on solved positions" in titles


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["accuracy.positions="], "every = 3 needs solved positions"),
        (["accuracy.positions=nowhere.parquet"], "does not exist"),
        (["game=gobang:4x4:3"], "has positions for gobang:3x3:3, not for gobang:4x4:3"),
        (["accuracy.every=-1"], "accuracy.every = -1: expected at least 0"),
    ],
)
def test_invalid_settings_are_reported_without_creating_a_run(
    settings, expected, file, tmp_path, capsys
):
    folder = tmp_path / "run"
    assert main(command(folder, file, *settings)) == 2
    errors = capsys.readouterr().err
    assert expected in errors
    assert len(errors.splitlines()) == 1
    assert not folder.exists()


def test_empty_position_file_is_refused(tmp_path, capsys):
    path = tmp_path / "none.parquet"
    write_positions(
        path, collect_positions(GAME, exhaustive(GAME), DatasetSettings(), range(0)).positions, {}
    )
    assert main(command(tmp_path / "run", path)) == 2
    assert "has no positions" in capsys.readouterr().err
