"""A plain search, against which the kernels are checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from zerolab.rules.position import Position


class HashEvaluator:
    """Priors and values that depend on the state alone, in no pattern a search could exploit."""

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
    """Says more: probabilities of a draw, and values of actions."""

    def evaluate_more(self, states, wanted):
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
            draws if "draws" in wanted else None,
            action_values if "action_values" in wanted else None,
        )


class Node:
    def __init__(self, position: Position, prior: np.float32, first_value=0.0) -> None:
        self.position = position
        self.prior = prior
        self.first_value = first_value  # of the action that led here, for the one who took it
        self.visits = 0
        self.value = np.float32(0)
        self.draws = np.float32(0)
        self.children: dict[int, Node] = {}


class Rules(NamedTuple):
    """Parameters of a search; `fpu_value` gives the value of a node's unvisited child."""

    c: float
    fpu_value: Callable = lambda node, child: 0.0
    discount: float = 1.0
    draw_value: float = 0.0

    def seen_from_parent(self, value, draws):
        kept = np.float32(self.discount)
        return -kept * value, draws + (1 - kept) * (1 - draws)

    def worth(self, value, draws):
        return value + np.float32(self.draw_value) * draws

    def score(self, node, child):
        value = np.float32(self.fpu_value(node, child))
        if child.visits:
            value = self.worth(*self.seen_from_parent(child.value, child.draws))
        exploration = np.float32(self.c * math.sqrt(node.visits))
        return value + exploration * child.prior / np.float32(1 + child.visits)


def expand(leaf: Node, evaluator: HashEvaluator):
    """Give a leaf its children; return its value and the probability of a draw."""
    wanted = {"draws", "action_values"}
    states = leaf.position.state[None]
    detailed = isinstance(evaluator, DetailedHashEvaluator)
    found = evaluator.evaluate_more(states, wanted) if detailed else evaluator.evaluate(states)
    priors, values = found[:2]
    legal = leaf.position.legal_actions
    total = np.float32(0)
    for action in legal:
        total += priors[0, action]
    for action in legal:
        first_value = found[3][0, action] if detailed else 0.0
        prior = priors[0, action] / total
        leaf.children[action] = Node(leaf.position.play(action), prior, first_value)
    return values[0], found[2][0] if detailed else np.float32(0)


def simulate(path: list[Node], evaluator: HashEvaluator, how: Rules) -> None:
    """Run one simulation of PUCT from the end of a path; a bare root is only evaluated."""
    while path[-1].children:
        node = path[-1]
        path.append(max(node.children.values(), key=lambda child: how.score(node, child)))
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
        value, draws = how.seen_from_parent(value, draws)


def search(position: Position, evaluator: HashEvaluator, simulations: int, how: Rules) -> Node:
    root = Node(position, np.float32(1))
    for _ in range(1 + simulations):
        simulate([root], evaluator, how)
    return root
