"""Linear CKA: invariants, hand-computed values and trunk layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import ConvSettings, FullyConvolutionalSettings, ResnetSettings
from zerolab.papers.transfer.similarity import GramMatrix, linear_cka, trunk_activations
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((60, 20)) * np.linspace(0.2, 3, 20)
Y = np.tanh(X @ RANDOM.standard_normal((20, 30)))


def orthogonal(size):
    return np.linalg.qr(RANDOM.standard_normal((size, size)))[0]


def test_cka_of_equal_activations_is_1():
    assert linear_cka(X, X) == pytest.approx(1.0, abs=1e-6)
    assert 0.2 < linear_cka(X, Y) < 1.0
    assert linear_cka(X, Y) == pytest.approx(linear_cka(Y, X), abs=1e-9)


def test_cka_is_invariant_under_orthogonal_maps_scaling_and_shifts():
    expected = linear_cka(X, Y)
    for other in (Y @ orthogonal(30), 7.0 * Y, Y + RANDOM.standard_normal(30), Y[:, ::-1]):
        assert linear_cka(X, other) == pytest.approx(expected, abs=1e-5)
    # Unlike canonical correlations, CKA is not invariant under other linear maps.
    assert abs(linear_cka(X, Y * np.linspace(0.01, 5, 30)) - expected) > 0.01


def test_independent_features_have_cka_near_0():
    """With more features than positions, the biased estimator returns about 0.9."""
    random = np.random.default_rng(1)
    found = [linear_cka(*random.standard_normal((2, 50, 800))) for _ in range(40)]
    assert abs(np.mean(found)) < 0.02
    assert np.std(found) < 0.1


def test_cka_agrees_with_hand_computed_values():
    """Four positions, one feature each, from their inner products without the diagonal.

    x = (1, 1, -1, -1): every row adds up to -1. tr K K = 12, 1'K1 = -4, 1'K K 1 = 4, so the HSIC of
    K with itself is, up to a factor, 12 + 16 / 6 - 2 * 4 / 2 = 32 / 3.
    y = (1, 1, 1, -3): rows add up to (-1, -1, -1, -9); 60 + 144 / 6 - 84 = 0, nothing but noise.
    z = (3, 1, -1, -3): rows add up to (-9, -1, -1, -9); 236 + 400 / 6 - 164 = 416 / 3. With x:
    tr K M = 44, so 44 + 80 / 6 - 20 = 112 / 3, and CKA is 112 / 3 over the root of the product.
    """
    x, y, z = ([1, 1, -1, -1], [1, 1, 1, -3], [3, 1, -1, -3])
    column = [np.array(each, float)[:, None] for each in (x, y, z)]
    assert linear_cka(column[0], column[2]) == pytest.approx((112 / 3) / (32 * 416 / 9) ** 0.5)
    assert np.isnan(linear_cka(column[0], column[1]))


def test_constant_layers_have_no_cka():
    assert np.isnan(linear_cka(X, np.ones((60, 3))))


@pytest.mark.parametrize(("one", "other"), [((3, 2), (3, 2)), ((9, 2), (8, 2))])
def test_too_few_or_unequal_positions_are_refused(one, other):
    with pytest.raises(ValueError, match="positions"):
        linear_cka(np.ones(one), np.ones(other))


GAME = parse_game("gobang:4x4:3")
STATES = np.stack(
    [
        compiled_rules.apply(GAME, compiled_rules.apply(GAME, compiled_rules.start(GAME), a), b)
        for a in range(4)
        for b in (8, 9)
    ]
)


def test_trunk_activations_are_layer_outputs():
    network = FullyConvolutionalSettings(blocks=2, filters=3).new_network(GAME)
    found = trunk_activations(network, GAME, STATES)
    assert {name: layer.shape for name, layer in found.items()} == dict.fromkeys(
        ("stem", "block 1", "block 2"), (8, 3 * 16)
    )
    assert all((layer >= 0).all() for layer in found.values())
    network.eval()
    planes = torch.from_numpy(compiled_rules.encode_batch(GAME, STATES))
    with torch.inference_mode():
        expected = network.trunk(planes).flatten(1).numpy()
    assert found["block 2"] == pytest.approx(expected, abs=1e-5)
    wide = ResnetSettings(blocks=1, filters=3, stem_filters=5).new_network(GAME)
    assert list(trunk_activations(wide, GAME, STATES)) == ["stem", "adapter", "block 1"]


def test_network_of_another_board_size_is_compared():
    small = parse_game("gobang:3x3:3")
    settings = FullyConvolutionalSettings(blocks=1, filters=3)
    here, there = settings.new_network(GAME), settings.new_network(small)
    there.load_state_dict(here.state_dict())
    pairs = [trunk_activations(each, GAME, STATES) for each in (here, there)]
    assert GramMatrix(pairs[0]["stem"]).cka(GramMatrix(pairs[1]["stem"])) == pytest.approx(
        1.0, abs=1e-5
    )


def test_trunk_without_residual_blocks_is_refused():
    network = ConvSettings(channels=2, hidden=(4, 3)).new_network(GAME)
    with pytest.raises(UserError, match="no residual blocks"):
        trunk_activations(network, GAME, STATES)
