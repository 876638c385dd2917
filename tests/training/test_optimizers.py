"""Optimisers against their formulas, clipping, and what survives a kill."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from tiny_training import made_window

from replay.made import VISITS
from zerolab.networks.catalogue import build_network
from zerolab.rules.catalogue import parse_game
from zerolab.training.configure import resolve_settings
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner
from zerolab.training.optimization import OPTIMIZERS


def made_learner(**settings):
    game = parse_game("gobang:3x3:3")
    network = resolve_settings(None, "smoke").network
    chosen = LearnSettings(batch_size=2, symmetries="none", **settings)
    return Learner(build_network(network, game, 0), chosen, VISITS, torch.device("cpu"))


def steps_of(settings, gradients, start, rate, momenta=None):
    """Return where an optimiser takes one number, with the momentum of each step if given."""
    parameter = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = settings.optimizer([parameter], rate)
    for i, gradient in enumerate(gradients):
        if momenta:
            optimizer.param_groups[0].update(settings.momentum_option(momenta[i]))
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return parameter.item()


def test_sgd_is_its_formula_with_weight_decay_and_a_changing_momentum():
    settings = OPTIMIZERS["sgd"](weight_decay=0.1)
    gradients, momenta = [1.0, -2.0, 0.5], [0.95, 0.9, 0.8]
    expected, total = 3.0, 0.0
    for gradient, momentum in zip(gradients, momenta, strict=True):
        total = momentum * total + gradient + 0.1 * expected
        expected -= 0.2 * total
    assert steps_of(settings, gradients, 3.0, 0.2, momenta) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.3)])
def test_adam_is_its_formula_and_adamw_shrinks_weights_besides(name, decay):
    given = {"weight_decay": decay} if decay else {}
    settings = OPTIMIZERS[name](beta1=0.8, beta2=0.9, **given)
    gradients, expected, m, v = [1.0, -2.0, 0.5], 3.0, 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        expected -= 0.01 * decay * expected
        expected -= 0.01 * m / (1 - 0.8**t) / (math.sqrt(v / (1 - 0.9**t)) + 1e-8)
    assert steps_of(settings, gradients, 3.0, 0.01) == pytest.approx(expected, rel=1e-9)


def test_momentum_is_beta1_of_adam():
    for name in ("adam", "adamw"):
        changed, straight = OPTIMIZERS[name](beta1=0.9), OPTIMIZERS[name](beta1=0.5)
        ends = [steps_of(changed, [1.0, -2.0], 0.0, 0.1, [0.5, 0.5])]
        ends += [steps_of(each, [1.0, -2.0], 0.0, 0.1) for each in (straight, changed)]
        assert ends[0] == ends[1] != ends[2]


def test_weight_decay_acts_on_biases_and_batch_norms():
    learner = made_learner(optimizer={"name": "sgd", "momentum": 0, "weight_decay": 0.5})
    before = {name: x.detach().clone() for name, x in learner.network.named_parameters()}
    for parameter in learner.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner.optimizer.step()
    for name, parameter in learner.network.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (1 - 0.005 * 0.5))


def test_clipping_scales_all_gradients_together():
    """One step of plain descent moves the weights by the learning rate times the clipped norm."""
    plain = {"name": "sgd", "momentum": 0, "weight_decay": 0}
    for clip_norm in (0.25, 1e6):
        learner = made_learner(optimizer=plain, clip_norm=clip_norm, learning_rate=0.1, epochs=1)
        learner.settings = learner.settings.model_copy(update={"batch_size": 4})
        before = [x.detach().clone() for x in learner.network.parameters()]
        learned = learner.learn(made_window(), 0, 1)
        moved = [x.detach() - y for x, y in zip(learner.network.parameters(), before, strict=True)]
        length = math.sqrt(sum(float(x.square().sum()) for x in moved))
        assert length == pytest.approx(0.1 * min(clip_norm, learned.gradient_norm), rel=1e-4)
        assert learned.gradient_norm > 0.25


CYCLE = {"name": "cycle", "anneal_iterations": 3}


@pytest.mark.parametrize(("name", "ema_decay"), [*product(OPTIMIZERS, [0.0, 0.9])])
def test_everything_continues_and_can_be_restored(name, ema_decay):
    """Two learning stages in one go, or with everything saved and loaded between them."""
    settings = {
        "optimizer": {"name": name},
        "schedule": CYCLE,
        "ema_decay": ema_decay,
        "clip_norm": 0.5,
        "epochs": 2,
    }
    straight, interrupted = made_learner(**settings), made_learner(**settings)
    for learner in (straight, interrupted):
        learner.learn(made_window(), 0, 1)
    restored = made_learner(**settings)
    restored.load(interrupted.weight_arrays(), interrupted.optimizer_arrays())
    for learner in (straight, restored):
        learner.learn(made_window(), 0, 2)
    for arrays in ("weight_arrays", "optimizer_arrays"):
        expected, found = getattr(straight, arrays)(), getattr(restored, arrays)()
        assert expected.keys() == found.keys()
        assert all((expected[key] == found[key]).all() for key in expected)
    moments = {key.rpartition("/")[2] for key in expected if not key.startswith("average/")}
    assert moments == ({"momentum_buffer"} if name == "sgd" else {"exp_avg", "exp_avg_sq", "step"})


def test_losses_are_kept_for_every_epoch():
    two, one = made_learner(epochs=2), made_learner(epochs=1)
    learned, first = two.learn(made_window(), 0, 1), one.learn(made_window(), 0, 1)
    assert learned.epoch_losses[0] == first.losses
    assert learned.epoch_losses[1] == learned.losses != first.losses
    assert (learned.examples_seen, len(learned.learning_rates), learned.gradient_norm) == (
        8,
        4,
        None,
    )


def test_the_learner_follows_its_schedule():
    learner = made_learner(schedule=CYCLE, epochs=10, optimizer="sgd", learning_rate=0.2)
    learned = learner.learn(made_window(), 0, 2, iterations=3)
    assert len(learned.learning_rates) == 20
    assert max(learned.learning_rates) == learned.learning_rates[7] == pytest.approx(0.2 * 0.7)
    group = learner.optimizer.param_groups[0]
    assert group["lr"] == learned.learning_rates[-1] < 0.02
    assert group["momentum"] == 0.95
