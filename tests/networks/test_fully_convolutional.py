"""Fully convolutional networks: size-independent weights and translation equivariance."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.network import (
    BoardOutputLayer,
    GlobalPool,
    folded_copy,
    set_weights,
    weights_to_arrays,
)
from zerolab.networks.objectives import HEADS, Head
from zerolab.rules.catalogue import parse_game
from zerolab.rules.encoding import ENCODING_INTERFACE, ActionLayout
from zerolab.testing.random_games import ongoing_sample_positions

ALL_HEADS = ("policy", "value", "outcome", "reply", "action_values", "plies_left")


def settings(**changes):
    defaults = {"blocks": 1, "filters": 6, "head_filters": 4, "hidden": 5}
    return NETWORKS["fully_convolutional"](**{**defaults, **changes})


def randomized_network(name, seed=0, **changes):
    """Return a network in evaluation mode with random weights and batch norm statistics."""
    network = build_network(settings(**changes), parse_game(name), seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for key, tensor in network.state_dict().items():
            if "running_var" in key:
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.3)
    return network.eval()


@pytest.mark.parametrize(
    ("trained_on", "other_boards"),
    [
        ("gobang:5x5:4", ["gobang:6x6", "gobang:8x8", "gobang:4x7:4"]),
        ("othello:4x4", ["othello:6x6", "othello:8x8"]),
        ("connect_four:4x4", ["connect_four:6x7", "connect_four:8x8"]),
    ],
)
def test_weights_of_one_board_size_work_on_others(trained_on, other_boards):
    small = randomized_network(trained_on, heads=ALL_HEADS, squeeze_excite=2, stem_filters=3)
    for name in other_boards:
        game = parse_game(name)
        large = build_network(settings(heads=ALL_HEADS, squeeze_excite=2, stem_filters=3), game, 5)
        set_weights(large, weights_to_arrays(small))
        outputs = large.eval()(torch.randint(-1, 2, (3, 1, *game[:2])).float())
        policy = outputs["policy"]
        actions = {"g": game[0] * game[1], "o": game[0] * game[1] + 1, "c": game[1]}[name[0]]
        assert policy.shape == (3, actions)
        assert torch.isfinite(policy).all()
        assert outputs["value"].shape == (3,)


def test_policy_moves_with_a_shifted_pattern():
    """The three convolutions of stem and block reach three cells, so no edge is involved."""
    network = randomized_network("gobang:8x8")
    pattern = torch.zeros(1, 1, 8, 8)
    pattern[:, :, :7, :7] = torch.randint(-1, 2, (7, 7)).float()
    original = network(pattern)["policy"].view(8, 8)[3, 3]
    for down, right in ((0, 1), (1, 0), (1, 1)):
        moved = network(pattern.roll((down, right), dims=(2, 3)))["policy"].view(8, 8)
        torch.testing.assert_close(moved[3 + down, 3 + right], original, atol=1e-5, rtol=1e-5)
        assert abs(moved[3, 3] - original) > 1e-3


def test_policy_moves_with_shifted_columns():
    network = randomized_network("connect_four:6x8")
    pattern = torch.zeros(1, 1, 6, 8)
    pattern[:, :, :, :7] = torch.randint(-1, 2, (6, 7)).float()
    before, after = network(pattern)["policy"][0], network(pattern.roll(1, dims=3))["policy"][0]
    torch.testing.assert_close(after[4], before[3], atol=1e-5, rtol=1e-5)
    assert abs(after[3] - before[3]) > 1e-3


def test_global_pool_is_mean_deviation_and_maximum():
    planes = torch.randn(5, 3, 4, 6).relu().contiguous(memory_format=torch.channels_last)
    board = planes.flatten(2).numpy()
    deviation = np.sqrt(board.var(2) + 1e-5)
    expected = np.concatenate([board.mean(2), deviation, board.max(2)], axis=1)
    np.testing.assert_allclose(GlobalPool()(planes).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(
    "level", [0.0, 1.0, 12345.6]
)  # the variance of 12345.6 is only rounding error
def test_uniform_board_has_a_finite_gradient(level):
    planes = torch.full((2, 3, 4, 4), level, requires_grad=True)
    GlobalPool()(planes).sum().backward()
    assert planes.grad is not None
    assert torch.isfinite(planes.grad).all()


@pytest.mark.parametrize("name", ["connect_four:6x7", "othello:6x6", "gobang:6x6"])
def test_heads_learn_in_float32_after_a_bfloat16_trunk(name):
    network = randomized_network(name).train()
    planes = torch.randn(8, 6, *parse_game(name)[:2])
    for head in network.heads.values():
        with torch.autocast("cpu", torch.bfloat16):
            outputs = head(planes)
            reduced = head.conv_activations(planes)
        assert (reduced.dtype, outputs.dtype) == (torch.bfloat16, torch.float32)
        torch.testing.assert_close(outputs, head.head(reduced.float()), atol=1e-6, rtol=1e-5)
        outputs.square().sum().backward()
        gradients = [parameter.grad for parameter in head.parameters()]
        assert all(gradient.dtype == torch.float32 for gradient in gradients)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("name", ["connect_four:6x7", "othello:6x6"])
def test_bfloat16_outputs_do_not_depend_on_the_batch(name):
    game = parse_game(name)
    evaluator = NetworkEvaluator(
        randomized_network(name), game, torch.device("cpu"), torch.bfloat16
    )
    states = np.stack([sample.state for sample in islice(ongoing_sample_positions(game), 100)])
    together = evaluator.evaluate(states)
    for count in (1, 2, 3, 5, 7, 31, 33, 64, 99):
        for actual, expected in zip(evaluator.evaluate(states[:count]), together, strict=True):
            np.testing.assert_array_equal(actual, expected[:count])


@pytest.mark.parametrize("places", ["cells", "columns", "rows"])
def test_places_layer_agrees_with_hand_computed_outputs(places):
    place_count = {"cells": 6, "columns": 3, "rows": 2}[places]
    layer = BoardOutputLayer(HEADS["policy"](), 2, ActionLayout(places, place_count, 2))
    planes = torch.randn(4, 2, 2, 3)
    board = planes.detach().numpy()
    weight, bias = layer.output.weight.detach().numpy()[0], layer.output.bias.item()
    axis = {"cells": None, "columns": 2, "rows": 3}[places]
    if axis is None:
        features = board.reshape(4, 2, 6)
    else:
        features = np.concatenate([board.mean(axis), board.max(axis)], axis=1)
    whole = np.concatenate([board.mean((2, 3)), board.max((2, 3))], axis=1)
    passing = whole @ layer.others.weight.detach().numpy().T + layer.others.bias.detach().numpy()
    expected = np.concatenate([np.einsum("nfp,f->np", features, weight) + bias, passing], axis=1)
    np.testing.assert_allclose(layer(planes).detach().numpy(), expected, atol=1e-5)


def test_folded_network_has_the_same_outputs():
    network = randomized_network("othello:4x4", heads=ALL_HEADS)
    planes = torch.randint(-1, 2, (7, 1, 4, 4)).float()
    plain, folded = network(planes), folded_copy(network)(planes)
    for name, output in plain.items():
        torch.testing.assert_close(folded[name], output, atol=1e-4, rtol=1e-4)


def test_weight_shapes_do_not_depend_on_the_board():
    shapes = [
        {name: array.shape for name, array in weights_to_arrays(randomized_network(name)).items()}
        for name in ("othello:4x4", "othello:8x6")
    ]
    assert shapes[0] == shapes[1]


def test_heads_without_hidden_layer_read_the_pools():
    value = randomized_network("gobang:3x3:3", hidden=0).heads["value"]
    assert [module.in_features for module in value.modules() if isinstance(module, nn.Linear)] == [
        12
    ]


def test_game_without_action_layout_is_refused(monkeypatch):
    game = parse_game("gobang:3x3:3")
    monkeypatch.setattr(ENCODING_INTERFACE.implementation(type(game)), "action_places", None)
    with pytest.raises(UserError, match=r"action_places = None.* cells, columns, rows"):
        build_network(settings(), game, 0)


def test_head_with_several_outputs_per_action_is_refused():
    class Twice(Head):
        name: str = "twice"
        is_per_action = True

        def output_size(self, actions):
            return 2 * actions

    plain = settings()
    with_head = plain.model_copy(update={"heads": (*plain.heads, Twice())})
    with pytest.raises(UserError, match='"twice" head'):
        build_network(with_head, parse_game("gobang:3x3:3"), 0)
