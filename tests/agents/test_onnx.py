"""ONNX export: agreement of models with their networks, and metadata."""

from __future__ import annotations

import json
import sys
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from zerolab.agents import exporting
from zerolab.core.errors import MissingExtraError, UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.testing.random_games import ongoing_sample_positions


def optional_package(package):
    """Return an optional package, imported only on use because imports take seconds."""
    return pytest.importorskip(package, reason="the onnx extra is not installed")


@pytest.fixture(scope="module", autouse=True)
def exporter():
    optional_package("onnxscript")


EVERY_HEAD = ("policy", "outcome", "reply", "action_values", "plies_left", "value")
SMALL = {"blocks": 1, "filters": 16, "hidden": 16}
CASES = {
    "conv": ("hex:5x5", {"name": "conv", "channels": 8, "hidden": (32, 16)}),
    "gated, every head": (
        "othello:6x6",
        {
            "name": "resnet",
            **SMALL,
            "squeeze_excite": 4,
            "stem_filters": 8,
            "planes": ("ones", "landing", "row_parity"),
            "heads": EVERY_HEAD,
        },
    ),
    "cells": (
        "othello:6x6",
        {"name": "fully_convolutional", **SMALL, "heads": ("policy", "action_values", "value")},
    ),
    "columns": ("connect_four:5x4", {"name": "fully_convolutional", **SMALL}),
}


def planes_of(game):
    states = np.unique([sample.state for sample in ongoing_sample_positions(game)], axis=0)
    return compiled_rules.encode_batch(game, states)


def network_of(case):
    """Return the game and a network with non-trivial batch norm statistics."""
    name, settings = CASES[case]
    game = parse_game(name)
    network = build_network(NETWORKS[settings["name"]].model_validate(settings), game, seed=1)
    planes = torch.from_numpy(planes_of(game))
    network.train()
    torch.manual_seed(0)
    for _ in range(3):
        network(planes)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1, 0.2, generator=torch.Generator().manual_seed(0))
            nn.init.normal_(module.bias, 0, 0.2, generator=torch.Generator().manual_seed(1))
    return game, network.eval()


def export(case):
    torch.set_num_threads(1)
    game, network = network_of(case)
    model_metadata = {"game": CASES[case][0], "actions": ["ä", "b"]}
    return game, network, exporting.encode_onnx_model(network, planes_of(game), model_metadata)


cached_export = cache(export)


@pytest.fixture(params=CASES)
def exported(request):
    return cached_export(request.param)


def test_outputs_agree_with_the_network_for_all_batch_sizes(exported):
    game, network, content = exported
    planes = planes_of(game)
    session = optional_package("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    for count in (1, 2, 31, len(planes)):
        with torch.inference_mode():
            expected = network(torch.from_numpy(planes[:count]))
        outputs = session.run(None, {"planes": planes[:count]})
        assert len(outputs) == len(expected)
        for output, expected_output in zip(outputs, expected.values(), strict=True):
            assert output.shape == tuple(expected_output.shape)
            np.testing.assert_allclose(output, expected_output.numpy(), rtol=1e-5, atol=1e-5)


def test_inputs_and_outputs_have_names_and_dynamic_batches(exported):
    game, network, content = exported
    session = optional_package("onnxruntime").InferenceSession(
        content, providers=["CPUExecutionProvider"]
    )
    (model_input,) = session.get_inputs()
    assert (model_input.name, model_input.type) == ("planes", "tensor(float)")
    assert model_input.shape == ["batch", *planes_of(game).shape[1:]]
    assert [output.name for output in session.get_outputs()] == list(network.head_settings)
    assert {output.shape[0] for output in session.get_outputs()} == {"batch"}


def test_models_are_valid_and_contain_no_source_information(exported):
    _, _, content = exported
    model = optional_package("onnx").load_model_from_string(content)
    optional_package("onnx").checker.check_model(model, full_check=True)
    model_metadata = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert model_metadata["actions"] == ["ä", "b"]
    assert b".py" not in content
    assert b"stack_trace" not in content


def test_equal_networks_export_equal_models():
    assert cached_export("conv")[2] == export("conv")[2]


def test_comparison_detects_a_changed_weight(exported):
    game, network, content = exported
    planes = planes_of(game)
    agreement = exporting.compare_onnx_model(content, network, planes)
    assert agreement.position_count == len(planes)
    assert set(agreement.max_differences) == set(network.head_settings)
    assert 0 < max(agreement.max_differences.values()) < 1e-5
    weight = next(iter(network.parameters()))
    with torch.no_grad():
        weight[0] += 1
    try:
        with pytest.raises(UserError, match=r"differs from the network's by .*: expected at most"):
            exporting.compare_onnx_model(content, network, planes)
    finally:
        with torch.no_grad():
            weight[0] -= 1


def test_comparison_detects_nan_outputs():
    game, network, content = cached_export("conv")
    model = optional_package("onnx").load_model_from_string(content)
    (bias,) = (
        tensor for tensor in model.graph.initializer if tensor.name.endswith("policy.output.bias")
    )
    values = optional_package("onnx").numpy_helper.to_array(bias).copy()
    values[0] = np.nan
    bias.CopyFrom(optional_package("onnx").numpy_helper.from_array(values, bias.name))
    with pytest.raises(UserError, match="policy differs from the network's by inf"):
        exporting.compare_onnx_model(model.SerializeToString(), network, planes_of(game))


def test_missing_extra_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError) as error:
        exporting.require_onnx_packages()
    assert "onnxscript" in str(error.value)
    assert 'the "onnx" extra' in str(error.value)
    assert "\n" not in str(error.value)


def test_unsupported_layer_is_reported():
    class Odd(nn.Module):
        def forward(self, planes):
            return torch.from_numpy(np.sort(planes.detach().numpy()))

    game, network = network_of("conv")
    network.trunk = nn.Sequential(Odd(), network.trunk)
    with pytest.raises(UserError) as error:
        exporting.encode_onnx_model(network, planes_of(game), {})
    assert len(str(error.value).splitlines()) == 1
    assert "the network cannot be exported" in str(error.value)
