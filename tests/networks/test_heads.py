"""Heads: hand-computed targets, errors and gradients, and outputs for search.

The tests stay in one file because they share helpers and run for every registered head.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from networks.conftest import SMALL
from replay.example_facts import VISITS, example_facts
from zerolab.core.config import Settings, validate, variant_list_annotation
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import HEADS, LOSSES, NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.network import folded_copy
from zerolab.networks.objectives import HeadErrors
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.evaluator import UniformEvaluator, evaluate

NAN = math.nan
ALL_HEADS = ("policy", "value", "outcome", "reply", "action_values", "plies_left", "features")
TARGET_COLUMNS = {
    "move": ("played_actions",),
    "visits": ("policies",),
    "values": ("policies", "action_values"),
}


class HeadSettings(Settings):
    heads: variant_list_annotation(HEADS)


def target(name, options=VISITS, **columns):
    base = example_facts(len(next(iter(columns.values()))), **columns)
    facts = replace(base, **{name: np.asarray(columns[name], np.float32) for name in columns})
    result = HEADS[name]().compute_targets(facts, options)
    assert result.dtype == np.float32
    return result.tolist()


def error_and_gradient(name, prediction, expected):
    """Return the errors of a head and the gradient of their sum, ignoring masked errors."""
    tensor = torch.tensor(prediction, requires_grad=True)
    errors = HEADS[name]().compute_errors(tensor, torch.tensor(expected))
    errors.nansum().backward()
    return errors.tolist(), tensor.grad.tolist()


def test_all_registered_heads_are_tested():
    assert set(HEADS) == set(ALL_HEADS)


@pytest.mark.parametrize("early", ["visits", "values"])
@pytest.mark.parametrize("late", ["move", "visits", "values"])
def test_policy_target_depends_on_the_ply(early, late):
    columns = {
        "policies": [[0.25, 0.75, 0], [0.25, 0.75, 0], [0.25, 0.75, 0]],
        "action_values": [[0.5, -0.5, NAN]] * 3,
        "played_actions": [[0, 1, 0]] * 3,
    }
    expected = {"move": [0, 1, 0], "visits": [0.25, 0.75, 0], "values": [0.75, 0.25, 0]}
    options = VISITS._replace(policy_target=early, late_policy_target=late, temperature_plies=2)
    head = HEADS["policy"]()
    needed = head.target_vector_columns(options)
    assert needed == {*TARGET_COLUMNS[early], *TARGET_COLUMNS[late]}
    facts = example_facts(3, plies=[0, 1, 2], **{name: columns[name] for name in needed})
    targets = head.compute_targets(facts, options)
    assert targets.dtype == np.float32
    assert targets.tolist() == [expected[early], expected[early], expected[late]]


def test_policy_targets_from_action_values():
    """Normalised (Q + 1) / 2 of searched actions, or visits if all of them lose."""
    targets = target(
        "policy",
        VISITS._replace(policy_target="values", late_policy_target="values"),
        policies=[[0.25, 0.25, 0.5, 0], [0.75, 0.25, 0, 0], [0.75, 0, 0.25, 0]],
        action_values=[[0.5, -0.5, 0, NAN], [0.5, -1, NAN, NAN], [-1, NAN, -1, NAN]],
    )
    expected = [[1 / 2, 1 / 6, 1 / 3, 0], [1, 0, 0, 0], [3 / 4, 0, 1 / 4, 0]]
    np.testing.assert_allclose(targets, expected, rtol=1e-6)


def test_visit_targets_at_a_temperature():
    """Shares 1 : 2 : 4 become their squares at 1/2, and their roots at 2; zeros stay."""
    visits = [[1 / 7, 2 / 7, 4 / 7, 0], [0, 1, 0, 0]]
    for temperature, weights in ((0.5, [1, 4, 16, 0]), (2, [1, 2**0.5, 2, 0])):
        options = VISITS._replace(policy_target_temperature=temperature)
        targets = target("policy", options, policies=visits)
        expected = [np.array(weights) / sum(weights), visits[1]]
        np.testing.assert_allclose(targets, expected, rtol=1e-6)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9).filter(any), st.floats(0.01, 100))
def test_temperatures_keep_the_order_of_actions_and_the_total(visits, temperature):
    policies = [np.array(visits) / sum(visits)]
    options = VISITS._replace(policy_target_temperature=temperature)
    targets = np.array(target("policy", options, policies=policies)[0])
    stored = np.array(policies[0], np.float32)
    assert targets.sum() == pytest.approx(1, abs=1e-5)
    assert (targets[stored == 0] == 0).all()
    assert (np.diff(targets[np.argsort(stored, kind="stable")]) >= -1e-7).all()


# Outcome (value, draws), root (value, draws), search weight; expected value, (win, draw, loss).
OUTCOMES = {
    "a win": ((1, 0), (NAN, NAN), 0, 1, (1, 0, 0)),
    "a draw": ((0, 1), (NAN, NAN), 0, 0, (0, 1, 0)),
    "a loss": ((-1, 0), (NAN, NAN), 0, -1, (0, 0, 1)),
    "a win, discounted": ((0.75, 0.25), (NAN, NAN), 0, 0.75, (0.75, 0.25, 0)),
    "a loss, discounted": ((-0.75, 0.25), (NAN, NAN), 0, -0.75, (0, 0.25, 0.75)),
    "three games merged": ((0.25, 0.25), (NAN, NAN), 0, 0.25, (0.5, 0.25, 0.25)),
    "half a win, half the root": ((1, 0), (0.5, 0.25), 0.5, 0.75, (0.8125, 0.125, 0.0625)),
    "the root alone": ((-1, 0), (0.5, 0.25), 1, 0.5, (0.625, 0.25, 0.125)),
    "a root without draws": ((0, 1), (0.5, NAN), 0.5, 0.25, (0.25, 0.75, 0)),
    "a lost root without draws": ((1, 0), (-1, NAN), 0.5, 0, (0.5, 0, 0.5)),
    "draws beyond what the value leaves": ((1, 0), (1, 0.5), 0.5, 1, (1, 0, 0)),
}


@pytest.mark.parametrize(
    ("outcome", "root", "weight", "value", "expected"), OUTCOMES.values(), ids=OUTCOMES
)
def test_outcome_targets_agree_with_hand_computed_mixtures(outcome, root, weight, value, expected):
    columns = {
        "values": [outcome[0]], "draws": [outcome[1]],
        "root_values": [root[0]], "root_draws": [root[1]],
    }  # fmt: skip
    options = VISITS._replace(value_target_search_weight=weight)
    assert target("value", options, **columns) == [value]
    (probabilities,) = target("outcome", options, **columns)
    assert probabilities == pytest.approx(expected)
    assert probabilities[0] - probabilities[2] == pytest.approx(value)


@pytest.mark.parametrize("name", HEADS)
def test_heads_state_if_their_target_depends_on_the_search_weight(name):
    facts = example_facts(
        1, values=[1.0], draws=[0.0], root_values=[0.5], root_draws=[0.25], policies=[[0.5, 0.5]],
        action_values=[[0.5, -0.5]], played_actions=[[1.0, 0.0]], replies=[[0.5, 0.5]],
        features=[[0.5]],
    )  # fmt: skip
    head = HEADS[name]()
    plain, mixed = (
        head.compute_targets(facts, VISITS._replace(value_target_search_weight=weight))
        for weight in (0.0, 0.5)
    )
    assert (not np.array_equal(plain, mixed, equal_nan=True)) == head.uses_search_weight


def test_outcome_error_and_evaluator_outputs():
    logits = [[0.0, math.log(2), math.log(5)], [0.0, 0.0, 0.0]]  # 1/8, 2/8, 5/8
    errors, gradient = error_and_gradient("outcome", logits, [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    assert errors == pytest.approx([math.log(4), math.log(3)])
    expected = [[1 / 8, 2 / 8 - 1, 5 / 8], [1 / 3 - 1 / 2, 1 / 3, 1 / 3 - 1 / 2]]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)
    read = HEADS["outcome"]().compute_evaluator_outputs(torch.tensor(logits))
    assert read["values"].tolist() == pytest.approx([-1 / 2, 0])
    assert read["draws"].tolist() == pytest.approx([1 / 4, 1 / 3])


def test_reply_is_masked_at_the_end_of_the_game():
    replies = [[0.5, 0.5, 0.0], [NAN, NAN, NAN]]
    assert target("reply", reply_policies=replies)[0] == replies[0]
    errors, gradient = error_and_gradient("reply", [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]], replies)
    assert errors[0] == pytest.approx(math.log(3))
    assert math.isnan(errors[1])
    np.testing.assert_allclose(gradient, [[-1 / 6, -1 / 6, 1 / 3], [0, 0, 0]], atol=1e-6)


def test_action_values_are_learnt_only_for_visited_actions():
    values = [[0.5, NAN, -1.0], [NAN, NAN, NAN], [NAN, 1.0, NAN]]
    np.testing.assert_array_equal(target("action_values", action_values=values), values)
    predicted = [[1.0, 0.3, 0.0], [0.1, 0.2, 0.3], [0.5, 0.0, 0.5]]
    errors, gradient = error_and_gradient("action_values", predicted, values)
    assert errors[::2] == pytest.approx([(0.25 + 1) / 2, 1])
    assert math.isnan(errors[1])
    np.testing.assert_allclose(gradient, [[0.5, 0, 1], [0, 0, 0], [0, -2, 0]], atol=1e-6)


def test_plies_left_use_a_scaled_huber_loss():
    assert target("plies_left", plies_left=[1, 30]) == pytest.approx([0.05, 1.5])
    errors, gradient = error_and_gradient("plies_left", [0.25, 0.0, 2.0], [0.0, 0.0, 1.0])
    assert errors == pytest.approx([0.25**2 / 2, 0, 0.5 * (1 - 0.25)])
    assert gradient == pytest.approx([0.25, 0, 0.5])


def test_features_are_masked_after_the_end_of_the_game():
    """Two features at two plies; the games of the last two samples end before some of the plies."""
    features = [[1.0, 0.0, 0.5, 2.0], [1.0, 3.0, NAN, NAN], [NAN, NAN, NAN, NAN]]
    np.testing.assert_array_equal(target("features", features=features), features)
    predicted = [[1.5, 0.0, 0.0, 1.0], [0.0, 3.0, 9.0, 9.0], [1.0, 1.0, 1.0, 1.0]]
    errors, gradient = error_and_gradient("features", predicted, features)
    assert errors[:2] == pytest.approx([(0.25 + 0 + 0.25 + 1) / 4, (1 + 0) / 2])
    assert math.isnan(errors[2])
    expected = [[0.25, 0, -0.25, -0.5], [-1, 0, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("plies", "message"),
    [
        ([0, -2], "plies.1 = -2: expected at least 0"),
        ([0, 2, 0], "plies: 0 is listed twice"),
        ([], "plies = []: expected"),
    ],
)
def test_invalid_plies_get_one_line_errors(plies, message):
    assert HEADS["features"](plies=(1, 3)).plies == (1, 3)
    with pytest.raises(UserError) as caught:
        validate(HeadSettings, {"heads": ["policy", {"name": "features", "plies": plies}]})
    assert f"heads.1: {message}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["reply", "action_values", "features"])
def test_fully_masked_targets_have_no_gradient(name):
    """The loss and gradient of a fully masked batch are 0."""
    heads = validate(HeadSettings, {"heads": ["policy", "value", name]}).heads
    prediction = torch.zeros(2, 3, requires_grad=True)
    zero = torch.zeros(2)
    masked = heads[2].compute_errors(prediction, torch.full((2, 3), NAN))
    total = HeadErrors(
        LOSSES["sum"](), heads, {"policy": zero, "value": zero, name: masked}
    ).total_loss()
    total.backward()
    assert total.item() == 0
    assert (prediction.grad == 0).all()


def test_total_and_logged_losses_agree_with_hand_computed_values():
    """The value loss is the weighted error of the first value head; other heads are added."""
    heads_data = [
        {"name": "policy", "weight": 2}, {"name": "outcome", "weight": 0.5}, "value",
        {"name": "reply", "weight": 0.25},
    ]  # fmt: skip
    heads = validate(HeadSettings, {"heads": heads_data}).heads
    errors = {
        "policy": torch.tensor([1.0, 3.0, 2.0]), "outcome": torch.tensor([4.0, 0.0, 2.0]),
        "value": torch.tensor([0.0, 3.0, 0.0]), "reply": torch.tensor([8.0, NAN, 4.0]),
    }  # fmt: skip
    head_errors = HeadErrors(LOSSES["sum"](), heads, errors)
    assert head_errors.total_loss().item() == pytest.approx(2 * 2 + 0.5 * 2 + 1 + 0.25 * 6)
    scalars = {name: value.item() for name, value in head_errors.logged_scalars().items()}
    assert scalars == pytest.approx(
        {
            "policy": 2, "outcome": 2, "value": 1, "reply": 6,
            "sum": 5, "product": 4, "total": 7.5,
        }
    )  # fmt: skip
    product = HeadErrors(LOSSES["product"](), heads[:2], errors | {"value": errors["outcome"]})
    assert product.total_loss().item() == pytest.approx(4)


@pytest.mark.parametrize("settings", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("name", ["othello:4x5", "connect_four:6x7"])
def test_all_architectures_build_all_heads(settings, name):
    game = parse_game(name)
    actions = rules.action_count(game)
    heads = [*ALL_HEADS[:-1], {"name": "features", "width": 5, "plies": (0, 3)}]
    with_heads = type(settings).model_validate({**settings.model_dump(), "heads": heads})
    network = build_network(with_heads, game, seed=0)
    planes = torch.from_numpy(
        compiled_rules.encode_batch(game, np.array([compiled_rules.start(game)] * 3))
    )
    shapes = {name: tuple(output.shape) for name, output in network(planes).items()}
    assert shapes == {
        "policy": (3, actions), "value": (3,), "outcome": (3, 3), "reply": (3, actions),
        "action_values": (3, actions), "plies_left": (3,), "features": (3, 10),
    }  # fmt: skip
    assert set(network(planes, ["reply"])) == {"reply"}
    for folded, plain in zip(
        folded_copy(network)(planes).values(), network.eval()(planes).values(), strict=True
    ):
        torch.testing.assert_close(folded, plain, atol=1e-5, rtol=1e-4)


def test_clausen_heads_have_published_shapes(game):
    """3x3 convolution with 32 filters, then one fully connected layer [Clausen2021]."""
    settings = NETWORKS["resnet"](
        blocks=1, filters=16, head_filters=32, head_kernel=3, hidden=0, heads=("policy", "outcome")
    )
    network = settings.new_network(game)
    for name, outputs in (("policy", 7), ("outcome", 3)):
        shapes = {
            key: tuple(parameter.shape) for key, parameter in network.heads[name].named_parameters()
        }
        assert shapes == {
            "reduce.conv.weight": (32, 16, 3, 3), "reduce.norm.weight": (32,),
            "reduce.norm.bias": (32,), "head.output.weight": (outputs, 32 * 42),
            "head.output.bias": (outputs,),
        }  # fmt: skip


def test_only_heads_for_requested_outputs_are_computed(game, states):
    heads = ("policy", "outcome", "value", "action_values", "reply")
    network = build_network(NETWORKS["resnet"](blocks=1, filters=8, heads=heads), game, seed=0)
    evaluator = NetworkEvaluator(network, game, torch.device("cpu"), torch.float32)
    computed = []
    for name, module in evaluator._network.heads.items():
        module.register_forward_hook(lambda *_, name=name: computed.append(name))
    with torch.no_grad():
        outputs = network.eval()(torch.from_numpy(compiled_rules.encode_batch(game, states)))
    win, draw, loss = torch.softmax(outputs["outcome"], dim=1).T
    expected = [
        torch.softmax(outputs["policy"], dim=1), win - loss, draw, outputs["action_values"]
    ]  # fmt: skip
    for requested, other_heads in (
        ((), ()),
        (("draws",), ()),
        (("draws", "action_values"), ALL_HEADS[4:5]),
    ):
        computed.clear()
        outputs_of_evaluator = evaluator.evaluate_with_extras(states, requested)
        assert sorted(computed) == sorted(("policy", "outcome", *other_heads))
        for name, actual, expected_output in zip(
            ("", "", *OPTIONAL_OUTPUTS), outputs_of_evaluator, expected, strict=True
        ):
            if name and name not in requested:
                assert actual is None
            else:
                assert actual.dtype == np.float32
                np.testing.assert_allclose(actual, expected_output, atol=1e-5)
    priors, values = evaluator.evaluate(states)
    np.testing.assert_allclose(priors, expected[0], atol=1e-5)
    np.testing.assert_allclose(values, expected[1], atol=1e-5)


OPTIONAL_OUTPUTS = ("draws", "action_values")


def test_missing_head_is_reported(game, states):
    evaluator = NetworkEvaluator(build_network(SMALL["conv"], game, seed=0), game)
    for output, head in (("draws", "outcome"), ("action_values", "action_values")):
        with pytest.raises(UserError, match=f'expected "{head}" in network.heads') as caught:
            evaluator.evaluate_with_extras(states, [output])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("heads_data", "message"),
    [
        (["policy", "valeu"], 'heads.1: unknown head "valeu": expected one of policy, value,'),
        (["policy", {"name": "value", "wait": 3}], 'heads.1: unknown setting "wait"'),
        (["policy", {"name": "value", "weight": -1}], "heads.1: weight = -1: expected at least 0"),
        (["policy", 3], "heads.1: 3: expected one of policy, value, outcome"),
        (["policy", {"weight": 3}], "heads.1: {'weight': 3}: expected one of"),
        ("policy", 'heads = "policy": expected a list'),
    ],
)
def test_invalid_head_lists_get_one_line_errors(heads_data, message):
    with pytest.raises(UserError) as caught:
        validate(HeadSettings, {"heads": heads_data})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("heads_data", "message"),
    [
        (("policy", "value", "policy"), 'heads: "policy" is listed twice'),
        (
            ("policy", "reply"),
            'heads: no head provides values: expected "value" or "outcome" in network.heads, which'
            ' has "policy", "reply"',
        ),
        (("value",), 'heads: no head provides priors: expected "policy" in network.heads, which'),
        ((), 'heads: no head provides priors: expected "policy" in network.heads, which has none'),
    ],
)
def test_head_lists_without_evaluator_outputs_are_refused(heads_data, message):
    for kind in (NETWORKS["conv"], NETWORKS["resnet"]):
        with pytest.raises(UserError) as caught:
            validate(kind, {"heads": heads_data})
        assert str(caught.value).startswith(message)


def test_short_and_long_forms_are_equal():
    short = validate(NETWORKS["conv"], {"heads": ["policy", "outcome"]})
    long = validate(NETWORKS["conv"], short.model_dump())
    assert short == long
    assert short.model_dump()["heads"] == (
        {"name": "policy", "weight": 1.0},
        {"name": "outcome", "weight": 1.5},
    )


def test_optional_outputs_are_returned_on_request(game, states):
    heads = ("policy", "outcome", "action_values")
    network = build_network(NETWORKS["resnet"](blocks=1, filters=8, heads=heads), game, seed=0)
    evaluator = NetworkEvaluator(network, game)
    plain, detailed = (
        evaluate(evaluator, states, ()),
        evaluate(evaluator, states, ("draws", "action_values")),
    )
    assert plain.draw_probabilities is None
    assert plain.action_values is None
    np.testing.assert_array_equal(plain.priors, detailed.priors)
    np.testing.assert_array_equal(plain.values, detailed.values)
    assert (np.abs(detailed.values) + detailed.draw_probabilities <= 1 + 1e-6).all()
    assert detailed.action_values.shape == (len(states), 7)
    with pytest.raises(UserError, match="expected a network with"):
        evaluate(UniformEvaluator(7), states, ["draws"])
