"""Optimisers, gradient clipping, restored state and learning-rate schedules."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from tiny_training import small_window

from replay.example_facts import VISITS
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings, resume_settings
from zerolab.training.learn_settings import LearnSettings
from zerolab.training.learner import Learner
from zerolab.training.optimization import OPTIMIZERS, RATE_SCHEDULES, TimeInRun


def new_learner(**settings):
    game = parse_game("gobang:3x3:3")
    network = resolve_settings(None, "smoke").network
    chosen = LearnSettings(batch_size=2, symmetries="none", **settings)
    return Learner(build_network(network, game, 0), chosen, VISITS, torch.device("cpu"))


def optimized_value(settings, gradients, start, rate, momenta=None):
    """Return the value of one parameter after optimiser steps with the given gradients."""
    parameter = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = settings.new_optimizer([parameter], rate)
    for i, gradient in enumerate(gradients):
        if momenta:
            optimizer.param_groups[0].update(settings.momentum_option(momenta[i]))
        parameter.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
    return parameter.item()


def test_sgd_follows_its_formula_with_varying_momentum():
    settings = OPTIMIZERS["sgd"](weight_decay=0.1)
    gradients, momenta = [1.0, -2.0, 0.5], [0.95, 0.9, 0.8]
    expected, total = 3.0, 0.0
    for gradient, momentum in zip(gradients, momenta, strict=True):
        total = momentum * total + gradient + 0.1 * expected
        expected -= 0.2 * total
    assert optimized_value(settings, gradients, 3.0, 0.2, momenta) == pytest.approx(
        expected, rel=1e-12
    )


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.3)])
def test_adam_and_adamw_follow_their_formulas(name, decay):
    options = {"weight_decay": decay} if decay else {}
    settings = OPTIMIZERS[name](beta1=0.8, beta2=0.9, **options)
    gradients, expected, m, v = [1.0, -2.0, 0.5], 3.0, 0.0, 0.0
    for t, gradient in enumerate(gradients, 1):
        m, v = 0.8 * m + 0.2 * gradient, 0.9 * v + 0.1 * gradient**2
        expected -= 0.01 * decay * expected
        expected -= 0.01 * m / (1 - 0.8**t) / (math.sqrt(v / (1 - 0.9**t)) + 1e-8)
    assert optimized_value(settings, gradients, 3.0, 0.01) == pytest.approx(expected, rel=1e-9)


def test_momentum_sets_beta1_of_adam():
    for name in ("adam", "adamw"):
        high_beta1, low_beta1 = OPTIMIZERS[name](beta1=0.9), OPTIMIZERS[name](beta1=0.5)
        values = [optimized_value(high_beta1, [1.0, -2.0], 0.0, 0.1, [0.5, 0.5])]
        values += [
            optimized_value(settings, [1.0, -2.0], 0.0, 0.1) for settings in (low_beta1, high_beta1)
        ]
        assert values[0] == values[1] != values[2]


def test_weight_decay_includes_biases_and_batch_norms():
    learner = new_learner(optimizer={"name": "sgd", "momentum": 0, "weight_decay": 0.5})
    before = {name: x.detach().clone() for name, x in learner.network.named_parameters()}
    for parameter in learner.network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    learner.optimizer.step()
    for name, parameter in learner.network.named_parameters():
        torch.testing.assert_close(parameter.detach(), before[name] * (1 - 0.005 * 0.5))


def test_clipping_scales_all_gradients_together():
    """A plain gradient step has the length learning rate times clipped norm."""
    plain = {"name": "sgd", "momentum": 0, "weight_decay": 0}
    for clip_norm in (0.25, 1e6):
        learner = new_learner(optimizer=plain, clip_norm=clip_norm, learning_rate=0.1, epochs=1)
        learner.settings = learner.settings.model_copy(update={"batch_size": 4})
        before = [x.detach().clone() for x in learner.network.parameters()]
        learned = learner.learn(small_window(), 0, 1)
        moved = [x.detach() - y for x, y in zip(learner.network.parameters(), before, strict=True)]
        length = math.sqrt(sum(float(x.square().sum()) for x in moved))
        assert length == pytest.approx(0.1 * min(clip_norm, learned.mean_gradient_norm), rel=1e-4)
        assert learned.mean_gradient_norm > 0.25


CYCLE = {"name": "cycle", "anneal_iterations": 3}


@pytest.mark.parametrize(("name", "ema_decay"), [*product(OPTIMIZERS, [0.0, 0.9])])
def test_learner_state_is_restored(name, ema_decay):
    """Two learning stages give equal results with and without saving and loading in between."""
    settings = {
        "optimizer": {"name": name},
        "schedule": CYCLE,
        "ema_decay": ema_decay,
        "clip_norm": 0.5,
        "epochs": 2,
    }
    uninterrupted, interrupted = new_learner(**settings), new_learner(**settings)
    for learner in (uninterrupted, interrupted):
        learner.learn(small_window(), 0, 1)
    restored = new_learner(**settings)
    restored.restore(interrupted.weight_arrays(), interrupted.optimizer_arrays())
    for learner in (uninterrupted, restored):
        learner.learn(small_window(), 0, 2)
    for arrays in ("weight_arrays", "optimizer_arrays"):
        expected, actual = getattr(uninterrupted, arrays)(), getattr(restored, arrays)()
        assert expected.keys() == actual.keys()
        assert all((expected[key] == actual[key]).all() for key in expected)
    moments = {key.rpartition("/")[2] for key in expected if not key.startswith("average/")}
    assert moments == ({"momentum_buffer"} if name == "sgd" else {"exp_avg", "exp_avg_sq", "step"})


def test_losses_are_recorded_per_epoch():
    two_epochs, one_epoch = new_learner(epochs=2), new_learner(epochs=1)
    learned, first = two_epochs.learn(small_window(), 0, 1), one_epoch.learn(small_window(), 0, 1)
    assert learned.epoch_losses[0] == first.last_epoch_losses
    assert learned.epoch_losses[1] == learned.last_epoch_losses != first.last_epoch_losses
    assert (learned.examples_seen, len(learned.learning_rates), learned.mean_gradient_norm) == (
        8,
        4,
        None,
    )


def test_learner_follows_its_schedule():
    learner = new_learner(schedule=CYCLE, epochs=10, optimizer="sgd", learning_rate=0.2)
    learned = learner.learn(small_window(), 0, 2, iterations=3)
    assert len(learned.learning_rates) == 20
    assert max(learned.learning_rates) == learned.learning_rates[7] == pytest.approx(0.2 * 0.7)
    group = learner.optimizer.param_groups[0]
    assert group["lr"] == learned.learning_rates[-1] < 0.02
    assert group["momentum"] == 0.95


def rates_at(schedule, iteration, progress=0.0, iterations=100):
    return schedule.step_rates(TimeInRun(iteration, progress, iterations))


def test_schedules_give_valid_rates():
    for name, kind in RATE_SCHEDULES.items():
        for iteration in (1, 2, 19, 20, 21, 99, 100):
            for progress in (0.0, 0.2, 0.35, 0.7, 0.9, 1.0):
                rates = rates_at(kind(), iteration, progress)
                assert 0 <= rates.learning_rate_factor <= 1, name
                assert rates.momentum is None or 0 <= rates.momentum < 1, name


def test_constant_schedule_keeps_the_rate():
    assert {rates_at(RATE_SCHEDULES["constant"](), i, p) for i in (1, 50) for p in (0, 0.5)} == {
        (1.0, None)
    }


def test_steps_schedule_has_the_published_rates():
    """[Clausen2021]: 0.2; 0.02 from iteration 7; 0.002 from iteration 14."""
    steps = RATE_SCHEDULES["steps"]()
    table = {1: 0.2, 6: 0.2, 7: 0.02, 13: 0.02, 14: 0.002, 100: 0.002}
    for iteration, expected in table.items():
        for progress in (0.0, 0.5, 1.0):
            assert 0.2 * rates_at(steps, iteration, progress).learning_rate_factor == pytest.approx(
                expected
            )
    assert rates_at(steps, 7).momentum is None


FIRST_CYCLE = [
    (0.0, 0.02, 0.95), (0.175, 0.11, 0.9), (0.35, 0.2, 0.85), (0.525, 0.11, 0.9),
    (0.7, 0.02, 0.95), (0.85, 0.0115, 0.95), (1.0, 0.003, 0.95),
]  # fmt: skip


@pytest.mark.parametrize(("progress", "rate", "momentum"), FIRST_CYCLE)
def test_cycle_schedule_has_the_published_rates(progress, rate, momentum):
    """[Clausen2021]: corners and midpoints, scaled by 1 at first and 0.4 from iteration 20 on."""
    cycle = RATE_SCHEDULES["cycle"]()
    shares = {1: 1.0, 2: 1 - 0.6 / 19, 20: 0.4, 21: 0.4, 100: 0.4}
    for iteration, share in shares.items():
        rates = rates_at(cycle, iteration, progress)
        assert 0.2 * rates.learning_rate_factor == pytest.approx(rate * share)
        assert rates.momentum == pytest.approx(momentum)


def test_cycle_schedule_agrees_with_the_published_code():
    """[ClausenCode]: 1 - 0.6 * (i - 1) / 20, which reaches 0.4 in iteration 21."""
    cycle = RATE_SCHEDULES["cycle"](anneal_iterations=21)
    for i in (1, 2, 11, 20, 21, 22):
        expected = max(0.4, 1 - 0.6 * (i - 1) / 20)
        assert rates_at(cycle, i, 0.35).learning_rate_factor == pytest.approx(expected)


def test_cosine_schedule_warms_up_and_decays():
    cosine = RATE_SCHEDULES["cosine"](end=0.1, warm_up=2)
    factors = [
        rates_at(cosine, *time, iterations=10).learning_rate_factor
        for time in ((1, 0), (1, 0.5), (2, 0.5))
    ]
    assert factors == pytest.approx([0, 0.25, 0.75])
    assert rates_at(cosine, 3, iterations=10).learning_rate_factor == 1.0
    assert rates_at(cosine, 7, iterations=10).learning_rate_factor == pytest.approx(0.55)
    assert rates_at(cosine, 10, 1.0, iterations=10).learning_rate_factor == pytest.approx(0.1)
    expected = 0.1 + 0.9 * (1 + math.cos(math.pi * 2.25 / 8)) / 2
    assert rates_at(cosine, 5, 0.25, iterations=10).learning_rate_factor == pytest.approx(expected)
    assert rates_at(RATE_SCHEDULES["cosine"](), 1).learning_rate_factor == 1.0


def test_cosine_reaches_its_end_in_runs_shorter_than_the_warm_up():
    """Annealing begins halfway through the run at the latest; longer runs are unaffected."""
    cosine = RATE_SCHEDULES["cosine"](end=0.02, warm_up=5)

    def factors(expected, *done):
        times = (TimeInRun(int(n) + 1, n % 1, 1000, n / expected) for n in done)
        return [cosine.step_rates(time).learning_rate_factor for time in times]

    assert factors(4, 1, 2, 3, 4) == pytest.approx([0.2, 0.4, 0.51, 0.02])
    assert factors(10, 4, 5, 7.5, 10) == pytest.approx([0.8, 1, 0.51, 0.02])
    assert rates_at(cosine, 5, 1.0, iterations=5).learning_rate_factor == pytest.approx(0.02)


MISTAKES = [
    ({"name": "steps", "iterations": [14, 7]}, "7 follows 14: expected"),
    ({"name": "steps", "iterations": [7, 7]}, "iterations: 7"),
    ({"name": "steps", "iterations": []}, "schedule.iterations"),
    ({"name": "cycle", "low_at": 0.3}, "low_at = 0.3 is not after peak_at = 0.35"),
    ({"name": "cycel"}, 'did you mean "cycle"?'),
    ({"name": "cosine", "factor": 0.1}, 'belongs to schedule = "steps"'),
]


@pytest.mark.parametrize(("schedule", "expected"), MISTAKES)
def test_invalid_schedules_get_one_line_errors(schedule, expected):
    with pytest.raises(UserError) as caught:
        validate(LearnSettings, {"schedule": schedule})
    assert expected in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("schedule", "last"),
    [("steps", 14), ("cycle", 20), ("{name='cosine', warm_up=30}", 30)],
)
def test_schedule_longer_than_the_run_is_refused(schedule, last):
    assignments = [f"learn.schedule={schedule}", f"iterations={last - 1}"]
    with pytest.raises(UserError, match=f"until iteration {last}, beyond the {last - 1}") as caught:
        resolve_settings("connect_four:4x4", "smoke", assignments)
    assert len(str(caught.value).splitlines()) == 1
    resolve_settings("connect_four:4x4", "smoke", [assignments[0], f"iterations={last}"])


def test_cycle_without_annealing_fits_any_run():
    assignments = ["learn.schedule.name=cycle", "learn.schedule.annealed=1", "iterations=2"]
    schedule = resolve_settings("connect_four:4x4", "smoke", assignments).learn.schedule
    assert {rates_at(schedule, i, 0.35).learning_rate_factor for i in (1, 2)} == {1.0}


def test_run_with_cosine_schedule_cannot_be_extended(tmp_path):
    settings = resolve_settings(None, "smoke", ["learn.schedule=cosine"])
    run = RunFolder.create(tmp_path / "run", settings.model_dump(mode="json"))
    assert resume_settings(run, ["iterations=2"]) == settings
    with pytest.raises(UserError, match=r"expected the run's 2, .*learn\.schedule"):
        resume_settings(run, ["iterations=3"])
