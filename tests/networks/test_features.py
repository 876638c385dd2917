"""Features of positions beside those computed from the modules by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import FeatureReader
from zerolab.rules import python
from zerolab.training.configure import resolve_settings

CPU = torch.device("cpu")


def by_hand(network, planes):
    """relu(norm(conv(trunk))) of every head, a filter after the other."""
    network.eval()
    trunk = network.trunk(planes)
    parts = []
    for head in network.heads.values():
        plain = torch.nn.functional.conv2d(trunk, head.reduce.conv.weight, padding="same")
        norm = head.reduce.norm
        shaped = [
            each.reshape(1, -1, 1, 1)
            for each in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        ]
        mean, variance, weight, bias = shaped
        normed = (plain - mean) / torch.sqrt(variance + norm.eps) * weight + bias
        parts.append(normed.clamp(min=0).reshape(len(planes), -1))
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("trained", ["gated"], indirect=True)
def test_features_are_the_activations_of_the_heads_convolutions(trained, game, states):
    reader = FeatureReader(trained, game, CPU)
    assert reader.width == 2 * 8 * 42
    found = reader.read(states)
    assert found.dtype == np.float32
    with torch.no_grad():
        expected = by_hand(trained, torch.from_numpy(python.encode_batch(game, states))).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert (found.std(axis=0) > 0.01).mean() > 0.3, "hardly a feature depends on the position"
    twice = reader.read(np.concatenate([states[3:5], states[:4]]))
    np.testing.assert_allclose(twice, found[[3, 4, 0, 1, 2, 3]], atol=1e-5)
    assert (twice[0] == twice[5]).all()
    assert not reader.read(states[:0]).size


def test_a_network_without_such_convolutions_is_refused(game):
    network = build_network(NETWORKS["conv"](channels=8, hidden=(8, 8)), game, seed=0)
    with pytest.raises(UserError, match="has no convolutions before its heads"):
        FeatureReader(network, game, CPU)


def test_the_small_network_of_clausen(game):
    """About 70,000 parameters by [Clausen2021]; by hand: weights, then two numbers per filter of
    batch norm, gates with biases, and one filter of 42 features for each of three heads."""
    network = resolve_settings(None, "connect4-small").network.network(game)
    stem = 9 * 128 + 2 * 128 + 128 * 32 + 2 * 32
    block = 2 * (9 * 32 * 32 + 2 * 32) + (32 * 2 + 2) + (2 * 32 + 32)
    heads = 3 * (9 * 32 + 2) + 2 * (42 * 7 + 7) + (42 * 3 + 3)
    assert stem + 3 * block + heads == 63_335
    assert sum(each.numel() for each in network.parameters()) == 63_335
    assert FeatureReader(network, game, CPU).width == 3 * 42
