"""What tests of training share: runs that are begun or resumed, and a window of four positions."""

from __future__ import annotations

import numpy as np

from replay.made import made_facts
from zerolab.replay.window import Window
from zerolab.replay.window_rules import Iterations
from zerolab.rules.position import Position
from zerolab.store.run_folder import RunFolder
from zerolab.training.trainer import Trainer


def train(folder, settings, reporter=None):
    """Train a run to its end, resumed where the folder is there, and return it as it is then."""
    if folder.exists():
        run = RunFolder.open(folder)
    else:
        run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings, reporter).train()
    return RunFolder.open(folder)


def made_window():
    """Return four positions, each with one right move and a result."""
    position = Position.start("gobang:3x3:3")
    window = Window(position.game, Iterations())
    states, policies = [], []
    for action in (4, 0, 8, 2):
        states.append(position.state)
        policies.append(np.eye(9, dtype=np.float16)[action])
        position = position.play(action)
    window.add(np.array(states), made_facts(4, policies=policies, values=[1, -1, 1, -1]))
    return window
