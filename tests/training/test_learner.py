"""Learner: training loop, optimiser state and weight averages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_resume import contents
from tiny_training import KilledError, Killing, learn_lines, small_window, train
from torch import nn

from replay.example_facts import VISITS, example_facts
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import HEADS, build_network
from zerolab.replay.window import Window
from zerolab.replay.window_rules import IterationsWindow
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import WinRateGate
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner, WeightAverage
from zerolab.training.stages import GateStage

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def new_learner(heads=("policy", "value"), changes=(), device="cpu", **settings):
    game = parse_game("gobang:3x3:3")
    changes = [f"network.heads={list(heads)}", "learn.symmetries=none", *changes]
    network = resolve_settings(None, "smoke", changes).network
    chosen = LearnSettings(batch_size=4, symmetries="none", **settings)
    return Learner(build_network(network, game, 0), chosen, VISITS, torch.device(device))


def test_learning_changes_weights_and_lowers_every_loss():
    learner = new_learner(epochs=60)
    before = learner.weight_arrays()
    first = new_learner(epochs=1).learn(small_window(), 0, 1).last_epoch_losses
    last = learner.learn(small_window(), 0, 1)
    assert last.examples_seen == 60 * 4
    for name in ("policy", "value", "sum", "product"):
        assert last.last_epoch_losses[name] < 0.6 * first[name], name
    assert last.last_epoch_losses["sum"] == pytest.approx(
        last.last_epoch_losses["policy"] + last.last_epoch_losses["value"], rel=1e-4
    )
    after = learner.weight_arrays()
    assert all((before[name] != after[name]).any() for name in before if name.endswith("weight"))


def test_all_heads_learn():
    """Heads learn even if half of their targets are masked."""
    position = Position.start("gobang:3x3:3")
    states, best_moves = [], np.eye(9)[[4, 0, 8, 2]]
    for action in (4, 0, 8, 2):
        states.append(position.state)
        position = position.play(action)
    unknown = np.full((2, 9), np.nan)
    facts = example_facts(
        4, policies=best_moves, values=[1, 0, 1, 0], draws=[0, 1, 0, 1], plies_left=[4, 3, 2, 1],
        reply_policies=np.concatenate([best_moves[1:3], unknown]),
        action_values=np.concatenate([np.where(best_moves[:2] == 1, 1, np.nan), unknown]),
        features=[[1, 0, 2], [0, 2, 1], [2, 1, 0], [np.nan] * 3],
    )  # fmt: skip
    window = Window(position.game, IterationsWindow())
    window.add(np.array(states), facts)
    features = ("network.heads.features.width=1",)
    first = new_learner(HEADS, features, epochs=1).learn(window, 0, 1).last_epoch_losses
    last = new_learner(HEADS, features, epochs=60).learn(window, 0, 1).last_epoch_losses
    assert list(first) == [*HEADS, "sum", "product", "total"]
    for name in (*HEADS, "total"):
        assert last[name] < 0.6 * first[name], name


@pytest.mark.parametrize("device", DEVICES)
def test_adam_state_is_restored(device):
    """Two learning stages give equal results with and without saving and loading in between."""
    uninterrupted, interrupted, restored = (new_learner(device=device, epochs=3) for _ in range(3))
    for learner in (uninterrupted, interrupted):
        learner.learn(small_window(), 0, 1)
    restored.restore(interrupted.weight_arrays(), interrupted.optimizer_arrays())
    for learner in (uninterrupted, restored):
        learner.learn(small_window(), 0, 2)
    steps = [v for k, v in restored.optimizer_arrays().items() if k.endswith("/step")]
    assert {float(step) for step in steps} == {6.0}
    for name, array in uninterrupted.weight_arrays().items():
        assert (array == restored.weight_arrays()[name]).all(), name


class NothingRecurs(dict):
    """Empty graphs; every batch size counts as new."""

    def __contains__(self, size):
        return False


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        ("exp_avg", np.zeros(3, np.float32)),
        ("exp_avg", np.float32(0.0)),
        ("exp_avg", None),
        ("step", np.zeros(3, np.float32)),
        ("step", np.float32(-1.0)),
        ("step", np.float32(np.nan)),
        ("other", np.float32(0.0)),
    ],
)
def test_damaged_optimizer_state_is_refused(quantity, value):
    learner = new_learner()
    learner.learn(small_window(), 0, 1)
    state = learner.optimizer_arrays()
    key = next(name for name in state if name.endswith("/exp_avg")).rpartition("/")[0]
    state[f"{key}/{quantity}"] = np.asarray(value)
    if value is None:
        del state[f"{key}/{quantity}"]
    with pytest.raises(UserError, match=r"optimiser state of .* is damaged"):
        new_learner().restore(learner.weight_arrays(), state)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": {"name": "sgd"}, "schedule": {"name": "cycle", "anneal_iterations": 2}},
        {"optimizer": {"name": "adamw"}, "clip_norm": 0.5},
        {"ema_decay": 0.9},
        {"frozen": "trunk"},
    ],
    ids=["sgd", "clipped", "averaged", "frozen"],
)
def test_gpu_graphs_change_no_weights(settings):
    graphs, plain = (new_learner(device="cuda", epochs=4, **settings) for _ in range(2))
    plain._gradients._graphs = NothingRecurs()
    for learner in (graphs, plain):
        for iteration in (1, 2):
            learner.learn(small_window(), 0, iteration)
    assert any(graphs._gradients._graphs.values())
    for name, array in graphs.weight_arrays().items():
        assert (array == plain.weight_arrays()[name]).all(), name


def test_diverged_learning_is_reported():
    learner = new_learner(epochs=1)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(float("nan"))
    with pytest.raises(UserError, match=r"iteration 7.* not finite"):
        learner.learn(small_window(), 0, 7)


def test_weights_that_diverge_in_the_last_step_are_reported(monkeypatch):
    learner = new_learner(epochs=1)
    step = learner._step

    def diverging_step(batch):
        losses = step(batch)
        for name, statistics in learner.network.named_buffers():
            if name.endswith("running_var"):  # training does not read it, so losses stay finite
                statistics.fill_(float("inf"))
        return losses

    monkeypatch.setattr(learner, "_step", diverging_step)
    with pytest.raises(UserError, match=r"iteration 7.* a weight is not finite"):
        learner.learn(small_window(), 0, 7)


def test_weight_average_follows_its_formula():
    """The latest step has share 1, 4/5, 4/6, ..., down to 1 - decay."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average, expected = WeightAverage(network, 0.6), {}
    for step in range(1, 12):
        network.train()(torch.randn(5, 3))
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(torch.randn_like(parameter))
        average.update()
        share = max(1 - 0.6, 4 / (step + 3))
        for name, latest in network.state_dict().items():
            former = expected.get(name, torch.zeros_like(latest))
            expected[name] = former + share * (latest - former)
    for name, array in average.average_arrays().items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_allclose(array, expected[name].numpy(), rtol=1e-5, atol=1e-6)
    assert average.average_arrays()["1.num_batches_tracked"] == 11
    assert (average.average_arrays()["1.running_mean"] != network[1].running_mean.numpy()).all()


