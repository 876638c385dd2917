"""The learner, the gate and what a rejection leaves, on the traps of training loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.play.match import Match
from zerolab.ratings.score import Score
from zerolab.replay.window import Window
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training.learner import Learner
from zerolab.training.settings import GateSettings, LearnSettings, resolve
from zerolab.training.trainer import Trainer, elo_gained, passes


@pytest.mark.parametrize(
    ("score", "accepted"),
    [
        (Score(0, 40, 0), False),  # no decisive game
        (Score(6, 30, 4), True),  # exactly the threshold, draws aside
        (Score(59, 0, 41), False),
        (Score(1, 39, 0), True),
        (Score(0, 39, 1), False),
    ],
)
def test_draws_do_not_count_at_the_gate(score, accepted):
    assert passes(score, 0.5, GateSettings(threshold=0.6)) == accepted
    assert passes(score, 0.5, GateSettings(accept="always"))


def test_the_likelihood_of_superiority_at_the_gate():
    gate = GateSettings(accept="los", threshold=0.95)
    assert passes(Score(12, 16, 12), 0.95, gate)
    assert not passes(Score(40, 0, 0), 0.949, gate)


def made_match(results):
    """Return a match in which "new" moved first in the games of even number."""
    names = ("new", "old"), ("old", "new")
    games = [GameRecord(n, *names[n % 2], (n,), result) for n, result in enumerate(results)]
    for_new = [result * (-1) ** n for n, result in enumerate(results)]
    return Match(Score(*(for_new.count(outcome) for outcome in (1, 0, -1))), games)


def test_the_elo_gained_counts_true_colours():
    """Who moves first always wins: no one is stronger, however many games."""
    gained = elo_gained(made_match([1] * 20), "new", "old")
    assert gained.elo == pytest.approx(0, abs=1e-6)
    assert gained.los == pytest.approx(0.5)
    better = elo_gained(made_match([1, -1] * 10), "new", "old")
    assert better.low > 0 and better.los > 0.98
    worse = elo_gained(made_match([1, -1] * 10), "old", "new")
    assert worse.elo == pytest.approx(-better.elo)


def test_many_draws_do_not_stretch_the_training_elo():
    """Four wins, two losses and 94 draws are 7 points by the logistic curve, not over 50."""
    match = made_match([1, -1, 1, -1, -1, 1, *[0] * 94])
    assert match.score == Score(4, 94, 2)
    logistic = 400 * math.log10(match.score.score_rate / (1 - match.score.score_rate))
    assert elo_gained(match, "new", "old").elo == pytest.approx(logistic, rel=0.2)


def made_learner(**settings):
    game = parse_game("gobang:3x3:3")
    network = resolve(None, "smoke").network
    chosen = LearnSettings(batch_size=4, symmetries="none", **settings)
    return Learner(build_network(network, game, 0), chosen, torch.device("cpu"))


def made_window():
    """Return four positions, each with one right move and a result."""
    position = Position.start("gobang:3x3:3")
    window = Window(position.game, 1)
    states, policies = [], []
    for action in (4, 0, 8, 2):
        states.append(position.state)
        policies.append(np.eye(9, dtype=np.float16)[action])
        position = position.play(action)
    values = np.array([1, -1, 1, -1], np.int8)
    window.add(np.array(states), np.array(policies), values)
    return window


def test_learning_changes_weights_and_lowers_every_loss():
    learner = made_learner(epochs=60)
    before = learner.weight_arrays()
    first = made_learner(epochs=1).learn(made_window(), 0, 1).losses
    last = learner.learn(made_window(), 0, 1)
    assert last.samples == 60 * 4
    for name in ("policy", "value", "sum", "product"):
        assert last.losses[name] < 0.6 * first[name], name
    assert last.losses["sum"] == pytest.approx(
        last.losses["policy"] + last.losses["value"], rel=1e-4
    )
    after = learner.weight_arrays()
    assert all((before[name] != after[name]).any() for name in before if name.endswith("weight"))


def test_the_state_of_adam_goes_on_and_can_be_restored():
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


def train(folder, *assignments):
    settings = resolve(None, "smoke", ["baseline_games=0", *assignments])
    run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings).train()
    return run


def test_a_rejected_candidate_leaves_nothing_behind(tmp_path):
    """With a threshold no candidate reaches, every iteration learns from the untrained network."""
    run = train(tmp_path / "run", "gate.games=40", "gate.threshold=1", "iterations=3")
    gates = [line for line in run.metrics() if line["stage"] == "gate"]
    assert [line["accepted"] for line in gates] == [False] * 3
    assert {line["elo"] for line in gates} == {0.0}
    for line in gates:
        assert line["candidate_elo_low"] < line["candidate_elo"] < line["candidate_elo_high"]
    assert run.progress.best == 0
    assert run.networks() == [0]
    assert run.load_optimizer(0) == {}


def test_accepted_candidates_carry_their_optimiser_on(tmp_path):
    run = train(tmp_path / "run", "gate.accept=always", "gate.games=0", "iterations=3")
    assert run.networks() == [0, 1, 2, 3]
    samples = sum(line["samples"] for line in run.metrics() if line["stage"] == "learn")
    steps = {float(v) for k, v in run.load_optimizer(3).items() if k.endswith("/step")}
    assert steps == {samples / 16}
    assert not np.array_equal(
        *(run.load_weights(n)["trunk.convolutions.0.conv.weight"] for n in (1, 2))
    )


def test_learning_that_diverges_is_told(tmp_path):
    learner = made_learner(epochs=1)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match="learning diverged in iteration 7"):
        learner.learn(made_window(), 0, 7)
