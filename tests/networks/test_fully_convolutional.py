"""Networks without a size of board: one set of weights for all, and what moves with the board."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.head import HEADS, Head
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.layers import folded_copy
from zerolab.networks.network import GlobalPool, PlacesLayer, load_weights, weights_to_arrays
from zerolab.rules.catalogue import parse_game
from zerolab.rules.encoding import ENCODINGS, ActionLayout
from zerolab.testing.samples import ongoing_positions

HEADS_OF_ALL = ("policy", "value", "outcome", "reply", "action_values", "plies_left")


def settings(**changes):
    defaults = {"blocks": 1, "filters": 6, "head_filters": 4, "hidden": 5}
    return NETWORKS["fully_convolutional"](**{**defaults, **changes})


def used(name, seed=0, **changes):
    """Return a network for evaluation whose weights, batch norms included, are all arbitrary."""
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
    ("trained_on", "others"),
    [
        ("gobang:5x5:4", ["gobang:6x6", "gobang:8x8", "gobang:4x7:4"]),
        ("othello:4x4", ["othello:6x6", "othello:8x8"]),
        ("connect_four:4x4", ["connect_four:6x7", "connect_four:8x8"]),
    ],
)
def test_the_weights_of_one_size_play_on_all_sizes(trained_on, others):
    small = used(trained_on, heads=HEADS_OF_ALL, squeeze_excite=2, stem_filters=3)
    for name in others:
        game = parse_game(name)
        large = build_network(
            settings(heads=HEADS_OF_ALL, squeeze_excite=2, stem_filters=3), game, 5
        )
        load_weights(large, weights_to_arrays(small))
        answers = large.eval()(torch.randint(-1, 2, (3, 1, *game[:2])).float())
        policy = answers["policy"]
        actions = {"g": game[0] * game[1], "o": game[0] * game[1] + 1, "c": game[1]}[name[0]]
        assert policy.shape == (3, actions)
        assert torch.isfinite(policy).all()
        assert answers["value"].shape == (3,)


def test_a_pattern_that_moves_takes_its_policy_along():
    """Three convolutions, those of a stem and a block, see three cells far: here no edge."""
    network = used("gobang:8x8")
    pattern = torch.zeros(1, 1, 8, 8)
    pattern[:, :, :7, :7] = torch.randint(-1, 2, (7, 7)).float()
    here = network(pattern)["policy"].view(8, 8)[3, 3]
    for down, right in ((0, 1), (1, 0), (1, 1)):
        moved = network(pattern.roll((down, right), dims=(2, 3)))["policy"].view(8, 8)
        torch.testing.assert_close(moved[3 + down, 3 + right], here, atol=1e-5, rtol=1e-5)
        assert abs(moved[3, 3] - here) > 1e-3


def test_columns_move_with_their_pieces():
    network = used("connect_four:6x8")
    pattern = torch.zeros(1, 1, 6, 8)
    pattern[:, :, :, :7] = torch.randint(-1, 2, (6, 7)).float()
    before, after = network(pattern)["policy"][0], network(pattern.roll(1, dims=3))["policy"][0]
    torch.testing.assert_close(after[4], before[3], atol=1e-5, rtol=1e-5)
    assert abs(after[3] - before[3]) > 1e-3


def test_what_is_pooled_is_mean_deviation_and_maximum():
    planes = torch.randn(5, 3, 4, 6).relu().contiguous(memory_format=torch.channels_last)
    board = planes.flatten(2).numpy()
    deviation = np.sqrt(board.var(2) + 1e-5)
    expected = np.concatenate([board.mean(2), deviation, board.max(2)], axis=1)
    np.testing.assert_allclose(GlobalPool()(planes).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("level", [0.0, 1.0, 12345.6])  # the last one's variance is rounding
def test_a_board_of_one_colour_has_a_finite_gradient(level):
    planes = torch.full((2, 3, 4, 4), level, requires_grad=True)
    GlobalPool()(planes).sum().backward()
    assert planes.grad is not None
    assert torch.isfinite(planes.grad).all()


@pytest.mark.parametrize("name", ["connect_four:6x7", "othello:6x6", "gobang:6x6"])
def test_heads_learn_in_float32_below_a_trunk_in_bfloat16(name):
    network = used(name).train()
    planes = torch.randn(8, 6, *parse_game(name)[:2])
    for reader in network.heads.values():
        with torch.autocast("cpu", torch.bfloat16):
            answers = reader(planes)
            reduced = reader.reduced(planes)
        assert (reduced.dtype, answers.dtype) == (torch.bfloat16, torch.float32)
        torch.testing.assert_close(answers, reader.head(reduced.float()), atol=1e-6, rtol=1e-5)
        answers.square().sum().backward()
        gradients = [parameter.grad for parameter in reader.parameters()]
        assert all(gradient.dtype == torch.float32 for gradient in gradients)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("name", ["connect_four:6x7", "othello:6x6"])
def test_in_bfloat16_a_position_is_valued_alike_in_every_batch(name):
    game = parse_game(name)
    evaluator = NetworkEvaluator(used(name), game, torch.device("cpu"), torch.bfloat16)
    states = np.stack([each.state for each in islice(ongoing_positions(game), 100)])
    together = evaluator.evaluate(states)
    for count in (1, 2, 3, 5, 7, 31, 33, 64, 99):
        for fewer, all_of_them in zip(evaluator.evaluate(states[:count]), together, strict=True):
            np.testing.assert_array_equal(fewer, all_of_them[:count])


@pytest.mark.parametrize("over", ["cells", "columns", "rows"])
def test_every_place_is_read_as_by_hand(over):
    places = {"cells": 6, "columns": 3, "rows": 2}[over]
    layer = PlacesLayer(HEADS["policy"](), 2, ActionLayout(over, places, 2))
    planes = torch.randn(4, 2, 2, 3)
    board = planes.detach().numpy()
    weight, bias = layer.output.weight.detach().numpy()[0], layer.output.bias.item()
    axis = {"cells": None, "columns": 2, "rows": 3}[over]
    if axis is None:
        read = board.reshape(4, 2, 6)
    else:
        read = np.concatenate([board.mean(axis), board.max(axis)], axis=1)
    whole = np.concatenate([board.mean((2, 3)), board.max((2, 3))], axis=1)
    passing = whole @ layer.others.weight.detach().numpy().T + layer.others.bias.detach().numpy()
    expected = np.concatenate([np.einsum("nfp,f->np", read, weight) + bias, passing], axis=1)
    np.testing.assert_allclose(layer(planes).detach().numpy(), expected, atol=1e-5)


def test_folded_weights_answer_the_same():
    network = used("othello:4x4", heads=HEADS_OF_ALL)
    planes = torch.randint(-1, 2, (7, 1, 4, 4)).float()
    plain, folded = network(planes), folded_copy(network)(planes)
    for name, answer in plain.items():
        torch.testing.assert_close(folded[name], answer, atol=1e-4, rtol=1e-4)


def test_weights_have_no_size_of_board_in_them():
    shapes = [
        {name: array.shape for name, array in weights_to_arrays(used(name)).items()}
        for name in ("othello:4x4", "othello:8x6")
    ]
    assert shapes[0] == shapes[1]


def test_without_a_hidden_layer_heads_read_the_pools():
    value = used("gobang:3x3:3", hidden=0).heads["value"]
    assert [module.in_features for module in value.modules() if isinstance(module, nn.Linear)] == [
        12
    ]


def test_a_game_that_does_not_say_where_its_actions_are_is_refused(monkeypatch):
    game = parse_game("gobang:3x3:3")
    monkeypatch.setattr(ENCODINGS.implementation(type(game)), "actions_over", None)
    with pytest.raises(UserError, match=r"actions_over = None.* cells, columns, rows"):
        build_network(settings(), game, 0)


def test_a_head_with_other_outputs_for_actions_is_refused():
    class Twice(Head):
        name: str = "twice"
        per_action = True

        def output_size(self, actions):
            return 2 * actions

    chosen = settings()
    both = chosen.model_copy(update={"heads": (*chosen.heads, Twice())})
    with pytest.raises(UserError, match='head "twice"'):
        build_network(both, parse_game("gobang:3x3:3"), 0)
