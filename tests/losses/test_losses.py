from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zerolab.core.config import Settings, choice_among, validate
from zerolab.core.errors import UserError
from zerolab.losses.catalogue import LOSSES
from zerolab.losses.interface import all_losses, policy_loss, value_loss


class Choosing(Settings):
    loss: choice_among(LOSSES)


POLICY, VALUE = 3.0, 0.25


def parts():
    return torch.tensor(POLICY, requires_grad=True), torch.tensor(VALUE, requires_grad=True)


@pytest.mark.parametrize(
    ("given", "expected", "by_policy", "by_value"),
    [
        ({"name": "policy"}, POLICY, 1, 0),
        ({"name": "value"}, VALUE, 0, 1),
        ({"name": "sum"}, POLICY + VALUE, 1, 1),
        ({"name": "product"}, POLICY * VALUE, VALUE, POLICY),
        ({"name": "weighted", "balance": 0.2}, 0.2 * POLICY + 0.8 * VALUE, 0.2, 0.8),
        ({"name": "weighted", "balance": 1}, POLICY, 1, 0),
        ({"name": "weighted", "balance": 0}, VALUE, 0, 1),
    ],
)
def test_losses_and_their_gradients_by_hand(given, expected, by_policy, by_value):
    policy, value = parts()
    loss = validate(Choosing, {"loss": given}).loss(policy, value)
    assert loss.item() == pytest.approx(expected)
    gradients = torch.autograd.grad(loss, (policy, value), allow_unused=True)
    assert [0 if each is None else each.item() for each in gradients] == pytest.approx(
        [by_policy, by_value]
    )


def test_every_registered_loss_has_been_checked_by_hand():
    assert set(LOSSES) == {"policy", "value", "sum", "product", "weighted"}


def test_the_four_losses_of_the_papers_are_named():
    losses = all_losses(*parts())
    assert {name: loss.item() for name, loss in losses.items()} == {
        "policy": POLICY, "value": VALUE, "sum": POLICY + VALUE, "product": POLICY * VALUE,
    }  # fmt: skip


def test_the_product_is_of_batch_means_not_a_mean_of_products():
    logits = torch.tensor([[0.0, 0.0], [50.0, 0.0]])
    targets = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    policy = policy_loss(logits, targets)
    value = value_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 0.0]))
    assert LOSSES["product"]()(policy, value).item() == pytest.approx(math.log(2) / 2 * 0.5)


def test_policy_loss_by_hand():
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])) + 3.0
    targets = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    first = -math.log(0.25)
    second = -0.5 * math.log(0.1) - 0.5 * math.log(0.8)
    assert policy_loss(logits, targets).item() == pytest.approx((first + second) / 2)


def test_policy_gradient_is_the_prediction_minus_the_target():
    logits = torch.tensor([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    policy_loss(logits, targets).backward()
    expected = (torch.softmax(logits.detach(), dim=1) - targets) / 2
    torch.testing.assert_close(logits.grad, expected)


def test_value_loss_and_its_gradient_by_hand():
    values = torch.tensor([0.5, -1.0, 0.0], requires_grad=True)
    loss = value_loss(values, torch.tensor([1.0, 1.0, 0.0]))
    assert loss.item() == pytest.approx((0.25 + 4.0) / 3)
    loss.backward()
    assert values.grad.tolist() == pytest.approx([2 * -0.5 / 3, 2 * -2.0 / 3, 0.0])


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=9))
def test_no_prediction_beats_the_target_itself(weights):
    target = torch.tensor([weights]) / sum(weights)
    entropy = -(target * target.log()).sum()
    assert policy_loss(target.log(), target).item() == pytest.approx(entropy.item(), abs=1e-5)
    assert policy_loss(torch.zeros_like(target), target) >= entropy - 1e-5


def test_extreme_logits_give_finite_losses_and_gradients():
    logits = torch.tensor([[1e30, -1e30, 0.0], [1e4, 1e4, -1e4]], requires_grad=True)
    loss = policy_loss(logits, torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2) / 2)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"name": "produkt"},
            'loss.name = "produkt": expected one of policy, product, sum, value, weighted;'
            ' did you mean "product"?',
        ),
        ({"name": "weighted", "balance": 1.5}, "loss.balance = 1.5: expected at most 1"),
        ({"name": "weighted", "balance": -0.1}, "loss.balance = -0.1: expected at least 0"),
        ({"name": "weighted", "balance": math.nan}, "loss.balance = nan: expected a finite number"),
        ({"name": "sum", "balance": 0.5}, 'unknown setting "loss.balance"; did you mean'),
        ("prodct", 'loss.name = "prodct": expected one of'),
        (3, "loss = 3: expected a table of settings"),
    ],
)
def test_mistakes_are_told_in_one_line(given, message):
    with pytest.raises(UserError) as caught:
        validate(Choosing, {"loss": given})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
