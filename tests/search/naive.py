"""A search written as plainly as possible, against which the kernels are checked."""

from __future__ import annotations

import math

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


class Node:
    def __init__(self, position: Position, prior: np.float32) -> None:
        self.position = position
        self.prior = prior
        self.visits = 0
        self.value = np.float32(0)
        self.children: dict[int, Node] = {}


def simulate(root: Node, evaluator: HashEvaluator, c: float, fpu_value, discount=1.0) -> None:
    """Run one simulation of PUCT from `root`; a bare root is only evaluated."""
    path = [root]
    while path[-1].children:
        node = path[-1]
        exploration = np.float32(c * math.sqrt(node.visits))
        unvisited = np.float32(fpu_value(node))

        def score(child, exploration=exploration, unvisited=unvisited):
            value = -np.float32(discount) * child.value if child.visits else unvisited
            return value + exploration * child.prior / np.float32(1 + child.visits)

        path.append(max(node.children.values(), key=score))
    leaf = path[-1]
    if leaf.position.outcome is not None:
        value = np.float32(leaf.position.outcome)
    else:
        priors, values = evaluator.evaluate(leaf.position.state[None])
        legal = leaf.position.legal_actions
        total = np.float32(0)
        for action in legal:
            total += priors[0, action]
        for action in legal:
            leaf.children[action] = Node(leaf.position.play(action), priors[0, action] / total)
        value = values[0]
    for node in reversed(path):
        node.visits += 1
        node.value += (value - node.value) / np.float32(node.visits)
        value = -np.float32(discount) * value


def search(position: Position, evaluator, simulations: int, c: float, fpu_value, discount=1.0):
    root = Node(position, np.float32(1))
    simulate(root, evaluator, c, fpu_value, discount)
    for _ in range(simulations):
        simulate(root, evaluator, c, fpu_value, discount)
    return root
