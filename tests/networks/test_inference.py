"""Inference: agreement of the fast path with the network, and hand-computed features."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from networks.conftest import SMALL
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import (
    FeatureExtractor,
    NetworkEvaluator,
    cuda_graph_batch_size,
    default_device,
    default_precision,
    find_device,
    padded_batch_size,
    use_device,
    use_gpu_of_worker,
)
from zerolab.networks.network import NormedConv, NormedLinear, folded_copy, rectify
from zerolab.networks.objectives import POLICY_HEAD, VALUE_HEAD
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.testing.random_games import ongoing_sample_positions
from zerolab.training.configure import resolve_settings

CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 0.03}
PRECISIONS = list(TOLERANCE)


def direct_outputs(network, game, states):
    """Return priors and values of the float32 network in evaluation mode."""
    with torch.no_grad():
        outputs = network.eval()(torch.from_numpy(compiled_rules.encode_batch(game, states)))
    return torch.softmax(outputs[POLICY_HEAD], dim=1).numpy(), outputs[VALUE_HEAD].numpy()


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_fast_path_agrees_with_the_network(trained, game, states, precision):
    priors, values = NetworkEvaluator(trained, game, CPU, precision).evaluate(states)
    expected_priors, expected_values = direct_outputs(trained, game, states)
    assert priors.dtype == values.dtype == np.float32
    assert priors.shape == (len(states), 7)
    np.testing.assert_allclose(priors, expected_priors, atol=TOLERANCE[precision])
    np.testing.assert_allclose(values, expected_values, atol=TOLERANCE[precision])
    np.testing.assert_allclose(priors.sum(axis=1), 1, rtol=1e-5)
    assert min(np.ptp(values), np.ptp(priors)) > 0.1, "all outputs are equal"


def test_every_bfloat16_number_is_rectified_as_by_torch():
    bits = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    numbers = bits.view(torch.bfloat16)
    numbers = numbers[~numbers.isnan()]
    planes = numbers.reshape(-1, 2, 1, 1).repeat(1, 1, 1, 3)
    planes = planes.contiguous(memory_format=torch.channels_last)
    expected = torch.relu(planes)
    with torch.inference_mode():
        result = rectify(planes)
    assert result is planes and result.dtype == torch.bfloat16
    assert torch.equal(result, expected) and result.isposinf().any() and (result == 0).any()


def test_rectified_numbers_have_gradients_outside_inference():
    numbers = torch.tensor([-2.0, 3.0], dtype=torch.bfloat16, requires_grad=True)
    rectify(numbers * 1).sum().backward()
    assert numbers.grad.tolist() == [0, 1]


def test_owned_network_gives_the_same_bytes(trained, game, states):
    priors, values = NetworkEvaluator(trained, game, CPU).evaluate(states)
    owning = NetworkEvaluator(trained, game, CPU, is_owned=True)
    owned_priors, owned_values = owning.evaluate(states)
    assert (owned_priors.tobytes(), owned_values.tobytes()) == (priors.tobytes(), values.tobytes())


def test_folding_removes_batch_norms_and_keeps_the_original(trained):
    folded = folded_copy(trained)
    norms = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)
    assert not [module for module in folded.modules() if isinstance(module, norms)]
    assert [module for module in trained.modules() if isinstance(module, norms)]
    assert trained.training


def test_folded_weights_agree_with_hand_computed_values():
    conv, linear = NormedConv(1, 1, size=1).eval(), NormedLinear(1, 1).eval()
    for weight, norm in ((conv.conv.weight, conv.norm), (linear.linear.weight, linear.norm)):
        weight.data.fill_(3.0)
        norm.running_mean.fill_(1.0)
        norm.running_var.fill_(4.0 - norm.eps)
        norm.weight.data.fill_(5.0)
        norm.bias.data.fill_(7.0)
    conv.fold_batch_norm()
    linear.fold_batch_norm()
    for layer in (conv.conv, linear.linear):  # 5 (3 x - 1) / 2 + 7
        assert layer.weight.item() == pytest.approx(7.5)
        assert layer.bias.item() == pytest.approx(4.5)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_outputs_do_not_depend_on_the_batch(trained, game, states, precision):
    tolerance = 0 if precision == torch.bfloat16 else 1e-6
    evaluator = NetworkEvaluator(trained, game, CPU, precision)
    priors, values = evaluator.evaluate(states[:100])
    for count in (1, 2, 7, 31, 32, 33, 50, 67, 99):
        fewer_priors, fewer_values = evaluator.evaluate(states[:count])
        assert fewer_priors.shape == (count, 7)
        np.testing.assert_allclose(fewer_priors, priors[:count], rtol=0, atol=tolerance)
        np.testing.assert_allclose(fewer_values, values[:count], rtol=0, atol=tolerance)


def test_padded_batch_sizes_are_few_and_waste_little():
    counts = range(1, 2049)
    sizes = [padded_batch_size(count) for count in counts]
    assert all(count <= size <= count * 17 / 16 for count, size in zip(counts, sizes, strict=True))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 32 + 6 * 16
    assert all(padded_batch_size(size) == size for size in sizes)


def test_evaluator_is_a_snapshot(trained, game, states):
    evaluator = NetworkEvaluator(trained, game, CPU)
    before = evaluator.evaluate(states)
    with torch.no_grad():
        for tensor in trained.state_dict().values():
            tensor.mul_(2)
    after = evaluator.evaluate(states)
    np.testing.assert_array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1], after[1])
    changed = NetworkEvaluator(trained, game, CPU).evaluate(states)
    assert not np.allclose(before[1], changed[1])


def test_outputs_are_not_overwritten_by_later_calls(trained, game, states):
    evaluator = NetworkEvaluator(trained, game, CPU)
    priors, values = evaluator.evaluate(states[:20])
    copies = priors.copy(), values.copy()
    evaluator.evaluate(states[20:40])
    np.testing.assert_array_equal(priors, copies[0])
    np.testing.assert_array_equal(values, copies[1])


@pytest.mark.parametrize(
    ("precision", "tolerance"), [(torch.float32, 1e-6), (torch.bfloat16, 0)], ids=str
)
def test_outputs_do_not_depend_on_threads(trained, game, states, precision, tolerance):
    evaluator = NetworkEvaluator(trained, game, CPU, precision)
    batches = [states[start : start + size] for start in (0, 30, 60) for size in (5, 16, 40)]
    alone = [evaluator.evaluate(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(evaluator.evaluate, batches))
    for (priors, values), (threaded_priors, threaded_values) in zip(alone, together, strict=True):
        np.testing.assert_allclose(priors, threaded_priors, rtol=0, atol=tolerance)
        np.testing.assert_allclose(values, threaded_values, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["othello:4x8", "othello:8x8", "gobang:3x3:3", "connect_four:8x4"])
def test_boards_of_various_shapes_are_evaluated(name):
    game = parse_game(name)
    states = np.array([sample.state for sample in ongoing_sample_positions(game)])
    for settings in SMALL.values():
        network = build_network(settings, game, seed=0)
        priors, values = NetworkEvaluator(network, game, CPU, torch.float32).evaluate(states)
        expected_priors, expected_values = direct_outputs(network, game, states)
        assert priors.shape == (len(states), rules.action_count(game))
        np.testing.assert_allclose(priors, expected_priors, atol=1e-5)
        np.testing.assert_allclose(values, expected_values, atol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_extreme_logits_give_no_nan(game, states, precision):
    network = build_network(SMALL["conv"], game, seed=0)
    with torch.no_grad():
        network.heads[POLICY_HEAD].output.weight.mul_(1e6)
        network.heads[VALUE_HEAD].output.weight.mul_(1e6)
    priors, values = NetworkEvaluator(network, game, CPU, precision).evaluate(states)
    assert np.isfinite(priors).all()
    assert priors.max() == 1.0
    assert np.isfinite(values).all()
    assert np.abs(values).max() == 1.0


@pytest.mark.parametrize(("native", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_bfloat16_is_used_on_processors_with_support(monkeypatch, native, expected):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native)
    assert default_precision(CPU) == expected


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "cuda:0"),
        ("cpu", 2, "cpu"),
        ("cuda", 2, "cuda:0"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_devices_by_name(with_gpus, name, gpus, expected):
    with_gpus(gpus)
    assert find_device(name) == torch.device(expected)
    with use_device("cpu"), use_device(name):
        assert default_device() == torch.device(expected)
    assert default_device() == find_device("auto")


@pytest.mark.parametrize(
    ("name", "gpus", "message"),
    [
        ("cuda", 0, '^device = "cuda": PyTorch finds no such device here; expected cpu$'),
        ("cuda:2", 2, '^device = "cuda:2": .* expected cpu or cuda:0 or cuda:1$'),
        ("mps", 2, '^device = "mps": .* expected cpu or cuda:0 or cuda:1$'),
        ("gpu", 2, '^device: "gpu" is unknown: expected auto, cpu, cuda, cuda:N or mps$'),
        *((name, 2, "is unknown") for name in ("", "cuda:-1", "cuda:01", "cuda:\u0663")),
    ],
)
def test_missing_devices_are_named(with_gpus, name, gpus, message):
    with_gpus(gpus)
    with pytest.raises(UserError, match=message):
        find_device(name)


def test_environment_variable_chooses_the_device(with_gpus, monkeypatch):
    with_gpus(2)
    monkeypatch.setenv("ZEROLAB_DEVICE", "cuda:1")
    assert default_device() == torch.device("cuda:1")
    with use_device("cpu"):
        assert default_device() == CPU
    monkeypatch.setenv("ZEROLAB_DEVICE", "cuda:2")
    with pytest.raises(UserError, match=r'^ZEROLAB_DEVICE = "cuda:2"'):
        default_device()


def test_workers_share_the_gpus(with_gpus, monkeypatch):
    def device_of_worker(number, chosen):
        monkeypatch.setenv("ZEROLAB_DEVICE", chosen)
        use_gpu_of_worker(number)
        return str(default_device())

    with_gpus(2)
    for chosen in ("", "auto"):
        devices = [device_of_worker(number, chosen) for number in range(3)]
        assert devices == ["cuda:0", "cuda:1", "cuda:0"]
    monkeypatch.setenv("ZEROLAB_DEVICE", "cpu")
    use_gpu_of_worker(0)
    assert default_device() == CPU


@pytest.fixture
def with_gpus(monkeypatch):
    """A function that makes PyTorch report a number of GPUs."""
    monkeypatch.setenv("ZEROLAB_DEVICE", "")

    def set_count(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    return set_count


def test_precision_is_default_on_another_type_of_device(trained, game):
    state = NetworkEvaluator(trained, game, CPU, torch.float32).__getstate__()
    for device_type, expected in (("cpu", torch.float32), ("cuda", default_precision(CPU))):
        restored = NetworkEvaluator.__new__(NetworkEvaluator)
        restored.__setstate__({**state, "device_type": device_type})
        assert restored.precision == expected


def test_new_evaluator_waits_only_for_its_own_stream(trained, game, monkeypatch):
    """Waiting for the device would invalidate a CUDA graph that another thread is recording."""
    waits = []
    stream = SimpleNamespace(synchronize=lambda: waits.append("stream"))
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, *arguments, **options: module)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waits.append("device"))
    NetworkEvaluator(trained, game, torch.device("cuda"), torch.bfloat16)
    assert waits == ["stream"]


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@needs_gpu
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_gpu_agrees_with_cpu(trained, game, states, precision):
    on_gpu = NetworkEvaluator(trained, game, torch.device("cuda"), precision)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(on_gpu.evaluate, [states] * 4))
    tolerance = max(1e-3, TOLERANCE[precision])
    expected_priors, expected_values = direct_outputs(trained, game, states)
    for priors, values in outputs:
        np.testing.assert_allclose(priors, expected_priors, atol=tolerance)
        np.testing.assert_allclose(values, expected_values, atol=tolerance)


@needs_gpu
def test_gpu_graphs_repeat_the_first_outputs(trained, game, states):
    on_gpu = NetworkEvaluator(trained, game, torch.device("cuda"))
    parts = [states[:3], states[3:6], states[3:20], states[5:50], states[6:51]]  # equal sizes too
    first = [on_gpu.evaluate(part) for part in parts]

    def evaluate_again(_):
        return [on_gpu.evaluate(part) for part in (*parts, *parts)]

    with ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(evaluate_again, range(4)):
            for (priors, values), (first_priors, first_values) in zip(
                outputs, [*first, *first], strict=True
            ):
                np.testing.assert_array_equal(priors, first_priors)
                np.testing.assert_array_equal(values, first_values)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 8), (8, 8), (9, 16), (33, 48), (64, 64), (65, 96), (256, 256), (257, 288), (1000, 1024)],
)
def test_batch_sizes_on_a_gpu(count, expected):
    assert cuda_graph_batch_size(count) == expected


def head_activations(network, planes):
    """Return relu(norm(conv(trunk))) of all heads, flattened to [N, features]."""
    network.eval()
    trunk = network.trunk(network.with_extra_planes(planes))
    parts = []
    for head in network.heads.values():
        convolved = torch.nn.functional.conv2d(trunk, head.reduce.conv.weight, padding="same")
        norm = head.reduce.norm
        statistics = [
            array.reshape(1, -1, 1, 1)
            for array in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        ]
        mean, variance, weight, bias = statistics
        normed = (convolved - mean) / torch.sqrt(variance + norm.eps) * weight + bias
        parts.append(normed.clamp(min=0).reshape(len(planes), -1))
    return torch.cat(parts, dim=1)


@pytest.mark.parametrize("trained", ["gated"], indirect=True)
def test_features_are_head_convolution_activations(trained, game, states):
    extractor = FeatureExtractor(trained, game, CPU)
    assert extractor.feature_count == 2 * 8 * 42
    features = extractor.extract(states)
    assert features.dtype == np.float32
    with torch.no_grad():
        expected = head_activations(
            trained, torch.from_numpy(compiled_rules.encode_batch(game, states))
        ).numpy()
    np.testing.assert_allclose(features, expected, atol=1e-5)
    assert (features.std(axis=0) > 0.01).mean() > 0.3, "most features are constant"
    repeated = extractor.extract(np.concatenate([states[3:5], states[:4]]))
    np.testing.assert_allclose(repeated, features[[3, 4, 0, 1, 2, 3]], atol=1e-5)
    assert (repeated[0] == repeated[5]).all()
    assert not extractor.extract(states[:0]).size


def test_network_without_head_convolutions_is_refused(game):
    network = build_network(NETWORKS["conv"](channels=8, hidden=(8, 8)), game, seed=0)
    with pytest.raises(UserError, match="no head of the network has a convolution"):
        FeatureExtractor(network, game, CPU)


def test_clausen_network_has_the_published_size(game):
    """[Clausen2021] reports about 70,000 parameters; the terms below count them exactly."""
    network = resolve_settings(None, "connect4-small").network.new_network(game)
    stem = 9 * 128 + 2 * 128 + 128 * 32 + 32
    block = 2 * (9 * 32 * 32 + 2 * 32) + 32 * 2 + 2 * 32
    heads = 3 * (9 * 32 + 2) + 2 * (42 * 7 + 7) + (42 * 3 + 3)
    assert stem + 3 * block + heads == 63_201
    assert sum(parameter.numel() for parameter in network.parameters()) == 63_201
    assert FeatureExtractor(network, game, CPU).feature_count == 3 * 42


def test_pickled_evaluator_evaluates_equally_and_keeps_its_digest():
    game = parse_game("gobang:3x3:3")
    one, other = (
        NetworkEvaluator(build_network(NETWORKS["conv"](channels=8), game, seed), game)
        for seed in range(2)
    )
    assert one.digest != other.digest
    copied = pickle.loads(pickle.dumps(one))
    assert copied.digest == one.digest
    states = Position.start("gobang:3x3:3").play(4).state[None]
    for expected, actual in zip(one.evaluate(states), copied.evaluate(states), strict=True):
        np.testing.assert_array_equal(actual, expected)
