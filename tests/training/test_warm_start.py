"""The warm start: variants, ramps, and training with all of them."""

from __future__ import annotations

import json

import pytest

from zerolab.cli.main import main
from zerolab.core.config import validate
from zerolab.play.selfplay import play_episodes
from zerolab.search.search_settings import SearchSettings
from zerolab.training import stages
from zerolab.training.criteria import AdaptiveRamp, ConstantRamp, EndlessRamp, LinearRamp
from zerolab.training.warm_start import WARM_START_VARIANTS, WarmStartSettings, warm_start_search

GAME = "othello:4x4"
"""That of the smoke scale of the study of warm starts, so that machine code is shared with it."""

PAPER = ("baseline", "rollout", "rave", "rora", "wro", "wrora")

TINY = ["selfplay.episodes=3", "search.simulations=16", "gate.games=2", "final_evaluation.games=0",
        "learn.epochs=1"]  # fmt: skip


def train(folder, game, *assignments):
    """Train a tiny smoke run and return its lines of metrics."""
    sets = [f"--set={each}" for each in (*TINY, *assignments)]
    assert main(["train", game, "--preset", "smoke", "--run", str(folder), *sets]) == 0
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(metrics):
    return [line.get("warm_start_weight") for line in metrics if line["stage"] == "selfplay"]


def test_weights_of_the_paper():
    assert [LinearRamp().weight(i) for i in range(1, 8)] == [1, 0.8, 0.6, 0.4, 0.2, 0, 0]
    assert [ConstantRamp().weight(i) for i in range(1, 8)] == [1, 1, 1, 1, 1, 0, 0]
    assert {EndlessRamp().weight(i) for i in range(1, 1000)} == {1}


def test_linear_and_constant_differ_in_weight_alone():
    for last in (1, 3, 100):
        for i in range(1, 2 * last + 2):
            linear, constant = (
                LinearRamp(iterations=last).weight(i),
                ConstantRamp(iterations=last).weight(i),
            )
            assert (linear > 0) == (constant > 0) == (i <= last)


@pytest.mark.parametrize(
    ("variant", "selection", "leaf"),
    [
        ("baseline", "puct", {"name": "network"}),
        ("rollout", "puct", {"name": "playout", "playouts": 1}),
        ("rave", "rave", {"name": "network"}),
        ("rora", "rave", {"name": "playout", "playouts": 1}),
        ("wro", "puct", {"name": "mixed", "weight": 0.4, "playouts": 1}),
        ("wrora", "rave", {"name": "mixed", "weight": 0.4, "playouts": 1}),
    ],
)
def test_variants_are_pairs_of_rules(variant, selection, leaf):
    plain = validate(SearchSettings, {"selection": {"name": "puct", "c": 1.7}, "simulations": 33})
    search = warm_start_search(plain, WarmStartSettings(variant=variant), 0.4)
    assert search.selection.name == selection
    assert search.selection.c == 1.7  # W: U and U_rave have the same c
    assert search.leaf_evaluator.model_dump() == leaf
    same = {"selection", "leaf_evaluator"}
    assert search.model_dump(exclude=same) == plain.model_dump(exclude=same)
    assert warm_start_search(plain, WarmStartSettings(variant=variant), 0.0) == plain


def test_a_variant_of_ones_own():
    own = {
        "selection": {"name": "rave", "all_movers": True},
        "leaf_evaluator": "mixed",
        "simulations": 7,
    }
    warm_start = validate(WarmStartSettings, {"variant": "custom", "search": own})
    search = warm_start_search(SearchSettings(), warm_start, 0.25)
    assert search.selection.all_movers
    assert search.leaf_evaluator.weight == 0.25
    assert search.simulations == 7


def test_a_weight_of_plain_search_is_left_alone():
    plain = validate(SearchSettings, {"leaf_evaluator": {"name": "mixed", "weight": 0.3}})
    assert (
        warm_start_search(plain, WarmStartSettings(variant="rave"), 0.8).leaf_evaluator.weight
        == 0.3
    )
    assert (
        warm_start_search(plain, WarmStartSettings(variant="wrora"), 0.8).leaf_evaluator.weight
        == 0.8
    )


