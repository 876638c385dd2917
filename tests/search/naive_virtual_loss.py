"""Plain reference implementation of search with virtual loss."""

from __future__ import annotations

import math

import numpy as np

from search.naive import HashEvaluator
from zerolab.rules.position import Position


class Node:
    """Visit count and value total, including those of waiting simulations."""

    def __init__(self, position: Position, prior: float, is_root: bool = False) -> None:
        self.position = position
        self.prior = prior
        self.virtual = 0.0 if is_root else 1.0
        self.visits = 0
        self.total = 0.0
        self.children: list[Node] = []


def descend(root: Node, c: float) -> list[Node]:
    path = [root]
    while path[-1].children:
        node = path[-1]

        def score(child, node=node):
            value = -child.total / child.visits if child.visits else 0.0
            return value + c * math.sqrt(node.visits) * child.prior / (1 + child.visits)

        path.append(max(node.children, key=score))
    return path


def back_up(path: list[Node], value: float, was_waiting: bool) -> None:
    for node in reversed(path):
        node.visits += not was_waiting
        node.total += value - node.virtual * was_waiting
        value = -value


def evaluate(leaf: Node, evaluator: HashEvaluator) -> float:
    priors, values = evaluator.evaluate(leaf.position.state[None])
    legal = leaf.position.legal_actions
    total = priors[0, legal].sum(dtype=np.float32)
    leaf.children = [
        Node(leaf.position.play(action), priors[0, action] / total) for action in legal
    ]
    return float(values[0])


def step(root: Node, evaluator: HashEvaluator, remaining: int, most: int, c: float) -> int:
    """Run one step; return the number of remaining simulations."""
    waiting: list[list[Node]] = []
    while len(waiting) < min(most, remaining):
        path = descend(root, c)
        if any(path[-1] is other[-1] for other in waiting):
            break
        outcome = path[-1].position.outcome
        if outcome is not None:
            back_up(path, float(outcome), False)
            remaining -= 1
            continue
        for node in path:
            node.visits += 1
            node.total += node.virtual
        waiting.append(path)
    for path in waiting:
        back_up(path, evaluate(path[-1], evaluator), True)
    return remaining - len(waiting)


def search(
    position: Position, evaluator: HashEvaluator, simulations: int, most: int, c: float
) -> Node:
    """Search a position with up to `most` leaves per step."""
    root = Node(position, 1.0, is_root=True)
    step(root, evaluator, 1, 1, c)
    while simulations:
        simulations = step(root, evaluator, simulations, most, c)
    return root
