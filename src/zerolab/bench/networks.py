"""Speed of fully convolutional heads and of int8 quantisation."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from zerolab.bench.learning import LearningEpochs
from zerolab.bench.selfplay import ContinuousSelfPlay
from zerolab.bench.speed_benchmark import GAMES, BenchmarkResult, alternating_rates
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import default_precision, limit_torch_threads
from zerolab.networks.network import Network, folded_copy
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings

_TRUNK = {"blocks": 4, "filters": 32}
_HEADS = {"name": "fully_convolutional", **_TRUNK}
_LIMIT = {"name": "resnet", **_TRUNK}
_SEARCH = SearchSettings(simulations=16, deduplicate=False, cache=0)
_LANES, _PLIES = 512, 2
_BATCH, _BATCHES = 64, 20
_MEASUREMENTS_PER_ROUND = 8
"""Measurements per requested round. Short ones let noise affect both networks equally."""


def measure_convolutional_heads(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure self-play and learning with fully convolutional heads against those of resnet."""
    for name in GAMES:
        players = (_EqualSelfPlay(name, network) for network in (_HEADS, _LIMIT))
        subject, limit = (player.play for player in players)
        rate, limit_rate = alternating_rates(subject, limit, _MEASUREMENTS_PER_ROUND * rounds)
        label = f"heads/fully_convolutional4x32/{name}"
        yield BenchmarkResult(
            f"{label}/selfplay", "positions/s", rate, limit_rate, "heads of resnet"
        )
        learners = (LearningEpochs(name, network, _BATCH, _BATCHES) for network in (_HEADS, _LIMIT))
        subject, limit = (learner.learn for learner in learners)
        rate, limit_rate = alternating_rates(subject, limit, _MEASUREMENTS_PER_ROUND * rounds)
        yield BenchmarkResult(f"{label}/learn", "samples/s", rate, limit_rate, "heads of resnet")


class _EqualSelfPlay(ContinuousSelfPlay):
    """Self-play whose games, and therefore evaluated positions, do not depend on the network."""

    def __init__(self, name: str, network: dict[str, Any]) -> None:
        super().__init__(name, network, _PLIES, _SEARCH, lanes=_LANES)
        self._evaluator = _IgnoredNetwork(self._evaluator, rules.action_count(self._game))


class _IgnoredNetwork:
    """Evaluator that runs a network but returns equal priors and values of 0."""

    def __init__(self, network: Evaluator, actions: int) -> None:
        self._network = network
        self._uniform = UniformEvaluator(actions)

    def evaluate(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Evaluate the states; return equal priors and values of 0."""
        self._network.evaluate(states)
        return self._uniform.evaluate(states)


_INT8_GAME = GAMES[0]
_POSITIONS, _CALIBRATION, _INT8_BATCH = 4096, 2048, 256


def measure_int8(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure a residual network on one core in int8 and in the processor's best precision.

    PyTorch quantises weights and activations for x86 processors, calibrated on positions from
    random games.
    """
    game = parse_game(_INT8_GAME)
    settings = NETWORKS["resnet"].model_validate(_TRUNK)
    network = build_network(settings, game, seed=0).eval()
    planes = _planes_of_random_games(game)
    plain = _PolicyAndValue(folded_copy(network)).eval()
    with warnings.catch_warnings(), limit_torch_threads(1):
        warnings.simplefilter("ignore")  # PyTorch warns that this quantisation API is deprecated
        quantised = _quantised(plain, planes[:_CALIBRATION])
        tested = planes[_CALIBRATION:]
        precision = default_precision(torch.device("cpu"))
        best = copy.deepcopy(plain).to(precision)
        rate, limit_rate = alternating_rates(
            lambda: _run(quantised, tested), lambda: _run(best, tested.to(precision)), rounds
        )
        change = _difference(plain, quantised, tested)
    yield BenchmarkResult(
        f"int8/resnet4x32/{_INT8_GAME}", "positions/s", rate, limit_rate,
        f"{str(precision).removeprefix('torch.')}", note=f"priors move by {change:.4f} on average",
    )  # fmt: skip


class _PolicyAndValue(nn.Module):
    """Network that returns policy and value as plain tensors, which PyTorch can trace."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.trunk = network.trunk
        self.policy = network.heads["policy"]
        self.value = network.heads["value"]

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits [N, actions] and values [N]."""
        features = self.trunk(planes)
        return self.policy(features), self.value(features)


def _planes_of_random_games(game: Game) -> Tensor:
    """Return network inputs for positions from random games, float32[N, planes, rows, cols]."""
    uniform = UniformEvaluator(rules.action_count(game))
    search = SearchSettings(simulations=1)
    played = play_episodes(game, SelfPlaySettings(episodes=512), search, uniform, 0, 0)
    states = np.resize(played.examples.states, (_CALIBRATION + _POSITIONS, rules.word_count(game)))
    planes = torch.from_numpy(compiled_rules.encode_batch(game, states))
    return planes.contiguous(memory_format=torch.channels_last)


def _quantised(model: nn.Module, planes: Tensor) -> nn.Module:
    """Return the model with int8 weights and activations wherever PyTorch has an int8 kernel."""
    torch.backends.quantized.engine = "x86"
    prepared = prepare_fx(model, get_default_qconfig_mapping("x86"), (planes[:1],))
    with torch.inference_mode():
        prepared(planes)
    converted: nn.Module = convert_fx(prepared)
    return converted


def _run(model: nn.Module, planes: Tensor) -> float:
    """Evaluate all positions in batches; return their number."""
    with torch.inference_mode():
        for first in range(0, len(planes), _INT8_BATCH):
            model(planes[first : first + _INT8_BATCH])
    return float(len(planes))


def _difference(model: nn.Module, other: nn.Module, planes: Tensor) -> float:
    """Return the mean absolute difference between the priors of two models."""
    with torch.inference_mode():
        one, two = (each(planes)[0].float().softmax(dim=1) for each in (model, other))
    return float((one - two).abs().mean())