def test_settings_beside_a_variant():
    more = {"leaf_evaluator": {"playouts": 4}, "selection": {"equivalence": 9}}
    warm_start = validate(WarmStartSettings, {"variant": "wrora", "search": more})
    search = warm_start_search(SearchSettings(), warm_start, 0.5)
    assert (
        search.leaf_evaluator.name,
        search.leaf_evaluator.playouts,
        search.leaf_evaluator.weight,
    ) == ("mixed", 4, 0.5)
    assert (search.selection.name, search.selection.equivalence) == ("rave", 9)


def test_every_variant_of_the_paper_trains(tmp_path):
    examples = {}
    for variant in PAPER:
        folder = tmp_path / variant
        metrics = train(folder, GAME, f"warm_start.variant={variant}")
        assert weights(metrics) == ([None, None] if variant == "baseline" else [1.0, 0.5])
        assert metrics[-1]["stage"] == "gate"
        examples[variant] = (folder / "examples" / "0001.npz").read_bytes()
    # In iteration 1 WRo is Rollout and WRoRa is RoRa (weight 1); all others play differently.
    assert examples["wro"] == examples["rollout"]
    assert examples["wrora"] == examples["rora"]
    assert len(set(examples.values())) == 4
    assert set(PAPER) == set(WARM_START_VARIANTS) - {"custom"}


def test_another_game_trains_with_it_too(tmp_path):
    metrics = train(tmp_path, "connect_four:4x4", "warm_start.variant=rave")
    assert weights(metrics) == [1.0, 0.5]


@pytest.fixture
def searches(monkeypatch):
    """Return a list that receives the search settings of every iteration's self-play."""
    kept = []

    def play_and_keep(game, settings, search, *rest, **named):
        kept.append(search)
        return play_episodes(game, settings, search, *rest, **named)

    monkeypatch.setattr(stages, "play_episodes", play_and_keep)
    return kept


def test_after_the_warm_start_search_is_plain(tmp_path, searches):
    metrics = train(
        tmp_path / "run", GAME, "iterations=3", "warm_start.variant=wro",
        "warm_start.ramp.iterations=1",
    )  # fmt: skip
    assert weights(metrics) == [1.0, 0.0, 0.0]
    assert [search.leaf_evaluator.name for search in searches] == ["mixed", "network", "network"]
    assert searches[1] == searches[2] == SearchSettings(simulations=16)


def test_what_never_ends_is_in_use_to_the_end(tmp_path, searches):
    metrics = train(
        tmp_path / "run", GAME, "iterations=3", "warm_start.variant=rollout",
        "warm_start.ramp=never",
    )  # fmt: skip
    assert weights(metrics) == [1.0, 1.0, 1.0]
    assert [search.leaf_evaluator.name for search in searches] == ["playout"] * 3


