"""Growing networks: sizes per iteration, and filters and blocks that preserve the function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import GROWTHS, NETWORKS, build_network
from zerolab.networks.inference import NetworkEvaluator
from zerolab.networks.network import set_weights, weights_to_arrays
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game

GAME = parse_game("connect_four:4x4")
HEADS = ("policy", "value", "outcome", "reply", "action_values", "plies_left")


def randomized_network(narrow, seed):
    """Return a network with random weights and batch norm statistics."""
    torch.manual_seed(seed)
    network = build_network(narrow, GAME, seed)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.3)
    return network


def enlarged(network, former_settings, factor, seed, blocks=0):
    larger_settings = former_settings.grown_settings(factor, blocks)
    larger = build_network(larger_settings, GAME, seed + 1)
    fresh, former = weights_to_arrays(larger), weights_to_arrays(network)
    set_weights(
        larger, larger_settings.enlarged_weights(fresh, former, np.random.default_rng(seed))
    )
    return larger


def planes(count=16):
    return torch.randint(-1, 2, (count, 1, 4, 4), generator=torch.manual_seed(3)).float()


@given(
    blocks=st.integers(1, 2),
    filters=st.integers(1, 9),
    factor=st.integers(2, 4),
    ratio=st.sampled_from((0, 1, 2, 5)),
    kernel=st.sampled_from((1, 3)),
    stem=st.sampled_from((None, 1, 5)),
    hidden=st.sampled_from((0, 5)),
    architecture=st.sampled_from(("resnet", "fully_convolutional")),
    added=st.integers(0, 2),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_enlarged_network_computes_the_same_function(
    blocks, filters, factor, ratio, kernel, stem, hidden, architecture, added, seed
):
    narrow = NETWORKS[architecture](
        blocks=blocks, filters=filters, squeeze_excite=ratio, head_kernel=kernel, head_filters=3,
        hidden=hidden, heads=HEADS, stem_filters=stem,
    )  # fmt: skip
    network = randomized_network(narrow, seed)
    larger = enlarged(network, narrow, factor, seed, added)
    shapes = [
        weights_to_arrays(larger)[f"trunk.{name}.weight"].shape
        for name in ("0.conv", "2")[: 1 + (stem is not None)]
    ]
    assert shapes[-1][0] == factor * filters
    assert stem is None or (shapes[0][0], shapes[1][1:]) == (stem, (stem, 1, 1))
    boards = planes().double()
    # In training mode, copied filters have equal batch statistics.
    for mode in (False, True):
        expected = network.double().train(mode)(boards)
        outputs = larger.double().train(mode)(boards)
        for name in HEADS:
            torch.testing.assert_close(outputs[name], expected[name], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("architecture", ["resnet", "fully_convolutional"])
def test_deeper_network_computes_exactly_the_same_function_and_learns(architecture, ratio):
    shallow = NETWORKS[architecture](blocks=1, filters=5, squeeze_excite=ratio, heads=HEADS)
    network = randomized_network(shallow, 2)
    deeper = enlarged(network, shallow, 1, 2, blocks=2)
    assert len(deeper.trunk) == len(network.trunk) + 2
    boards = planes()
    for mode in (False, True):
        outputs, expected = (each.train(mode)(boards) for each in (deeper, network))
        for name in HEADS:
            assert torch.equal(outputs[name], expected[name])
    states = np.array([compiled_rules.start(GAME)])
    priors = [NetworkEvaluator(each, GAME).evaluate(states)[0] for each in (deeper, network)]
    assert (priors[0] == priors[1]).all()
    optimizer = torch.optim.SGD(deeper.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        sum(each.square().sum() for each in deeper(boards).values()).backward()
        optimizer.step()
    for block in deeper.trunk[-2:]:
        gradients = [each.grad.abs().max() for each in block.parameters() if each.ndim == 4]
        assert len(gradients) == 2
        assert min(gradients) > 0


@pytest.mark.parametrize("ratio", [0, 2])
def test_copied_filters_have_different_gradients(ratio):
    """Gradients differ from the first step in all layers with copies."""
    narrow = NETWORKS["resnet"](blocks=2, filters=6, squeeze_excite=ratio)
    larger = enlarged(randomized_network(narrow, 1), narrow, 2, 1).train()
    predictions = larger(planes(64))
    sum(prediction.square().sum() for prediction in predictions.values()).backward()
    for name, parameter in larger.named_parameters():
        if name.startswith("trunk") and parameter.ndim > 1:
            rows = parameter.grad.flatten(1)
            is_equal = (rows[:, None] - rows[None]).abs().amax(dim=2) < 1e-6 * rows.abs().max()
            is_active = rows.abs().amax(dim=1) > 0  # a ReLU can silence a squeezed unit
            assert not (is_equal & ~torch.eye(len(rows), dtype=bool) & is_active).any(), name


def test_sizes_change_after_configured_iterations():
    growth = GROWTHS["reinitialise"]()
    first = NETWORKS["resnet"](filters=16)
    sizes = {
        k: growth.network_settings(first, k).filters for k in (0, 4, 5, 8, 9, 16, 17, 32, 33, 99)
    }
    assert sizes == {0: 16, 4: 16, 5: 32, 8: 32, 9: 64, 16: 64, 17: 128, 32: 128, 33: 256, 99: 256}
    assert GROWTHS["none"]().network_settings(first, 99) is first
    deeper = GROWTHS["net2net"](after=(2, 5), factor=1, added_blocks=3)
    sizes = [deeper.network_settings(first, k) for k in (2, 3, 6)]
    assert [(each.blocks, each.filters) for each in sizes] == [(5, 16), (8, 16), (11, 16)]


def test_grown_networks_have_the_hand_counted_parameters():
    """3x3 convolutions with batch norm, and heads with one filter over 16 cells."""
    growth = GROWTHS["net2net"](after=(1,), factor=3)
    first = NETWORKS["resnet"](blocks=1, filters=2, head_filters=1, hidden=0)

    def expected_count(filters):
        trunk = 9 * filters + 2 * 9 * filters**2 + 3 * 2 * filters
        heads = 2 * (filters + 2) + (16 * 4 + 4) + (16 * 1 + 1)
        return trunk + heads

    for iteration, filters in ((1, 2), (2, 6)):
        network = build_network(growth.network_settings(first, iteration), GAME, 0)
        count = sum(parameter.numel() for parameter in network.parameters())
        assert count == expected_count(filters)


def test_networks_that_cannot_grow_are_refused():
    with pytest.raises(
        UserError, match='"conv" cannot grow: expected "fully_convolutional" or "resnet"'
    ):
        GROWTHS["net2net"](after=(1,)).network_settings(NETWORKS["conv"](), 2)
    with pytest.raises(UserError, match="factor = 1 and added_blocks = 0"):
        validate(GROWTHS["net2net"], {"factor": 1})
    with pytest.raises(UserError, match="filters = 8192: expected at most 4096"):
        GROWTHS["net2net"](after=(1, 2)).network_settings(NETWORKS["resnet"](filters=2048), 3)


def test_reinitialised_networks_differ_between_iterations():
    settings = NETWORKS["resnet"](blocks=1, filters=2)
    first, later = (weights_to_arrays(build_network(settings, GAME, 7, k)) for k in (0, 3))
    assert any((first[name] != later[name]).any() for name in first)
