"""Warm start: variants, ramps and training."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from pydantic import Field

from zerolab.cli.main import main
from zerolab.core.config import validate, variant_annotation, variant_settings_class
from zerolab.core.errors import UserError
from zerolab.play.selfplay import play_episodes
from zerolab.search.methods import SELECTION_SETTINGS
from zerolab.search.search_settings import SearchSettings
from zerolab.training import selfplay_stage
from zerolab.training import warm_start as warm_start_module
from zerolab.training.criteria import AdaptiveRamp, ConstantRamp, EndlessRamp, LinearRamp
from zerolab.training.warm_start import (
    WARM_START_VARIANTS,
    WarmStartSettings,
    warm_start_search_settings,
)

GAME = "othello:4x4"
"""Game of the warm-start study at smoke scale, so that compiled kernels are shared."""

PAPER = ("baseline", "rollout", "rave", "rora", "wro", "wrora")

TINY = ["selfplay.episodes=3", "search.simulations=8", "gate=always", "final_evaluation.games=0",
        "learn.epochs=1"]  # fmt: skip


def train(folder, game, *assignments):
    """Train a tiny smoke run and return its metrics."""
    sets = [f"--set={assignment}" for assignment in (*TINY, *assignments)]
    assert main(["train", game, "--preset", "smoke", "--run", str(folder), *sets]) == 0
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def warm_start_weights(metrics):
    return [line.get("warm_start_weight") for line in metrics if line["stage"] == "selfplay"]


def test_ramps_have_the_published_weights():
    assert [LinearRamp().weight(i) for i in range(1, 8)] == [1, 0.8, 0.6, 0.4, 0.2, 0, 0]
    assert [ConstantRamp().weight(i) for i in range(1, 8)] == [1, 1, 1, 1, 1, 0, 0]
    assert {EndlessRamp().weight(i) for i in range(1, 1000)} == {1}


def test_linear_and_constant_ramps_end_in_the_same_iteration():
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
def test_variants_set_selection_and_leaf_evaluator(variant, selection, leaf):
    plain = validate(SearchSettings, {"selection": {"name": "puct", "c": 1.7}, "simulations": 33})
    search = warm_start_search_settings(plain, WarmStartSettings(variant=variant), 0.4)
    assert search.selection.name == selection
    assert search.selection.c == 1.7  # U and U_rave have the same c
    assert search.leaf_evaluator.model_dump() == leaf
    changed = {"selection", "leaf_evaluator"}
    assert search.model_dump(exclude=changed) == plain.model_dump(exclude=changed)
    assert warm_start_search_settings(plain, WarmStartSettings(variant=variant), 0.0) == plain


def test_custom_variant_is_used():
    search_data = {
        "selection": {"name": "rave", "all_movers": True},
        "leaf_evaluator": "mixed",
        "simulations": 7,
    }
    warm_start = validate(WarmStartSettings, {"variant": "custom", "search": search_data})
    search = warm_start_search_settings(SearchSettings(), warm_start, 0.25)
    assert search.selection.all_movers
    assert search.leaf_evaluator.weight == 0.25
    assert search.simulations == 7


def test_weight_of_plain_search_is_kept():
    plain = validate(SearchSettings, {"leaf_evaluator": {"name": "mixed", "weight": 0.3}})
    assert (
        warm_start_search_settings(
            plain, WarmStartSettings(variant="rave"), 0.8
        ).leaf_evaluator.weight
        == 0.3
    )
    assert (
        warm_start_search_settings(
            plain, WarmStartSettings(variant="wrora"), 0.8
        ).leaf_evaluator.weight
        == 0.8
    )


class WeightedPuct(NamedTuple):
    """PUCT with a weight that a warm start sets.

    weight: weight of an enhancement.
    """

    c: float = 1.0
    weight: float = 0.5


_SELECTIONS = {
    **SELECTION_SETTINGS, "weighted": variant_settings_class(WeightedPuct, "weighted"),
}  # fmt: skip


class SearchSettingsWithAddedRule(SearchSettings):
    """Search settings to which another package has added a selection rule."""

    selection: variant_annotation(_SELECTIONS) = Field(default_factory=_SELECTIONS["puct"])


def test_every_replaced_rule_with_a_weight_receives_it(monkeypatch):
    monkeypatch.setattr(warm_start_module, "SearchSettings", SearchSettingsWithAddedRule)
    plain = SearchSettingsWithAddedRule()
    both = {"selection": "weighted", "leaf_evaluator": "mixed"}
    warm_start = WarmStartSettings(variant="custom", search=both)
    search = warm_start_search_settings(plain, warm_start, 0.25)
    assert (search.selection.weight, search.leaf_evaluator.weight) == (0.25, 0.25)

    plain = SearchSettingsWithAddedRule.model_validate({"selection": "weighted"})
    leaf_alone = WarmStartSettings(variant="wro")
    search = warm_start_search_settings(plain, leaf_alone, 0.25)
    assert (search.selection.weight, search.leaf_evaluator.weight) == (0.5, 0.25)


def test_weight_of_a_replaced_rule_is_refused():
    table = {"name": "weighted", "weight": 0.3}
    with pytest.raises(UserError, match=r"search\.selection\.weight = 0\.3: expected no weight"):
        validate(WarmStartSettings, {"variant": "custom", "search": {"selection": table}})


def test_variant_settings_can_be_refined():
    refinements = {"leaf_evaluator": {"playouts": 4}, "selection": {"equivalence": 9}}
    warm_start = validate(WarmStartSettings, {"variant": "wrora", "search": refinements})
    search = warm_start_search_settings(SearchSettings(), warm_start, 0.5)
    assert (
        search.leaf_evaluator.name,
        search.leaf_evaluator.playouts,
        search.leaf_evaluator.weight,
    ) == ("mixed", 4, 0.5)
    assert (search.selection.name, search.selection.equivalence) == ("rave", 9)


def test_published_variants_train(tmp_path):
    examples = {}
    for variant in PAPER:
        folder = tmp_path / variant
        # The weights of one variant are enough: the ramp does not depend on it.
        shortened = {"baseline": ["iterations=1"], "wrora": []}
        size = shortened.get(variant, ["iterations=1", "warm_start.ramp.iterations=1"])
        metrics = train(folder, GAME, f"warm_start.variant={variant}", *size)
        expected = {"baseline": [None], "wrora": [1.0, 0.5]}.get(variant, [1.0])
        assert warm_start_weights(metrics) == expected
        assert metrics[-1]["stage"] == "gate"
        examples[variant] = (folder / "examples" / "0001.npz").read_bytes()
    # In iteration 1 (weight 1) WRo equals Rollout and WRoRa equals RoRa; all others differ.
    assert examples["wro"] == examples["rollout"]
    assert examples["wrora"] == examples["rora"]
    assert len(set(examples.values())) == 4
    assert set(PAPER) == set(WARM_START_VARIANTS) - {"custom"}


@pytest.fixture
def searches(monkeypatch):
    """List that receives the self-play search settings of every iteration."""
    recorded = []

    def play_and_record(game, settings, search, *rest, **named):
        recorded.append(search)
        return play_episodes(game, settings, search, *rest, **named)

    monkeypatch.setattr(selfplay_stage, "play_episodes", play_and_record)
    return recorded


def test_search_is_plain_after_the_warm_start(tmp_path, searches):
    metrics = train(
        tmp_path / "run", GAME, "iterations=3", "warm_start.variant=wro",
        "warm_start.ramp.iterations=1",
    )  # fmt: skip
    assert warm_start_weights(metrics) == [1.0, 0.0, 0.0]
    assert [search.leaf_evaluator.name for search in searches] == ["mixed", "network", "network"]
    assert searches[1] == searches[2] == SearchSettings(simulations=8)


def test_endless_ramp_is_used_in_all_iterations(tmp_path, searches):
    metrics = train(
        tmp_path / "run", GAME, "iterations=3", "warm_start.variant=rollout",
        "warm_start.ramp=never",
    )  # fmt: skip
    assert warm_start_weights(metrics) == [1.0, 1.0, 1.0]
    assert [search.leaf_evaluator.name for search in searches] == ["playout"] * 3


def test_variants_can_have_an_adaptive_ramp(tmp_path):
    metrics = train(
        tmp_path / "run", GAME, "warm_start.variant=wrora",
        "warm_start.ramp.name=adaptive", "warm_start.ramp.games=4",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert matches[0]["wins"] + matches[0]["draws"] + matches[0]["losses"] == 4
    assert warm_start_weights(metrics) == [1.0, float(matches[0]["los"] < 0.95)]


ADAPTIVE = ("iterations=3", "warm_start.variant=custom", "warm_start.ramp=adaptive")


def test_an_adaptive_ramp_stops_once_plain_search_is_stronger(tmp_path):
    """A warm start with one simulation per move loses the first match."""
    metrics = train(
        tmp_path / "run", "gobang:3x3:3", *ADAPTIVE, "warm_start.search.simulations=1",
        "search.simulations=100",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert len(matches) == 1
    assert matches[0]["los"] >= 0.95
    assert matches[0]["wins"] > matches[0]["losses"]
    assert warm_start_weights(metrics) == [1.0, 0.0, 0.0]


def test_an_adaptive_ramp_continues_while_the_warm_start_is_stronger(tmp_path):
    metrics = train(
        tmp_path / "run", "gobang:3x3:3", *ADAPTIVE, "warm_start.search.simulations=60",
    )  # fmt: skip
    matches = [line for line in metrics if line["stage"] == "warm_start_match"]
    assert [line["iteration"] for line in matches] == [1, 2, 3]
    assert max(line["los"] for line in matches) < 0.95
    assert warm_start_weights(metrics) == [1.0] * 3


def test_extended_run_equals_a_longer_one(tmp_path):
    options = (
        *ADAPTIVE[1:], "warm_start.ramp.games=6", "warm_start.ramp.min_los=0.6",
        "warm_start.search.simulations=6",
    )  # fmt: skip
    whole = train(tmp_path / "whole", "gobang:3x3:3", "iterations=3", *options)
    train(tmp_path / "grown", "gobang:3x3:3", "iterations=1", *options)
    extended = train(tmp_path / "grown", "gobang:3x3:3", "iterations=3", *options)

    def without_clocks(metrics):
        return [
            {key: value for key, value in line.items() if not key.startswith("wall_")}
            for line in metrics
        ]

    assert without_clocks(extended) == without_clocks(whole)
    assert warm_start_weights(whole) == [1.0, 1.0, 0.0]  # the ramp ends after the extension


def test_weight_of_an_adaptive_ramp_can_decrease():
    weights = [AdaptiveRamp(iterations=5).weight(iteration) for iteration in range(1, 8)]
    assert weights == [1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2]
    assert {AdaptiveRamp().weight(iteration) for iteration in range(1, 8)} == {1.0}


def test_adaptive_ramp_ends_at_the_configured_likelihood():
    for min_likelihood, likelihood, is_over_expected in (
        (0.9, 0.89, False),
        (0.9, 0.9, True),
        (0.5, 0.4, False),
    ):
        assert AdaptiveRamp(min_los=min_likelihood).is_over(likelihood) == is_over_expected


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
        'selection = "puct" contradicts variant = "rave", which uses "rave"',
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
def test_invalid_settings_get_one_line_errors_and_create_no_run(
    assignments, expected, tmp_path, capsys
):
    sets = [f"--set={assignment}" for assignment in assignments]
    assert main(["train", "--preset", "smoke", "--run", str(tmp_path / "run"), *sets]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
