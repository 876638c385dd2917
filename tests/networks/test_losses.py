from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.config import (
    Settings,
    validate,
    variant_annotation,
    variant_list_annotation,
)
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import HEADS, LOSSES
from zerolab.networks.head import POLICY, VALUE
from zerolab.networks.losses import HeadErrors, cross_entropy, squared_error


class LossSettings(Settings):
    loss: variant_annotation(LOSSES)


class HeadSettings(Settings):
    heads: variant_list_annotation(HEADS)


L_P, L_V = 3.0, 0.25


def some_errors():
    """Return errors of four samples with means L_P and L_V."""
    return {
        POLICY: torch.tensor([1.0, 2.0, 3.0, 6.0], requires_grad=True),
        VALUE: torch.tensor([0.0, 0.0, 0.0, 1.0], requires_grad=True),
    }


@pytest.mark.parametrize(
    ("loss_data", "expected", "policy_gradient", "value_gradient"),
    [
        ({"name": "policy"}, L_P, 1, 0),
        ({"name": "value"}, L_V, 0, 1),
        ({"name": "sum"}, L_P + L_V, 1, 1),
        ({"name": "product"}, L_P * L_V, L_V, L_P),
        ({"name": "weighted", "balance": 0.2}, 0.2 * L_P + 0.8 * L_V, 0.2, 0.8),
        ({"name": "weighted", "balance": 1}, L_P, 1, 0),
        ({"name": "weighted", "balance": 0}, L_V, 0, 1),
    ],
)
def test_losses_and_gradients_agree_with_hand_computed_values(
    loss_data, expected, policy_gradient, value_gradient
):
    errors = some_errors()
    loss = validate(LossSettings, {"loss": loss_data}).loss(errors)
    assert loss.item() == pytest.approx(expected)
    gradients = torch.autograd.grad(loss, (errors[POLICY], errors[VALUE]), allow_unused=True)
    for gradient, expected_gradient in zip(
        gradients, (policy_gradient, value_gradient), strict=True
    ):
        values = [0] * 4 if gradient is None else gradient.tolist()
        assert values == pytest.approx([expected_gradient / 4] * 4)


def test_all_registered_losses_are_tested():
    assert set(LOSSES) == {"policy", "value", "sum", "product", "weighted"}


def validated_heads(*given):
    return validate(HeadSettings, {"heads": given}).heads


@pytest.mark.parametrize("name", ["policy", "value", "sum", "product", "weighted"])
def test_all_losses_log_the_published_four(name):
    logged = HeadErrors(
        LOSSES[name](), validated_heads("policy", "value"), some_errors()
    ).logged_scalars()
    assert {name: loss.item() for name, loss in logged.items()} == {
        "policy": L_P, "value": L_V, "sum": L_P + L_V, "product": L_P * L_V,
        **({"weighted": (L_P + L_V) / 2} if name == "weighted" else {}),
    }  # fmt: skip


def test_product_loss_multiplies_batch_means():
    logits = torch.tensor([[0.0, 0.0], [50.0, 0.0]])
    targets = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    errors = {
        POLICY: cross_entropy(logits, targets),
        VALUE: squared_error(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0])),
    }
    assert (errors[POLICY] * errors[VALUE]).mean().item() == pytest.approx(0, abs=1e-6)
    assert LOSSES["product"]()(errors).item() == pytest.approx(math.log(2) / 2 * 0.5)


def test_cross_entropy_agrees_with_hand_computed_values():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])) + 3.0
    targets = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    first = -math.log(0.25)
    second = -0.5 * math.log(0.1) - 0.5 * math.log(0.8)
    assert cross_entropy(logits, targets).tolist() == pytest.approx([first, second])


def test_policy_gradient_is_the_prediction_minus_the_target():
    logits = torch.tensor([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    cross_entropy(logits, targets).mean().backward()
    expected = (torch.softmax(logits.detach(), dim=1) - targets) / 2
    torch.testing.assert_close(logits.grad, expected)


def test_squared_error_agrees_with_hand_computed_values():
    values = torch.tensor([0.5, -1.0, 0.0], requires_grad=True)
    errors = squared_error(values, torch.tensor([1.0, 1.0, 0.0]))
    assert errors.tolist() == pytest.approx([0.25, 4.0, 0.0])
    errors.mean().backward()
    assert values.grad.tolist() == pytest.approx([2 * -0.5 / 3, 2 * -2.0 / 3, 0.0])


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=9))
def test_cross_entropy_is_minimal_at_the_target(weights):
    target = torch.tensor([weights]) / sum(weights)
    entropy = -(target * target.log()).sum()
    assert cross_entropy(target.log(), target).item() == pytest.approx(entropy.item(), abs=1e-5)
    assert cross_entropy(torch.zeros_like(target), target) >= entropy - 1e-5


