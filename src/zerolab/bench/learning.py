"""Learning, compared with a bare loop of forward, backward and step on ready tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import torch

from zerolab.bench.measure import GAMES, Measurement, in_turns
from zerolab.core.threads import available_cores
from zerolab.networks.catalogue import NETWORKS, build_network
from zerolab.networks.heads.interface import POLICY, VALUE, TargetOptions
from zerolab.networks.inference import best_device, best_precision
from zerolab.networks.losses import cross_entropy, squared_error
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.replay.window import Window
from zerolab.replay.windows.iterations import Iterations
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.interface import UniformEvaluator
from zerolab.search.settings import SearchSettings
from zerolab.store.examples import Examples
from zerolab.training.facts import window_rows
from zerolab.training.learner import Learner
from zerolab.training.settings import LearnSettings

WORKLOADS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("conv512", {"name": "conv", "channels": 512}, 64, 8),
    ("resnet4x32", {"name": "resnet", "blocks": 4, "filters": 32}, 64, 200),
)
"""Title, network, batch size, and batches per epoch."""


_TARGETS = TargetOptions(sampled_plies=0, early="visits", late="visits", root_value_weight=0.0)


def measure_learning(rounds: int) -> Iterator[Measurement]:
    """Measure an epoch of every workload and game."""
    for title, settings, size, batches in WORKLOADS:
        for name in GAMES:
            subject = Learning(name, settings, size, batches)
            rate, best = in_turns(subject.learn, subject.bare_loop, rounds)
            label = f"learn/{title}/{name}"
            yield Measurement(label, "samples/s", rate, best, "a bare loop on ready tensors")


class Learning:
    """One epoch of learning after another, on examples of games played without a network."""

    def __init__(self, name: str, settings: dict[str, Any], size: int, batches: int) -> None:
        torch.set_num_threads(available_cores())
        game = parse_game(name)
        chosen = NETWORKS[settings["name"]].model_validate(settings)
        self._settings = LearnSettings(epochs=1, batch_size=size, symmetries="random")
        self._window = _window(game, size * batches)
        device = best_device()
        self._learner, self._bare = (
            Learner(build_network(chosen, game, seed=0), self._settings, _TARGETS, device)
            for _ in range(2)
        )
        batch = next(iter(self._window.batches(np.random.default_rng(0), size, 1, "random")))
        arrays = batch.planes, batch.facts.policies, batch.facts.values
        self._ready = [torch.from_numpy(array).to(device) for array in arrays]
        self._batches = batches
        self._bfloat16 = best_precision(device) == torch.bfloat16
        self._iteration = 0

    def learn(self) -> float:
        """Learn for an epoch as a run does; return the number of samples."""
        self._iteration += 1
        return float(self._learner.learn(self._window, 0, self._iteration).samples)

    def bare_loop(self) -> float:
        """Take as many steps on one ready batch; return the number of samples."""
        network, optimizer = self._bare.network.train(), self._bare.optimizer
        planes, policies, values = self._ready
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
    """Return a window of `samples` examples from games of a search without a network."""
    window = Window(game, Iterations())
    uniform = UniformEvaluator(rules.actions(game))
    settings = SelfPlaySettings(episodes=samples // 4)
    played = play_episodes(game, settings, SearchSettings(simulations=2), uniform, 0, 0)
    examples = Examples(*(column[:samples] for column in cast(Any, played.examples)))
    window.add(*window_rows(examples, 1.0, {"policies"}))
    return window
