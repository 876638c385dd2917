from __future__ import annotations

import math

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
from zerolab.networks.objectives import (
    POLICY_HEAD,
    VALUE_HEAD,
    HeadErrors,
    cross_entropy,
    squared_error,
)


class LossSettings(Settings):
    loss: variant_annotation(LOSSES)


class HeadSettings(Settings):
    heads: variant_list_annotation(HEADS)


L_P, L_V = 3.0, 0.25


def some_errors():
    """Return errors of four samples with means L_P and L_V."""
    return {
        POLICY_HEAD: torch.tensor([1.0, 2.0, 3.0, 6.0], requires_grad=True),
        VALUE_HEAD: torch.tensor([0.0, 0.0, 0.0, 1.0], requires_grad=True),
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
    gradients = torch.autograd.grad(
        loss, (errors[POLICY_HEAD], errors[VALUE_HEAD]), allow_unused=True
    )
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
        POLICY_HEAD: cross_entropy(logits, targets),
        VALUE_HEAD: squared_error(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0])),
    }
    assert (errors[POLICY_HEAD] * errors[VALUE_HEAD]).mean().item() == pytest.approx(0, abs=1e-6)
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
