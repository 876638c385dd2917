"""`zerolab league`, from its options to the preset that it writes."""

from __future__ import annotations

import json

import pytest

from zerolab.cli.main import main
from zerolab.networks.catalogue import build_network
from zerolab.networks.network import weights_to_arrays
from zerolab.rules.catalogue import parse_game
from zerolab.store.folder import RunProgress
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings

PLAIN = [
    "--set", "search.selection=uct", "--set", "search.fpu=zero", "--set", "search.simulations=8",
    "--set", 'parameters=["check"]', "--set", "active=6", "--set", "parents=2",
    "--set", "generation=20", "--set", "search.noise.fraction=0",
]  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_league_is_played_resumed_and_reported(here, capsys):
    command = ["league", "gobang:3x3:3", *PLAIN, "--out", "out", "--games"]
    assert main([*command, "20"]) == 0
    printed = capsys.readouterr().out
    assert "20 games, rated by results" in printed
    assert "zerolab train gobang:3x3:3 --preset out/best.toml" in printed
    assert main([*command, "60", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["games"] == 60
    assert summary["generation"] == 3
    assert len(summary["generations"]) == 4
    assert len(summary["players"]) == 6
    assert {file.name for file in (here / "out").iterdir() if file.name[0] != "."} == {
        "league.toml", "population.safetensors", "games.sqlite", "best.toml", "league.png",
        "league.svg",
    }  # fmt: skip
    preset = resolve_settings("gobang:3x3:3", "out/best.toml")
    assert preset.search.selection.name == "uct"
    assert preset.search.simulations == 8
    assert main(["rate", "out/games.sqlite", "--json"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", 'parameters=["draw_value"]', "--set", "search.leaf_evaluator=network"],
         'parameters = "draw_value": a search without a network'),
        (["--set", "seed=3"], "--set seed is not supported: expected --seed"),
        (["--set", "actve=3"], 'unknown setting "actve"; did you mean "active"?'),
        (["--set", "ranges.c=[4, 1]"], "ranges: c = [4.0, 1.0] is empty"),
        (["--agent", "mcts:5"], "mcts:5 has no network: expected a run such as runs/demo@12"),
        (["--games", "0"], "games = 0: expected at least 1"),
        (["--games", "3", "--set", "fitness=novelty"], "games = 3 is odd: expected an even number"),
    ],
)  # fmt: skip
def test_mistakes_print_one_line(here, capsys, arguments, message):
    assert main(["league", "gobang:3x3:3", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert message in printed
    assert not list(here.iterdir())


@pytest.fixture
def trained(here):
    """Run with only the untrained network, whose heads do not predict draws."""
    settings = resolve_settings(
        "gobang:3x3:3", "smoke", ["search.simulations=4", "network.channels=4"]
    )
    run = RunFolder.create(here / "trained", settings.model_dump())
    network = build_network(settings.network, parse_game("gobang:3x3:3"), 0)
    with run.locked():
        run.save_network(0, weights_to_arrays(network), {})
        run.commit(RunProgress(), [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["connect_four:4x4", "--agent", "trained"],
         "trained plays gobang:3x3:3, but the requested game is connect_four"),
        (["gobang:3x3:3", "--agent", "trained?simulations=3"], "options do not apply to a league"),
        (["gobang:3x3:3", "--agent", "trained", "--set", 'parameters=["draw_value"]'],
         "trained@0 does not predict draws"),
    ],
)  # fmt: skip
def test_unsuitable_network_is_refused(trained, capsys, arguments, message):
    assert main(["league", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_league_uses_network_of_run(trained, capsys):
    plain = ["--set", "search.selection=puct", "--set", "search.fpu=zero", "--set", "parents=2"]
    plain += ["--set", 'parameters=["check"]', "--set", "search.simulations=4", "--set", "active=6"]
    league = ["league", "gobang:3x3:3", "--agent", "trained", *plain]
    assert main([*league, "--games", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["network"] == "trained@0"
    assert resolve_settings("gobang:3x3:3", "league/best.toml").network.channels == 4
