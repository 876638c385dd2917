"""Speed of learning, the replay window and complete runs; comparisons of network variants."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

from zerolab.bench.benchmarks import GAMES, BenchmarkResult, measure_median_rates, measure_rate
from zerolab.bench.selfplay import ContinuousSelfPlay
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.inference import default_device, default_precision, limit_torch_threads
from zerolab.networks.network import Network, folded_copy
from zerolab.networks.objectives import (
    POLICY_HEAD,
    VALUE_HEAD,
    TargetOptions,
    cross_entropy,
    squared_error,
)
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.replay.window import Window
from zerolab.replay.window_rules import (
    IterationsWindow,
    LinearGrowthWindow,
    Merging,
    NewestMerging,
    NoMerging,
)
from zerolab.report.table import percent
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.facts import VECTOR_COLUMN_NAMES, Facts
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator, UniformEvaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer
from zerolab.training.window_facts import states_and_facts

WORKLOADS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("conv512", {"name": "conv", "channels": 512}, 64, 8),
    ("resnet4x32", {"name": "resnet", "blocks": 4, "filters": 32}, 64, 200),
)
"""Title, network settings, batch size, and batches per epoch."""


_TARGETS = TargetOptions(
    temperature_plies=0,
    policy_target="visits",
    late_policy_target="visits",
    value_target_search_weight=0.0,
)


def measure_learning(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure one epoch for every workload and game."""
    for title, settings, size, batches in WORKLOADS:
        for name in GAMES:
            subject = LearningEpochs(name, settings, size, batches)
            rate, limit_rate = measure_median_rates(subject.learn, subject.repeat_one_batch, rounds)
            label = f"learn/{title}/{name}"
            yield BenchmarkResult(
                label, "samples/s", rate, limit_rate, "a bare loop over prepared tensors"
            )


class LearningEpochs:
    """Learning epochs on examples from games played without a network."""

    def __init__(self, name: str, settings: dict[str, Any], size: int, batches: int) -> None:
        torch.set_num_threads(available_cores())
        game = parse_game(name)
        network_settings = NETWORKS[settings["name"]].model_validate(settings)
        self._settings = LearnSettings(epochs=1, batch_size=size, symmetries="random")
        self._window = _window(game, size * batches)
        device = default_device()
        self._learner, self._bare = (
            Learner(build_network(network_settings, game, seed=0), self._settings, _TARGETS, device)
            for _ in range(2)
        )
        batch = next(iter(self._window.batches(np.random.default_rng(0), size, 1, "random")))
        arrays = batch.planes, batch.facts.policies, batch.facts.values
        self._tensors = [torch.from_numpy(array).to(device) for array in arrays]
        self._batches = batches
        self._bfloat16 = default_precision(device) == torch.bfloat16
        self._iteration = 0

    def learn(self) -> float:
        """Learn for one epoch as in a run; return the number of examples."""
        self._iteration += 1
        return float(self._learner.learn(self._window, 0, self._iteration).examples_seen)

    def repeat_one_batch(self) -> float:
        """Take the same number of steps on one prepared batch; return the number of examples."""
        network, optimizer = self._bare.network.train(), self._bare.optimizer
        planes, policies, values = self._tensors
        planes = planes.contiguous(memory_format=torch.channels_last)
        for _ in range(self._batches):
            with torch.autocast(planes.device.type, torch.bfloat16, enabled=self._bfloat16):
                outputs = network(planes)
            policy = cross_entropy(outputs[POLICY_HEAD].float(), policies).mean()
            loss = policy + squared_error(outputs[VALUE_HEAD].float(), values).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        loss.item()
        return float(self._batches * len(values))


