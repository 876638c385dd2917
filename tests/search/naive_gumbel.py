"""Plain reference implementation of Gumbel root search [Danihelka2022; mctx]."""

from __future__ import annotations

import math

import numpy as np

from search.naive import Node, Rules, simulate


def considered_visits(most, simulations):
    """Return the visit count of the child to select in each simulation, as a list."""
    if most <= 1:
        return list(range(simulations))
    phases = math.ceil(math.log2(most))
    visits, remaining, sequence = [0] * most, most, []
    while len(sequence) < simulations:
        for _ in range(max(1, int(simulations / (phases * remaining)))):
            sequence += visits[:remaining]
            visits[:remaining] = [count + 1 for count in visits[:remaining]]
        remaining = max(2, remaining // 2)
    return sequence[:simulations]


class GumbelSearch:
    """Gumbel search of one position."""

    def __init__(
        self, position, evaluator, simulations, gumbel, considered, weight, scale, c, discount
    ):
        self.weight, self.scale, self.discount = weight, scale, discount
        rules = Rules(c, discount=discount)
        self.root = Node(position, np.float32(1))
        simulate([self.root], evaluator, rules)
        self.raw = float(self.root.value)
        self.children = list(self.root.children.values())
        self.actions = list(self.root.children)
        self.logits = np.log([child.prior for child in self.children])
        self.gumbel = gumbel[: len(self.children)]
        most = min(considered, len(self.children))
        for count in considered_visits(most, simulations):
            scores = self.gumbel + self.logits + self.sigma()
            scores[self.visits() != count] = -np.inf
            chosen = self.children[int(scores.argmax())]
            simulate([self.root, chosen], evaluator, rules)

    def visits(self):
        return np.array([child.visits for child in self.children])

    def sigma(self):
        visits = self.visits()
        values = np.array([-self.discount * float(child.value) for child in self.children])
        priors = np.exp(self.logits)
        visited = visits > 0
        mixed = self.raw
        if visited.any():
            weighted = (priors * values)[visited].sum() / priors[visited].sum()
            mixed = (self.raw + visits.sum() * weighted) / (1 + visits.sum())
        return (self.weight + visits.max()) * self.scale * np.where(visited, values, mixed)

    def policy(self):
        logits = self.logits + self.sigma()
        shares = np.exp(logits - logits.max())
        return dict(zip(self.actions, shares / shares.sum(), strict=True))

    def move(self):
        scores = self.gumbel + self.logits + self.sigma()
        scores[self.visits() < self.visits().max()] = -np.inf
        return self.actions[int(scores.argmax())]