LEARNING = [
    "final_evaluation.games=0",
    "selfplay.episodes=4",
    "iterations=3",
    "learn.ema_decay=0.5",
    "learn.clip_norm=1",
    "learn.optimizer=sgd",
    "learn.schedule={name='cycle', anneal_iterations=2}",
]


@pytest.fixture
def second_is_rejected(monkeypatch):
    """Gate that always rejects candidate 2 and accepts all others."""
    verdicts = {1: True, 2: False, 3: True}
    execute = GateStage.execute

    def execute_with_verdict(stage, context):
        verdict = verdicts[context.progress.iteration]
        monkeypatch.setattr(WinRateGate, "accepts", lambda *_: verdict)
        return execute(stage, context)

    monkeypatch.setattr(GateStage, "execute", execute_with_verdict)


def test_run_killed_while_learning_resumes_to_the_same_bytes(tmp_path, second_is_rejected):
    settings = resolve_settings(None, "smoke", LEARNING)
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    train(undisturbed, settings)
    for moment in ((1, "learn"), (2, "learn"), (2, "gate"), (3, "self-play"), (3, "learn")):
        with pytest.raises(KilledError):
            train(killed, settings, Killing(*moment))
    run = train(killed, settings)
    assert contents(killed) == contents(undisturbed)
    assert run.network_iterations() == [0, 1, 3]


def test_network_is_the_average_and_learning_continues_from_the_latest_weights(tmp_path):
    run = train(tmp_path / "run", resolve_settings(None, "smoke", [*LEARNING, "gate=always"]))
    weights, state = run.load_weights(3), run.load_optimizer_state(3)
    prefix = "average/latest/"
    latest = {k.removeprefix(prefix): x for k, x in state.items() if k.startswith(prefix)}
    assert latest.keys() == weights.keys()
    assert any((weights[name] != latest[name]).any() for name in weights)
    steps = sum(line["examples_seen"] for line in learn_lines(run)) // 16
    assert state["average/steps"] == steps


def test_metrics_describe_the_training(tmp_path):
    settings = [*LEARNING, "learn.learning_rate=0.1", "learn.symmetries=all"]
    run = train(tmp_path / "run", resolve_settings(None, "smoke", settings))
    for line in learn_lines(run):
        assert len(line["epoch_losses"]) == 2
        assert line["epoch_losses"][1] == line["loss"]
        assert line["learning_rate"] < 0.01 < line["peak_learning_rate"] <= 0.1
        assert line["gradient_norm"] > 0


def test_plain_learning_has_no_extra_metrics(tmp_path):
    plain = ["selfplay.episodes=4", "iterations=1", "warm_start.ramp.iterations=1"]
    run = train(tmp_path / "run", resolve_settings(None, "smoke", [*plain, "learn.epochs=1"]))
    (line,) = learn_lines(run)
    assert set(line) == {
        "stage", "iteration", "wall_seconds", "wall_elapsed_seconds", "wall_processor_seconds",
        "wall_memory", "examples_seen", "window", "loss",
    }  # fmt: skip
    assert not any(
        name.startswith("average/") for name in run.load_optimizer_state(run.progress.best)
    )