def _window(game: Any, samples: int) -> Window:
    """Return a window of `samples` examples from games played by search without a network."""
    window = Window(game, IterationsWindow())
    uniform = UniformEvaluator(rules.action_count(game))
    settings = SelfPlaySettings(episodes=samples // 4)
    played = play_episodes(game, settings, SearchSettings(simulations=2), uniform, 0, 0)
    examples = played.examples.take(slice(samples))
    window.add(*states_and_facts(examples, 1.0, {"policies"}))
    return window


_WINDOW = 2_000_000
_NEW = 300_000
_KNOWN = 0.4
"""Share of positions drawn from a common pool, because openings recur in self-play."""
_DISTINCT_ITERATIONS = 13
"""Number of iterations before positions repeat; by then, nearly all have left the window."""


def measure_replay_window(rounds: int) -> Iterator[BenchmarkResult]:
    """Measure how fast a full window accepts iterations on one core, with and without merging."""
    for name in GAMES[:2]:
        merging, plain = (_FullWindow(name, kind) for kind in (NewestMerging(), NoMerging()))
        rate, limit_rate = measure_median_rates(merging.add, plain.add, rounds)
        yield BenchmarkResult(
            f"replay/merge/{name}", "positions/s", rate, limit_rate,
            "a window of the same size without merging",
            note=merging.note,
        )  # fmt: skip


class _FullWindow:
    """Full replay window to which each call adds one iteration."""

    def __init__(self, name: str, merging: Merging) -> None:
        game = parse_game(name)
        random = np.random.default_rng(0)
        size = LinearGrowthWindow(first=_WINDOW, final=_WINDOW)
        self._window = Window(game, size, merging)
        self._facts = _facts(random, rules.action_count(game))
        words = rules.word_count(game)
        self._iterations = [_states(random, words) for _ in range(_DISTINCT_ITERATIONS)]
        for _ in range(_DISTINCT_ITERATIONS):
            self.add()
        assert len(self._window) == _WINDOW

    def add(self) -> float:
        """Add an iteration; return its number of positions."""
        states = self._iterations[self._window.contents.iteration % _DISTINCT_ITERATIONS]
        self._window.add(states, self._facts)
        return float(_NEW)

    @property
    def note(self) -> str:
        """Memory per position, and the merged share of the latest iteration."""
        contents = self._window.contents
        merged = contents.latest_merged_count / _NEW
        return f"{contents.bytes_per_row} bytes per position, {percent(merged, 0)} merged"


def _states(random: np.random.Generator, words: int) -> NDArray[np.uint64]:
    """Return the states of an iteration: random new ones and recurring ones.

    Recurring states are numbers with a Pareto distribution, so that smaller numbers recur more
    often.
    """
    states = random.integers(1 << 32, 1 << 63, (_NEW, words), np.uint64)
    known = random.random(_NEW) < _KNOWN
    ranks = np.minimum(random.pareto(1.0, _NEW) * 100, 1 << 20)
    states[known] = ranks.astype(np.uint64)[known, None]
    return states


def _facts(random: np.random.Generator, actions: int) -> Facts:
    """Return random facts for policy, value and reply heads."""
    column, empty = random.random(_NEW, np.float32), np.empty((_NEW, 0), np.float16)
    policies = random.random((_NEW, actions), np.float32).astype(np.float16)
    columns: dict[str, Any] = dict.fromkeys(Facts.column_forms(), column)
    columns |= dict.fromkeys(VECTOR_COLUMN_NAMES, empty)
    return Facts(**columns | {"policies": policies, "reply_policies": policies})


def measure_complete_run(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare the time of a complete run with that of its self-play.

    The result includes each stage's share of the time. `rounds` is not used.
    """
    settings = resolve_settings("connect_four:6x7", "mini")
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings.model_dump())
        with run.locked():
            total = 1.0 / measure_rate(lambda: _train(Trainer(run, settings)))
        seconds: dict[str, float] = {}
        for record in read_records(run):
            seconds[record.stage] = seconds.get(record.stage, 0.0) + record.wall_seconds
    shares = {stage: spent / total for stage, spent in seconds.items()}
    name, limit_of = "train/connect_four:6x7/mini", "seconds of its self-play alone"
    yield BenchmarkResult(name, "seconds", total, seconds["selfplay"], limit_of, shares)


def _train(trainer: Trainer) -> float:
    trainer.train()
    return 1.0


_TRUNK = {"blocks": 4, "filters": 32}
_HEADS = {"name": "fully_convolutional", **_TRUNK}
_LIMIT = {"name": "resnet", **_TRUNK}
_SEARCH = SearchSettings(simulations=16, deduplicate=False, cache=0)
_LANES, _PLIES = 512, 2
_BATCH, _BATCHES = 64, 20
_MEASUREMENTS_PER_ROUND = 8
"""Measurements per requested round; each is short, so that noise affects both networks equally."""


def measure_convolutional_heads(rounds: int) -> Iterator[BenchmarkResult]:
    """Compare fully convolutional heads with resnet heads, in self-play and in learning."""
    for name in GAMES:
        players = (_EqualSelfPlay(name, network) for network in (_HEADS, _LIMIT))
        subject, limit = (player.play for player in players)
        rate, limit_rate = measure_median_rates(subject, limit, _MEASUREMENTS_PER_ROUND * rounds)
        label = f"heads/fully_convolutional4x32/{name}"
        yield BenchmarkResult(
            f"{label}/selfplay", "positions/s", rate, limit_rate, "heads of resnet"
        )
        learners = (LearningEpochs(name, network, _BATCH, _BATCHES) for network in (_HEADS, _LIMIT))
        subject, limit = (learner.learn for learner in learners)
        rate, limit_rate = measure_median_rates(subject, limit, _MEASUREMENTS_PER_ROUND * rounds)
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
    """Compare a network's speed on one core in int8 and in the processor's best precision.

    PyTorch quantises weights and activations for x86 processors. The quantisation is calibrated
    on positions from random games.
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
        rate, limit_rate = measure_median_rates(
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