def test_extreme_logits_give_finite_losses_and_gradients():
    logits = torch.tensor([[1e30, -1e30, 0.0], [1e4, 1e4, -1e4]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])).mean()
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2) / 2)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(
    ("loss_data", "message"),
    [
        (
            {"name": "produkt"},
            'loss.name = "produkt": expected one of policy, value, sum, product, weighted;'
            ' did you mean "product"?',
        ),
        ({"name": "weighted", "balance": 1.5}, "loss.balance = 1.5: expected at most 1"),
        ({"name": "weighted", "balance": -0.1}, "loss.balance = -0.1: expected at least 0"),
        ({"name": "weighted", "balance": math.nan}, "loss.balance = nan: expected a finite number"),
        (
            {"name": "sum", "balance": 0.5},
            'loss.balance belongs to loss = "weighted", but loss = "sum" here',
        ),
        ("prodct", 'loss.name = "prodct": expected one of'),
        (3, "loss = 3: expected one of policy, value, sum, product, weighted"),
    ],
)
def test_invalid_losses_get_one_line_errors(loss_data, message):
    with pytest.raises(UserError) as caught:
        validate(LossSettings, {"loss": loss_data})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def run_with_plugin(folder, module, program):
    """Run a program with `module` installed as a network plug-in; return its output lines."""
    (folder / "plugin.py").write_text(module)
    entry_points_file = folder / "plugin-1.dist-info" / "entry_points.txt"
    entry_points_file.parent.mkdir()
    entry_points_file.write_text("[zerolab.networks]\nplugin = plugin\n")
    path = os.pathsep.join([str(folder), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    return result.stdout.split("\n")


PLUGIN = """
from typing import ClassVar, Literal
import numpy as np
from zerolab.networks.head import HEADS, Head
from zerolab.networks.losses import LOSSES, Loss, squared_error

class PlyHead(Head):
    name: Literal["ply"] = "ply"
    most: int = 42

    def activation(self, outputs):
        return outputs.squeeze(1)

    def target(self, facts, options):
        return (facts.plies / self.most).astype(np.float32)

    def error(self, prediction, target):
        return squared_error(prediction.float(), target)

class PlyLoss(Loss):
    name: Literal["ply"] = "ply"
    used_heads: ClassVar[tuple[str, ...]] = ("policy", "ply")

    def __call__(self, errors):
        return errors["policy"].mean() + 3 * errors["ply"].mean()

    def logged_scalars(self, errors):
        return {}

class ClippedLoss(Loss):
    name: Literal["clipped"] = "clipped"
    most: float = 2.0

    def __call__(self, errors):
        return errors["policy"].clamp(max=self.most).mean() + errors["value"].mean()

HEADS.add("ply", PlyHead)
LOSSES.add("ply", PlyLoss)
LOSSES.add("clipped", ClippedLoss)
"""


def test_heads_and_losses_of_plugins_are_used(tmp_path):
    """One loss uses the new head directly; the other clips errors per sample."""
    program = """
import torch
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.networks.catalogue import build_network
from zerolab.networks.losses import HeadErrors
from zerolab.rules.catalogue import parse_game
from zerolab.training.configure import resolve_settings
from zerolab.training.learn_settings import LearnSettings
def settings(heads):
    return resolve_settings(None, "smoke", [f"network.heads={heads}", "learn.loss=ply"])
chosen = settings('["policy", "value", {name="ply", most=9}]')
network = build_network(chosen.network, parse_game(chosen.game), 0)
outputs = network(torch.zeros(2, 1, 3, 3))
print(*outputs, network.head_settings["ply"].most, tuple(outputs["ply"].shape))
errors = {"policy": torch.ones(2), "value": torch.ones(2), "ply": torch.ones(2)}
errors = HeadErrors(chosen.learn.loss, list(network.head_settings.values()), errors)
print(errors.total_loss().item(), *errors.logged_scalars())
try:
    settings(["policy", "value"])
except UserError as error:
    print(error)
clipped = validate(LearnSettings, {"loss": {"name": "clipped", "most": 3}}).loss
errors = {"policy": torch.tensor([1.0, 5.0]), "value": torch.tensor([0.0, 1.0])}
print(clipped(errors).item(), *clipped.logged_scalars(errors))
"""
    lines = run_with_plugin(tmp_path, PLUGIN, program)
    assert lines[:2] == ["policy value ply 9 (2,)", "5.0 policy value ply total"]
    assert lines[2].startswith('learn.loss = "ply" uses the head "ply": expected it in network.')
    assert lines[3] == "2.5 sum product"
