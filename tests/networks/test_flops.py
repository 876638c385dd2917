"""Operation counts compared with hand-computed ones: two per weight and cell."""

from __future__ import annotations

import pytest

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, count_parameters, evaluation_flops, training_flops
from zerolab.rules import encoding
from zerolab.rules.catalogue import parse_game

GAME = parse_game("connect_four:6x7")
PLANES = encoding.plane_count(GAME)
CELLS, ACTIONS = 6 * 7, 7


def convolution(cells, inputs, outputs, size):
    return 2 * cells * inputs * outputs * size * size


def linear(inputs, outputs):
    return 2 * inputs * outputs


def test_conv_flops_agree_with_hand_counts():
    settings = NETWORKS["conv"](channels=16, hidden=(32, 8))
    first = convolution(CELLS, PLANES, 16, 3)
    convolutions = sum(convolution(cells, 16, 16, 3) for cells in (CELLS, 4 * 5, 2 * 3))
    hidden = linear(2 * 3 * 16, 32) + linear(32, 8)
    heads = linear(8, ACTIONS) + linear(8, 1)
    forward = first + convolutions + hidden + heads
    assert evaluation_flops(settings, GAME) == forward
    # The backward pass costs twice the forward pass, except for the gradient of the input planes.
    assert training_flops(settings, GAME) == 3 * forward - first


def test_counts_differ_between_games_of_equal_board_size():
    settings = NETWORKS["conv"](channels=4, hidden=(8, 8))
    games = parse_game("connect_four:6x7:4"), parse_game("gobang:6x7:4")
    more_actions = 6 * 7 - ACTIONS
    for numbers, expected in (
        ([count_parameters(settings, game) for game in games], (8 + 1) * more_actions),
        ([evaluation_flops(settings, game) for game in games], linear(8, more_actions)),
        ([training_flops(settings, game) for game in games], 3 * linear(8, more_actions)),
    ):
        assert numbers[1] - numbers[0] == expected


def test_resnet_flops_include_only_the_heads_read_by_the_search():
    heads = ("policy", "outcome", "action_values")
    settings = NETWORKS["resnet"](
        blocks=2, filters=8, squeeze_excite=4, head_filters=4, head_kernel=3, hidden=16, heads=heads
    )
    stem = convolution(CELLS, PLANES, 8, 3)
    block = 2 * convolution(CELLS, 8, 8, 3) + linear(8, 2) + linear(2, 8)
    reader = convolution(CELLS, 8, 4, 3)
    per_action = reader + linear(4 * CELLS, ACTIONS)
    outcome = reader + linear(4 * CELLS, 16) + linear(16, 3)
    forward = stem + 2 * block + per_action + outcome
    assert evaluation_flops(settings, GAME) == forward
    with_all_outputs = evaluation_flops(
        settings, GAME, ("priors", "values", "draws", "action_values")
    )
    assert with_all_outputs == forward + per_action
    assert training_flops(settings, GAME) == 3 * with_all_outputs - stem
    # With a frozen trunk, gradients stop at the inputs of the heads.
    trunk = stem + 2 * block
    heads_with_gradients = 3 * (with_all_outputs - trunk) - 3 * reader
    assert training_flops(settings, GAME, is_trunk_frozen=True) == trunk + heads_with_gradients


def test_stem_of_another_width_has_an_adapter():
    settings = NETWORKS["resnet"](blocks=1, filters=8, stem_filters=24, head_filters=2, hidden=0)
    stem = convolution(CELLS, PLANES, 24, 3)
    trunk = stem + convolution(CELLS, 24, 8, 1) + 2 * convolution(CELLS, 8, 8, 3)
    heads = 2 * convolution(CELLS, 8, 2, 1) + linear(2 * CELLS, ACTIONS) + linear(2 * CELLS, 1)
    assert evaluation_flops(settings, GAME) == trunk + heads
    assert training_flops(settings, GAME) == 3 * (trunk + heads) - stem


def test_missing_head_is_reported():
    with pytest.raises(UserError, match="no head provides draws"):
        evaluation_flops(NETWORKS["conv"](channels=8), GAME, ("draws",))
