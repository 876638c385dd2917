"""The learner, on the traps of training loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_training import made_window

from replay.made import VISITS, made_facts
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import HEADS, build_network
from zerolab.replay.window import Window
from zerolab.replay.window_rules import Iterations
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.training.configure import resolve_settings
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner


def made_learner(heads=("policy", "value"), changes=(), **settings):
    game = parse_game("gobang:3x3:3")
    changes = [f"network.heads={list(heads)}", "learn.symmetries=none", *changes]
    network = resolve_settings(None, "smoke", changes).network
    chosen = LearnSettings(batch_size=4, symmetries="none", **settings)
    return Learner(build_network(network, game, 0), chosen, VISITS, torch.device("cpu"))


def test_learning_changes_weights_and_lowers_every_loss():
    learner = made_learner(epochs=60)
    before = learner.weight_arrays()
    first = made_learner(epochs=1).learn(made_window(), 0, 1).losses
    last = learner.learn(made_window(), 0, 1)
    assert last.examples_seen == 60 * 4
    for name in ("policy", "value", "sum", "product"):
        assert last.losses[name] < 0.6 * first[name], name
    assert last.losses["sum"] == pytest.approx(
        last.losses["policy"] + last.losses["value"], rel=1e-4
    )
    after = learner.weight_arrays()
    assert all((before[name] != after[name]).any() for name in before if name.endswith("weight"))


def test_every_head_learns():
    """Also where half of its targets are masked."""
    position = Position.start("gobang:3x3:3")
    states, right = [], np.eye(9)[[4, 0, 8, 2]]
    for action in (4, 0, 8, 2):
        states.append(position.state)
        position = position.play(action)
    unknown = np.full((2, 9), np.nan)
    facts = made_facts(
        4, policies=right, values=[1, 0, 1, 0], draws=[0, 1, 0, 1], plies_left=[4, 3, 2, 1],
        replies=np.concatenate([right[1:3], unknown]),
        action_values=np.concatenate([np.where(right[:2] == 1, 1, np.nan), unknown]),
        features=[[1, 0, 2], [0, 2, 1], [2, 1, 0], [np.nan] * 3],
    )  # fmt: skip
    window = Window(position.game, Iterations())
    window.add(np.array(states), facts)
    features = ("network.heads.features.width=1",)
    first = made_learner(HEADS, features, epochs=1).learn(window, 0, 1).losses
    last = made_learner(HEADS, features, epochs=60).learn(window, 0, 1).losses
    assert list(first) == [*HEADS, "sum", "product", "total"]
    for name in (*HEADS, "total"):
        assert last[name] < 0.6 * first[name], name


def test_the_state_of_adam_continues_and_can_be_restored():
    """Two learning stages in one go, or with everything saved and loaded between them."""
    straight, interrupted = made_learner(epochs=3), made_learner(epochs=3)
    for learner in (straight, interrupted):
        learner.learn(made_window(), 0, 1)
    restored = made_learner(epochs=3)
    restored.load(interrupted.weight_arrays(), interrupted.optimizer_arrays())
    for learner in (straight, restored):
        learner.learn(made_window(), 0, 2)
    steps = [v for k, v in restored.optimizer_arrays().items() if k.endswith("/step")]
    assert {float(step) for step in steps} == {6.0}
    for name, array in straight.weight_arrays().items():
        assert (array == restored.weight_arrays()[name]).all(), name


def test_learning_that_diverges_is_reported():
    learner = made_learner(epochs=1)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match="learning diverged in iteration 7"):
        learner.learn(made_window(), 0, 7)
