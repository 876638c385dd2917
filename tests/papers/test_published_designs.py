"""Designs at scale `paper`, compared with numbers copied from the papers."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from zerolab.papers.hyperparameters.study import DEFAULT_HOURS, HYPERPARAMETERS
from zerolab.studies.study import registered_studies

DEFAULTS = {
    "iterations": 100, "selfplay.episodes": 50, "search.simulations": 100,
    "search.selection.c": 1.0, "learn.window.iterations": 20, "learn.epochs": 10,
    "learn.batch_size": 64, "learn.learning_rate": 0.005, "network.dropout": 0.3,
    "gate.games": 40, "gate.threshold": 0.6,
}  # fmt: skip
"""[Wang2020a, Table 1] without T' = 15, which corresponds to temperature_plies."""

ONE_AT_A_TIME = {
    "I": ("iterations", 50, 150, 23.8, 60.3),
    "E": ("selfplay.episodes", 10, 100, 17.4, 87.7),
    "m": ("search.simulations", 25, 200, 26.0, 64.8),
    "c": ("search.selection.c", 0.5, 2.0, 50.7, 49.1),
    "rs": ("learn.window.iterations", 1, 40, 26.5, 50.7),
    "ep": ("learn.epochs", 5, 15, 43.4, 55.7),
    "bs": ("learn.batch_size", 32, 96, 47.7, 37.7),
    "lr": ("learn.learning_rate", 0.001, 0.01, 47.8, 40.3),
    "d": ("network.dropout", 0.2, 0.4, 51.9, 51.4),
    "n": ("gate.games", 20, 100, 33.5, 57.4),
    "u": ("gate.threshold", 0.5, 0.7, 39.7, 40.4),
}
"""[Wang2020a, Tables 1 and 3]: least and greatest value, and their hours."""


@cache
def paper(name):
    return registered_studies()[name].planned_design("paper")


def value(run, key):
    found = run.settings
    for part in key.split("."):
        found = getattr(found, part)
    return found


def test_sweep_changes_one_of_twelve_parameters():
    design = paper("hyperparameter-sweep")
    seeds = Counter(run.factors["seed"] for run in design.runs)
    assert seeds == {100: 25, 101: 25}  # published: one seed
    default, *others = [run for run in design.runs if run.factors["seed"] == 100]
    assert {key: value(default, key) for key in DEFAULTS} == DEFAULTS
    assert value(default, "selfplay.temperature_plies") == 14  # plies before T' = 15
    assert {run.settings.game for run in design.runs} == {"othello:6x6"}
    assert len(others) == 24
    expected = {(key, least) for key, least, *_ in ONE_AT_A_TIME.values()}
    expected |= {(key, greatest) for key, _, greatest, *_ in ONE_AT_A_TIME.values()}
    expected |= {("selfplay.temperature_plies", plies) for plies in (9, 19)}
    changes = [
        [(key, value(run, key)) for key in (*DEFAULTS, "selfplay.temperature_plies")
         if value(run, key) != value(default, key)]
        for run in others
    ]  # fmt: skip
    assert all(len(change) == 1 for change in changes)
    assert {change for (change,) in changes} == expected


def test_published_hours():
    assert DEFAULT_HOURS == 44.0
    hours = {symbol: hours for symbol, (_, _, _, *hours) in ONE_AT_A_TIME.items()}
    hours["T'"] = [41.6, 40.4]
    assert {
        symbol: list(factor.published_hours) for symbol, factor in HYPERPARAMETERS.items()
    } == hours


def test_correlation_has_81_combinations_and_82_players():
    design = paper("hyperparameter-correlation")
    keys = ("iterations", "selfplay.episodes", "search.simulations", "learn.epochs")
    combinations = {tuple(value(run, key) for key in keys) for run in design.runs}
    assert len(combinations) == len(design.runs) == 81
    levels = [set(column) for column in zip(*combinations, strict=True)]
    assert levels == [{25, 50, 75}, {10, 20, 30}, {25, 50, 75}, {5, 10, 15}]
    (games,) = design.tournaments
    assert (len(games.run_by_player), games.agent_specs, games.games_per_pair) == (
        81,
        ("random",),
        10,
    )
    assert games.pair_count == 3321
    assert {run.settings.gate.games for run in design.runs} == {0}  # always accepted


@pytest.mark.parametrize(("size", "iterations"), [("5x5", 200), ("6x6", 100)])
@pytest.mark.parametrize("game", ["othello", "connect_four", "gobang"])
def test_losses_have_eight_runs_each_and_33_players(game, size, iterations):
    design = paper("loss-functions")
    (games,) = [each for each in design.tournaments if each.key == f"{game}-{size}"]
    assert (len(games.run_by_player), games.agent_specs, games.games_per_pair) == (
        32,
        ("random",),
        20,
    )
    runs = list(games.run_by_player.values())
    losses = [run.settings.learn.loss.name for run in runs]
    assert {losses.count(loss) for loss in losses} == {8}
    assert len(set(losses)) == 4
    assert {run.settings.iterations for run in runs} == {iterations}
    assert len({run.settings.seed for run in runs}) >= 8


@pytest.mark.parametrize("game", ["gobang", "connect_four", "othello"])
def test_warm_starts_have_eight_runs_each_and_49_players(game):
    design = paper("warm-start")
    (games,) = [each for each in design.tournaments if each.key == game]
    assert (len(games.run_by_player), games.agent_specs, games.games_per_pair) == (
        48,
        ("random",),
        20,
    )
    runs = list(games.run_by_player.values())
    variants = [run.settings.warm_start.variant for run in runs]
    assert {variants.count(variant) for variant in variants} == {8}
    assert set(variants) == {"baseline", "rollout", "rave", "rora", "wro", "wrora"}
    warm = [run.settings.warm_start for run in runs if run.settings.warm_start.variant == "wrora"]
    assert {each.ramp.iterations for each in warm} == {5}
    adaptive = [
        run.settings.warm_start.ramp for run in design.runs
        if (run.part, run.factors["variant"]) == (game, "wrora-adaptive")
    ]  # fmt: skip
    assert {(each.games, each.iterations) for each in adaptive} == {(40, 5)}
    assert {run.settings.game.partition(":")[2][:3] for run in runs} == {"6x6"}


def test_transfer_has_the_published_runs_and_an_additional_control():
    """[Hongcharoen2018], as in docs/papers.md."""
    design = paper("transfer")
    for run in design.runs:
        settings = run.settings
        play, learn, gate = settings.selfplay, settings.learn, settings.gate
        assert (settings.iterations, play.episodes, play.temperature_plies) == (50, 512, 30)
        assert settings.search.simulations == 25
        assert (learn.optimizer.name, learn.learning_rate) == ("adam", 0.001)
        assert (learn.batch_size, learn.window.iterations) == (4096, 20)
        assert (gate.name, gate.games, gate.threshold) == ("strict_win_rate", 100, 0.55)
        assert (settings.network.blocks, settings.network.filters) == (4, 256)
    published = {
        run.factors["way"]
        for run in design.runs
        if (run.part, run.factors.get("source")) == ("othello-6x6", "connect_four-6x6")
    }
    assert published == {"fine-tuned", "frozen", "mapped"}
    controls = [run for run in design.runs if run.factors["way"] == "random-frozen"]
    assert len(controls) == 6 * 8
    assert all(run.start_run is None and run.settings.learn.frozen == "trunk" for run in controls)
