"""Architectures: shapes, hand-counted parameters, seeds and gates."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pytest
import torch
from torch import nn

from networks.conftest import SMALL
from zerolab.core.config import Settings, validate, variant_annotation
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import INPUT_PLANES, NETWORKS, build_network
from zerolab.networks.network import OutputLayer, ResidualBlock, SqueezeExcite
from zerolab.networks.objectives import HEADS, POLICY_HEAD, VALUE_HEAD, cross_entropy, squared_error
from zerolab.rules import compiled_rules, encoding, rules
from zerolab.rules.catalogue import parse_game, registered_games
from zerolab.rules.rules import Game
from zerolab.testing.random_games import ongoing_sample_positions


class NetworkSettings(Settings):
    network: variant_annotation(NETWORKS)


def every_board(name: str) -> list[Game]:
    sizes = registered_games()[name].field_bounds()
    k = ":3" if name == "gobang" else ""
    ranges = [range(sizes[side][0], sizes[side][1] + 1) for side in ("rows", "columns")]
    return [parse_game(f"{name}:{rows}x{columns}{k}") for rows, columns in product(*ranges)]


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("settings", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("name", ["othello", "connect_four", "gobang"])
def test_outputs_have_correct_shapes_on_every_board(name, settings):
    for game in every_board(name):
        network = build_network(settings, game, seed=0)
        outputs = network(torch.zeros(2, encoding.plane_count(game), game[0], game[1]))
        assert outputs[POLICY_HEAD].shape == (2, rules.action_count(game)), game
        assert outputs[VALUE_HEAD].shape == (2,), game


def extra_planes(game, states, names=("ones", "landing", "row_parity")):
    """Return the extra planes of states, float32[N, planes, rows, columns]."""
    network = build_network(NETWORKS["resnet"](blocks=1, filters=1, planes=names), game, seed=0)
    planes = torch.from_numpy(compiled_rules.encode_batch(game, np.array(states)))
    return network.with_extra_planes(planes)[:, planes.shape[1] :].numpy()


def test_all_registered_input_planes_are_tested():
    assert list(INPUT_PLANES) == ["ones", "landing", "row_parity"]


@pytest.mark.parametrize("name", ["connect_four:5x4", "connect_four:6x7"])
def test_landing_cells_are_the_legal_moves_of_connect_four(name):
    game = parse_game(name)
    states = [sample.state for sample in ongoing_sample_positions(game)]
    ones, landing, parity = extra_planes(game, states).swapaxes(0, 1)
    assert (ones == 1).all()
    for state, plane in zip(states, landing, strict=True):
        assert (plane.sum(axis=0) == compiled_rules.legal(game, state)).all()
        for row, column in np.argwhere(plane):
            after = compiled_rules.apply(game, state, column)
            change = compiled_rules.encode(game, after)[0] + compiled_rules.encode(game, state)[0]
            assert np.argwhere(change).tolist() == [[row, column]]
    assert (parity == np.array([1, -1] * 4)[: game.rows, None][::-1]).all()


@pytest.mark.parametrize("name", ["connect_four:5x4", "othello:4x6", "gobang:4x4:3"])
def test_planes_of_images_are_those_of_the_boards_as_seen(name):
    """Cells are open if they are empty and rest on the bottom or on a piece, in every image."""
    game = parse_game(name)
    for symmetry in range(encoding.symmetry_count(game)):
        states = [
            compiled_rules.transform(game, sample.state, symmetry)
            for sample in islice(ongoing_sample_positions(game), 40)
        ]
        boards = compiled_rules.encode_batch(game, np.array(states))[:, 0]
        landing = extra_planes(game, states, ("landing",))[:, 0]
        for board, plane in zip(boards, landing, strict=True):
            for row, column in product(*map(range, board.shape)):
                rests = row + 1 == game.rows or board[row + 1, column] != 0
                assert plane[row, column] == (board[row, column] == 0 and rests)


def test_planes_are_added_to_those_of_the_game_in_the_settings_order():
    game = parse_game("hex:4x4")
    settings = NETWORKS["conv"](channels=2, hidden=(2, 2), planes=("row_parity", "ones"))
    network = build_network(settings, game, seed=0)
    planes = torch.rand(2, 2, 4, 4)
    both = network.with_extra_planes(planes)
    assert (both[:, :2] == planes).all()
    assert both[0, 2:, :, 1].tolist() == [[-1, 1, -1, 1], [1, 1, 1, 1]]
    assert network.trunk.convolutions[0].conv.in_channels == 4
    assert network(planes)[POLICY_HEAD].shape == (2, 16)


def test_tables_of_networks_without_planes_are_those_of_older_networks():
    assert "planes" not in NETWORKS["conv"]().model_dump()
    settings = NETWORKS["conv"](planes=("ones",))
    assert settings.model_dump()["planes"] == ({"name": "ones"},)
    assert NETWORKS["conv"].model_validate(settings.model_dump(mode="json")) == settings


def test_architecture_that_ignores_planes_is_refused():
    class Plain(NETWORKS["conv"]):
        def new_network(self, game):
            return NETWORKS["conv"](channels=2, hidden=(2, 2)).new_network(game)

    with pytest.raises(UserError, match="planes"):
        build_network(Plain(planes=("ones",)), parse_game("hex:4x4"), seed=0)


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("gobang:3x3:3", 9),  # padded, because unpadded convolutions would leave no cells
        ("othello:4x4", 16),
        ("connect_four:4x8", 32),
        ("gobang:5x5", 1),
        ("connect_four:6x7", 6),
        ("othello:8x8", 16),
    ],
)
def test_conv_trunk_shrinks_boards_that_are_large_enough(name, features):
    network = build_network(SMALL["conv"], parse_game(name), seed=0)
    assert network.trunk.hidden[0].linear.in_features == 16 * features


def test_published_network_has_the_hand_counted_parameters():
    convolutions = 512 * 9 + 3 * 512 * 512 * 9 + 4 * 2 * 512
    hidden = 512 * 2 * 2 * 1024 + 2 * 1024 + 1024 * 512 + 2 * 512
    heads = 512 * 37 + 37 + 512 + 1
    with torch.device("meta"):
        network = NETWORKS["conv"]().new_network(parse_game("othello:6x6"))
    assert parameters(network) == convolutions + hidden + heads == 9_730_598


def test_resnet_has_the_hand_counted_parameters():
    settings = NETWORKS["resnet"](
        blocks=2, filters=32, squeeze_excite=16, head_filters=8, hidden=64
    )
    stem = 32 * 9 + 64
    blocks = 2 * 2 * (32 * 32 * 9 + 64)
    gates = 2 * (32 * 2 + 2 * 32)
    readers = 2 * (32 * 8 + 16)
    policy = 8 * 42 * 7 + 7
    value = 8 * 42 * 64 + 64 + 64 + 1
    network = settings.new_network(parse_game("connect_four:6x7"))
    assert parameters(network) == stem + blocks + gates + readers + policy + value


def test_gate_scales_filters():
    gate = SqueezeExcite(filters=2, ratio=1)
    with torch.no_grad():
        gate.squeeze.weight.copy_(torch.eye(2))
        gate.excite.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
    planes = torch.tensor([[[[1.0, 3.0]], [[-2.0, 6.0]]]])  # means 2 and 2
    opened, closed = torch.sigmoid(torch.tensor([2.0, -2.0]))
    expected = torch.stack([opened * planes[0, 0], closed * planes[0, 1]])[None]
    torch.testing.assert_close(gate(planes), expected)


def test_gate_acts_before_the_skip_connection():
    block = ResidualBlock(filters=4, squeeze_excite=2).eval()
    with torch.no_grad():
        block.gate.excite.weight.zero_()
    planes = torch.rand(3, 4, 5, 5)
    change = block.second(torch.relu(block.first(planes)))
    torch.testing.assert_close(block(planes), torch.relu(planes + change / 2))


def test_squeeze_excite_0_builds_no_gate():
    block = ResidualBlock(filters=4, squeeze_excite=0)
    assert not [module for module in block.modules() if isinstance(module, SqueezeExcite)]


@pytest.mark.parametrize("settings", SMALL.values(), ids=SMALL)
def test_weights_depend_only_on_the_seed(settings, game):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, repeated, other = (build_network(settings, game, seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    later = build_network(settings, game, 3)
    planes = torch.randn(4, 1, 6, 7)
    logits = [network.eval()(planes)[POLICY_HEAD] for network in (first, repeated, later, other)]
    assert torch.equal(logits[0], logits[1])
    assert torch.equal(logits[0], logits[2])
    assert not torch.equal(logits[0], logits[3])


def test_extreme_features_give_finite_bounded_values():
    head = OutputLayer(HEADS["value"](), 3, 7)
    features = torch.tensor([[1e30, 1e30, 1e30], [-1e30, 1e30, -1e30], [0.0, 0.0, 0.0]])
    values = head(features)
    assert torch.isfinite(values).all()
    assert (values.abs() <= 1).all()


@pytest.mark.parametrize("settings", SMALL.values(), ids=SMALL)
def test_network_can_memorize_eight_positions(settings, game):
    without_dropout = (
        settings.model_copy(update={"dropout": 0.0}) if settings.name == "conv" else settings
    )
    network = build_network(without_dropout, game, seed=0)
    generator = torch.Generator().manual_seed(1)
    planes = torch.randint(-1, 2, (8, 1, 6, 7), generator=generator).float()
    policies = torch.eye(7)[torch.arange(8) % 7]
    values = torch.tensor([1.0, -1.0, 0.0, 0.5, -0.5, 1.0, -1.0, 0.0])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(60):
        outputs = network(planes)
        loss = (
            cross_entropy(outputs[POLICY_HEAD], policies).mean()
            + squared_error(outputs[VALUE_HEAD], values).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    outputs = network.eval()(planes)
    assert cross_entropy(outputs[POLICY_HEAD], policies).mean() < 0.1
    assert squared_error(outputs[VALUE_HEAD], values).mean() < 0.02


@pytest.mark.parametrize(
    ("network_data", "message"),
    [
        (
            {"name": "resnat"},
            'network.name = "resnat": expected one of conv, fully_convolutional, resnet; did you'
            ' mean "resnet"?',
        ),
        (
            {"name": "resnet", "filter": 3},
            'unknown setting "network.filter"; did you mean "network.filters"?',
        ),
        ({"name": "conv", "dropout": 1.0}, "network.dropout = 1.0: expected less than 1.0"),
        ({"name": "conv", "hidden": [8, 0]}, "network.hidden.1 = 0: expected more than 0"),
        ({"name": "resnet", "blocks": 0}, "network.blocks = 0: expected at least 1"),
    ],
)
def test_invalid_settings_get_one_line_errors(network_data, message):
    with pytest.raises(UserError) as caught:
        validate(NetworkSettings, {"network": network_data})
    assert str(caught.value) == message
