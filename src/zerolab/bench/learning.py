"""Speed of learning, the replay window, and complete training runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zerolab.bench.measurement import GAMES, Measurement, in_turns, timed
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.head import POLICY, VALUE, TargetOptions
from zerolab.networks.inference import best_device, best_precision
from zerolab.networks.losses import cross_entropy, squared_error
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.replay.window import Window
from zerolab.replay.window_rules import Iterations, Merging, Newest, NoMerging, Slow
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.facts import VECTOR_COLUMNS, Facts
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import SearchSettings
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.facts import window_rows
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer

WORKLOADS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("conv512", {"name": "conv", "channels": 512}, 64, 8),
    ("resnet4x32", {"name": "resnet", "blocks": 4, "filters": 32}, 64, 200),
)
"""Title, network, batch size, and batches per epoch."""


_TARGETS = TargetOptions(
    temperature_plies=0,
    policy_target="visits",
    late_policy_target="visits",
    value_target_search_weight=0.0,
)


def measure_learning(rounds: int) -> Iterator[Measurement]:
    """Measure one epoch for every workload and game."""
    for title, settings, size, batches in WORKLOADS:
        for name in GAMES:
            subject = Learning(name, settings, size, batches)
            rate, best = in_turns(subject.learn, subject.bare_loop, rounds)
            label = f"learn/{title}/{name}"
            yield Measurement(label, "samples/s", rate, best, "a bare loop on ready tensors")


class Learning:
    """Repeated learning epochs on examples from games played without a network."""

    def __init__(self, name: str, settings: dict[str, Any], size: int, batches: int) -> None:
        torch.set_num_threads(available_cores())
        game = parse_game(name)
        network_settings = NETWORKS[settings["name"]].model_validate(settings)
        self._settings = LearnSettings(epochs=1, batch_size=size, symmetries="random")
        self._window = _window(game, size * batches)
        device = best_device()
        self._learner, self._bare = (
            Learner(build_network(network_settings, game, seed=0), self._settings, _TARGETS, device)
            for _ in range(2)
        )
        batch = next(iter(self._window.batches(np.random.default_rng(0), size, 1, "random")))
        arrays = batch.planes, batch.facts.policies, batch.facts.values
        self._tensors = [torch.from_numpy(array).to(device) for array in arrays]
        self._batches = batches
        self._bfloat16 = best_precision(device) == torch.bfloat16
        self._iteration = 0

    def learn(self) -> float:
        """Learn for one epoch as in a run; return the number of examples."""
        self._iteration += 1
        return float(self._learner.learn(self._window, 0, self._iteration).examples_seen)

    def bare_loop(self) -> float:
        """Take the same number of steps on one prepared batch; return the number of examples."""
        network, optimizer = self._bare.network.train(), self._bare.optimizer
        planes, policies, values = self._tensors
        planes = planes.contiguous(memory_format=torch.channels_last)
        for _ in range(self._batches):
            with torch.autocast(planes.device.type, torch.bfloat16, enabled=self._bfloat16):
                outputs = network(planes)
            policy = cross_entropy(outputs[POLICY].float(), policies).mean()
            loss = policy + squared_error(outputs[VALUE].float(), values).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        loss.item()
        return float(self._batches * len(values))


def _window(game: Any, samples: int) -> Window:
    """Return a window of `samples` examples from search games played without a network."""
    window = Window(game, Iterations())
    uniform = UniformEvaluator(rules.actions(game))
    settings = SelfPlaySettings(episodes=samples // 4)
    played = play_episodes(game, settings, SearchSettings(simulations=2), uniform, 0, 0)
    examples = played.examples.rows(slice(samples))
    window.add(*window_rows(examples, 1.0, {"policies"}))
    return window


_WINDOW = 2_000_000
_NEW = 300_000
_KNOWN = 0.4
"""Share of positions drawn from a common pool, in the way openings recur."""
_TURNS = 13
"""Iterations until positions repeat, by which time nearly all have left the window."""


def measure_replay(rounds: int) -> Iterator[Measurement]:
    """Measure adding an iteration to a full window, with and without merging, on one core."""
    for name in GAMES[:2]:
        merging, plain = (_Filling(name, kind) for kind in (Newest(), NoMerging()))
        rate, best = in_turns(merging.add, plain.add, rounds)
        yield Measurement(
            f"replay/merge/{name}", "positions/s", rate, best,
            "a window of as many positions without merging",
            note=merging.note,
        )  # fmt: skip


class _Filling:
    """A full window that receives one iteration per call."""

    def __init__(self, name: str, merging: Merging) -> None:
        game = parse_game(name)
        random = np.random.default_rng(0)
        size = Slow(first=_WINDOW, final=_WINDOW)
        self._window = Window(game, size, merging)
        self._facts = _facts(random, rules.actions(game))
        self._iterations = [_states(random, rules.words(game)) for _ in range(_TURNS)]
        for _ in range(_TURNS):
            self.add()
        assert len(self._window) == _WINDOW

    def add(self) -> float:
        """Add an iteration; return the number of its positions."""
        states = self._iterations[self._window.contents.iteration % _TURNS]
        self._window.add(states, self._facts)
        return float(_NEW)

    @property
    def note(self) -> str:
        """Memory per position and the merged share of the latest iteration."""
        contents = self._window.contents
        return f"{contents.bytes_each} bytes per position, {contents.merged / _NEW:.0%} merged"


def _states(random: np.random.Generator, words: int) -> NDArray[np.uint64]:
    """Return one iteration's states: random new ones and recurring ones.

    Recurring states follow a Pareto distribution in which smaller numbers are more frequent.
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
    columns: dict[str, Any] = dict.fromkeys(Facts.forms(), column)
    columns |= dict.fromkeys(VECTOR_COLUMNS, empty)
    return Facts(**columns | {"policies": policies, "replies": policies})


def measure_training(rounds: int) -> Iterator[Measurement]:
    """Measure a complete run against its self-play time, with the share of each stage."""
    settings = resolve_settings("connect_four:6x7", "mini")
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings.model_dump())
        with run.locked():
            total = 1.0 / timed(lambda: _train(Trainer(run, settings)))
        seconds: dict[str, float] = {}
        for record in read_records(run):
            seconds[record.stage] = seconds.get(record.stage, 0.0) + record.wall_seconds
    shares = {stage: spent / total for stage, spent in seconds.items()}
    name, limit_of = "train/connect_four:6x7/mini", "seconds of its self-play alone"
    yield Measurement(name, "seconds", total, seconds["selfplay"], limit_of, shares)


def _train(trainer: Trainer) -> float:
    trainer.train()
    return 1.0
