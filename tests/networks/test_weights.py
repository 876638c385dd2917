from __future__ import annotations

import numpy as np
import pytest
import torch

from networks.conftest import SMALL
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network, require_matching_weights
from zerolab.networks.network import set_weights, weights_to_arrays
from zerolab.networks.objectives import POLICY_HEAD
from zerolab.rules.catalogue import parse_game


def test_loaded_weights_reproduce_the_network(trained, game):
    arrays = weights_to_arrays(trained)
    for settings in SMALL.values():
        other = build_network(settings, game, seed=9)
        if other.state_dict().keys() == trained.state_dict().keys():
            set_weights(other, arrays)
            planes = torch.randn(4, 1, 6, 7)
            assert torch.equal(
                other.eval()(planes)[POLICY_HEAD], trained.eval()(planes)[POLICY_HEAD]
            )
            return
    pytest.fail("no network of this kind")


def test_arrays_are_copies(trained):
    arrays = weights_to_arrays(trained)
    copies = {name: array.copy() for name, array in arrays.items()}
    with torch.no_grad():
        for tensor in trained.state_dict().values():
            tensor.add_(1)
    assert all(np.array_equal(arrays[name], copies[name]) for name in copies)
    set_weights(trained, arrays)
    for array in arrays.values():
        array[...] = 0
    assert all(
        np.array_equal(array, copies[name]) for name, array in weights_to_arrays(trained).items()
    )


def test_read_only_arrays_load(trained):
    arrays = weights_to_arrays(trained)
    for array in arrays.values():
        array.flags.writeable = False
    set_weights(trained, arrays)
    assert trained.state_dict().keys() == arrays.keys()


BIAS = "heads.policy.output.bias"


def remove_bias(arrays):
    del arrays[BIAS]


def add_array(arrays):
    arrays["heads.reply.bias"] = np.zeros(3, np.float32)


def change_shape(arrays):
    arrays[BIAS] = np.zeros(8, np.float32)


def change_dtype(arrays):
    arrays[BIAS] = arrays[BIAS].astype(np.float64)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_bias, f"{BIAS} is missing"),
        (add_array, "heads.reply.bias is unexpected"),
        (change_shape, f"{BIAS} is float32[8], not float32[7]"),
        (change_dtype, f"{BIAS} is float64[7], not float32[7]"),
    ],
)
def test_mismatched_weights_are_refused_without_partial_loading(game, damage, message):
    network = build_network(SMALL["conv"], game, seed=0)
    before = weights_to_arrays(network)
    arrays = {name: array + 1 for name, array in before.items()}
    arrays = {name: array.astype(before[name].dtype) for name, array in arrays.items()}
    damage(arrays)
    with pytest.raises(UserError) as caught:
        set_weights(network, arrays)
    assert message in str(caught.value)
    after = weights_to_arrays(network)
    assert all(np.array_equal(after[name], before[name]) for name in before)


@pytest.mark.parametrize("name", SMALL)
def test_weights_are_checked_against_settings(name, game):
    weights = weights_to_arrays(build_network(SMALL[name], game, seed=0))
    require_matching_weights(SMALL[name], game, weights)
    with pytest.raises(UserError, match="more is unexpected"):
        require_matching_weights(SMALL[name], game, {**weights, "more": np.zeros(3)})
    first, array = next(iter(weights.items()))
    with pytest.raises(UserError, match=f"{first} is float64"):
        require_matching_weights(SMALL[name], game, {**weights, first: array.astype(np.float64)})
    with pytest.raises(UserError, match="these weights belong to a different network"):
        require_matching_weights(SMALL[name], parse_game("othello:6x6"), weights)


def test_checking_weights_allocates_no_network(game):
    """256 blocks of 4,096 filters have 77 billion weights."""
    huge = NETWORKS["resnet"](blocks=256, filters=4096)
    with pytest.raises(UserError, match="these weights belong to a different network"):
        require_matching_weights(huge, game, {})
