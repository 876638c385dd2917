"""Helpers for training tests: short runs, injected faults and a small window."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from replay.example_facts import example_facts
from zerolab.replay.window import Window
from zerolab.replay.window_rules import IterationsWindow
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.training.reporting import NullReporter
from zerolab.training.trainer import Trainer


def train(folder, settings, reporter=None, executor=None):
    """Train a new or existing run until it finishes, and return it."""
    if folder.exists():
        run = RunFolder.open(folder)
    else:
        run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings, reporter, executor=executor).train()
    return RunFolder.open(folder)


class KilledError(Exception):
    """An injected fault, after which a run is resumed."""


class Killing(NullReporter):
    """Reporter that raises KilledError in the middle of a stage."""

    def __init__(self, iteration, stage):
        self._moment, self._current = (iteration, stage), None

    def stage_started(self, iteration, title, total, unit):
        self._current = (iteration, title)

    def progress(self, done, note=""):
        if self._current == self._moment:
            raise KilledError


@contextmanager
def killed_before_commit(iteration, stage):
    """Raise KilledError after a stage has saved its files but before they are committed."""
    commit = RunFolder.commit

    def fail(run, progress, metrics):
        if any((line["iteration"], line["stage"]) == (iteration, stage) for line in metrics):
            raise KilledError
        commit(run, progress, metrics)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(RunFolder, "commit", fail)
        yield


def learn_lines(run):
    """Return the metrics of all learning stages."""
    return [line for line in run.metrics() if line["stage"] == "learn"]


def small_window():
    """Return a window of four positions, each with one correct move and a result."""
    position = Position.start("gobang:3x3:3")
    window = Window(position.game, IterationsWindow())
    states, policies = [], []
    for action in (4, 0, 8, 2):
        states.append(position.state)
        policies.append(np.eye(9, dtype=np.float16)[action])
        position = position.play(action)
    window.add(np.array(states), example_facts(4, policies=policies, values=[1, -1, 1, -1]))
    return window
