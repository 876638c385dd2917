"""Plain reference implementation of the search kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zerolab.rules.position import Position


class HashEvaluator:
    """Pseudo-random priors and values that depend only on the state."""

    def __init__(self, actions: int) -> None:
        self.actions = actions
        self.calls: list[int] = []

    def evaluate(self, states):
        self.calls.append(len(states))
        priors = np.empty((len(states), self.actions), np.float32)
        values = np.empty(len(states), np.float32)
        for i, state in enumerate(states):
            random = np.random.default_rng([int(word) for word in state])
            priors[i] = random.random(self.actions) ** 3
            values[i] = random.uniform(-0.9, 0.9)
        return priors, values


class DetailedHashEvaluator(HashEvaluator):
    """Evaluator that also returns draw probabilities and action values."""

    def evaluate_with_extras(self, states, outputs):
        priors, values = self.evaluate(states)
        draws = np.empty(len(states), np.float32)
        action_values = np.empty((len(states), self.actions), np.float32)
        for i, state in enumerate(states):
            random = np.random.default_rng([1, *(int(word) for word in state)])
            draws[i] = random.uniform(0, 1 - abs(values[i]))
            action_values[i] = random.uniform(-0.9, 0.9, self.actions)
        return (
            priors,
            values,
            draws if "draws" in outputs else None,
            action_values if "action_values" in outputs else None,
        )


class Node:
    def __init__(self, position: Position, prior: np.float32, first_value=0.0) -> None:
        self.position = position
        self.prior = prior
        self.first_value = first_value  # initial value of the action, for the player who took it
        self.visits = 0
        self.value = np.float32(0)
        self.draws = np.float32(0)
        self.children: dict[int, Node] = {}


class Rules(NamedTuple):
    """Search parameters; `node_fpu_value(node, child)` returns the value of an unvisited child."""

    c: float
    node_fpu_value: Callable = lambda node, child: 0.0
    discount: float = 1.0
    draw_value: float = 0.0

    def seen_from_parent(self, value, draws):
        discount = np.float32(self.discount)
        return -discount * value, draws + (1 - discount) * (1 - draws)

    def worth(self, value, draws):
        return value + np.float32(self.draw_value) * draws

    def score(self, node, child):
        value = np.float32(self.node_fpu_value(node, child))
        if child.visits:
            value = self.worth(*self.seen_from_parent(child.value, child.draws))
        exploration = np.float32(self.c * math.sqrt(node.visits))
        return value + exploration * child.prior / np.float32(1 + child.visits)


def expand(leaf: Node, evaluator: HashEvaluator):
    """Expand a leaf; return its value and draw probability."""
    outputs = {"draws", "action_values"}
    states = leaf.position.state[None]
    detailed = isinstance(evaluator, DetailedHashEvaluator)
    answers = (
        evaluator.evaluate_with_extras(states, outputs) if detailed else evaluator.evaluate(states)
    )
    priors, values = answers[:2]
    legal = leaf.position.legal_actions
    total = np.float32(0)
    for action in legal:
        total += priors[0, action]
    for action in legal:
        first_value = answers[3][0, action] if detailed else 0.0
        prior = priors[0, action] / total
        leaf.children[action] = Node(leaf.position.play(action), prior, first_value)
    return values[0], answers[2][0] if detailed else np.float32(0)


def simulate(path: list[Node], evaluator: HashEvaluator, rules: Rules) -> None:
    """Run one PUCT simulation from the last node of `path`; only evaluate an unexpanded root."""
    while path[-1].children:
        node = path[-1]
        path.append(max(node.children.values(), key=lambda child: rules.score(node, child)))
    leaf = path[-1]
    outcome = leaf.position.outcome
    if outcome is not None:
        value, draws = np.float32(outcome), np.float32(outcome == 0)
    else:
        value, draws = expand(leaf, evaluator)
    for node in reversed(path):
        node.visits += 1
        node.value += (value - node.value) / np.float32(node.visits)
        node.draws += (draws - node.draws) / np.float32(node.visits)
        value, draws = rules.seen_from_parent(value, draws)


def search(position: Position, evaluator: HashEvaluator, simulations: int, rules: Rules) -> Node:
    root = Node(position, np.float32(1))
    for _ in range(1 + simulations):
        simulate([root], evaluator, rules)
    return root