@pytest.mark.parametrize("variant", ["rollout", "wrora"])
def test_variants_take_an_adaptive_ramp(variant, tmp_path):
    metrics = train(
        tmp_path / "run", GAME, f"warm_start.variant={variant}",
        "warm_start.ramp.name=adaptive", "warm_start.ramp.games=4",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert matches[0]["wins"] + matches[0]["draws"] + matches[0]["losses"] == 4
    assert weights(metrics) == [1.0, float(matches[0]["los"] < 0.95)]


ADAPTIVE = ("iterations=4", "warm_start.variant=custom", "warm_start.ramp=adaptive")


def test_an_adaptive_ramp_stops_once_plain_search_is_stronger(tmp_path):
    """This "warm start" hardly searches at all; it loses the first match."""
    metrics = train(
        tmp_path / "run", "gobang:3x3:3", *ADAPTIVE, "warm_start.search.simulations=1",
        "search.simulations=200",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert len(matches) == 1
    assert matches[0]["los"] >= 0.95
    assert matches[0]["wins"] > matches[0]["losses"]
    assert weights(metrics) == [1.0, 0.0, 0.0, 0.0]


def test_an_adaptive_ramp_continues_while_the_warm_start_is_stronger(tmp_path):
    metrics = train(
        tmp_path / "run", "gobang:3x3:3", *ADAPTIVE, "warm_start.search.simulations=200",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert [line["iteration"] for line in matches] == [1, 2, 3, 4]
    assert max(line["los"] for line in matches) < 0.95
    assert weights(metrics) == [1.0] * 4


def test_a_run_that_gets_more_iterations_is_as_one_that_had_them(tmp_path):
    options = (
        *ADAPTIVE[1:], "warm_start.ramp.games=6", "warm_start.ramp.min_los=0.6",
        "warm_start.search.simulations=4",
    )  # fmt: skip
    whole = train(tmp_path / "whole", "gobang:3x3:3", "iterations=4", *options)
    train(tmp_path / "grown", "gobang:3x3:3", "iterations=2", *options)
    grown = train(tmp_path / "grown", "gobang:3x3:3", "iterations=4", *options)

    def settled(metrics):
        return [
            {key: value for key, value in line.items() if not key.startswith("wall_")}
            for line in metrics
        ]

    assert settled(grown) == settled(whole)


def test_the_likelihood_that_ends_it_is_the_one_asked_for():
    for asked, found, over in ((0.9, 0.89, False), (0.9, 0.9, True), (0.5, 0.4, False)):
        assert AdaptiveRamp(min_los=asked).is_over(found) == over


MISTAKES = [
    (["warm_start.variant=wrra"], 'did you mean "wrora"?'),
    (["warm_start.variant=wro", "iterations=1"], "ramp.iterations = 2"),
    (
        ["warm_start.variant=wro", "warm_start.ramp=constant"],
        "warm_start.ramp.iterations = 5",
    ),
    (["warm_start.ramp=linar"], 'did you mean "linear"?'),
    (["warm_start.ramp.iterations=0"], "ramp.iterations = 0: expected at least 1"),
    (["warm_start.ramp.name=adaptive", "warm_start.ramp.games=3"], "3 is odd"),
    (["warm_start.variant=custom"], "changes nothing"),
    (["warm_start.search.leaf_evaluator=playout"], "has no effect"),
    (
        ["warm_start.variant=wro", "warm_start.search.leaf_evaluator.weight=2"],
        "search.leaf_evaluator.weight = 2",
    ),
    (
        ["warm_start.variant=rora", "warm_start.search.leaf_evaluator.playouts=0"],
        "playouts = 0: expected at",
    ),
    (
        ["warm_start.variant=custom", "warm_start.search.leaf_evaluator=5"],
        "leaf_evaluator = 5: expected one of mixed, network, playout",
    ),
    (
        ["warm_start.variant=custom", "warm_start.search.leaf_evaluator=mixd"],
        'did you mean "mixed"?',
    ),
    (
        ["warm_start.variant=custom", "warm_start.search.leaf_evaluator=mixd"],
        'warm_start.search: leaf_evaluator.name = "m',
    ),
    (
        ["warm_start.variant=rave", "warm_start.search.selection=puct"],
        'selection = "puct" contradicts variant = "rave", which has "rave"',
    ),
    (
        ["warm_start.variant=custom", "warm_start.search=5"],
        "warm_start.search = 5: expected a table",
    ),
    (
        ["warm_start.variant=custom", "warm_start.search.simulatons=5"],
        'did you mean "simulations"?',
    ),
    (
        ["search.leaf_evaluator.name=mixed", "search.leaf_evaluator.weight=1.5"],
        "weight = 1.5: expected at most 1",
    ),
    (["search.selection.name=rave", "search.selection.equivalence=-1"], "expected at least 0"),
]


@pytest.mark.parametrize(("assignments", "expected"), MISTAKES)
def test_mistakes_are_one_line_and_leave_nothing(assignments, expected, tmp_path, capsys):
    sets = [f"--set={each}" for each in assignments]
    assert main(["train", "--preset", "smoke", "--run", str(tmp_path / "run"), *sets]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
