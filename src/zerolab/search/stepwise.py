"""Search in plain Python that records every step of every simulation to show how a search works.

The search makes the same decisions as the compiled search with PUCT, one leaf per step and a
network, and all numbers are bitwise equal. This search is slow, and has no noise, cache or proven
results.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zerolab.core.config import Settings
from zerolab.core.errors import UserError, quoted
from zerolab.rules.position import Position
from zerolab.search.evaluator import Evaluator
from zerolab.search.puct import FixedFpu, ParentFpu, ZeroFpu
from zerolab.search.search_settings import SearchSettings


class ScoredMove(NamedTuple):
    """Child of a node before the simulation, from the point of view of the side to move there."""

    action: int
    visits: int
    """N(s, a)."""
    prior: float
    """P(s, a)."""
    value: float
    """Q(s, a) in [-1, 1]: the mean value, or first-play urgency if the child is unvisited."""
    bonus: float
    """U(s, a): exploration bonus."""
    score: float
    """Q + U, in float32 like the search."""


class Selection(NamedTuple):
    """Choice of a child at a node on the path."""

    visits: int
    """N(s) before the simulation."""
    moves: tuple[ScoredMove, ...]
    """All children, in the order of their actions."""
    chosen: int
    """Action with the highest score; ties go to the lowest action."""


class Leaf(NamedTuple):
    """End of the path: a position that is evaluated and expanded, or the end of a game."""

    outcome: int | None
    """Outcome for the side to move, 1, 0 or -1, if the game is over; otherwise None."""
    value: float
    """Outcome, or the network's value for the side to move."""
    priors: dict[int, float]
    """Priors of the new children by action; empty if the game is over."""


class Backup(NamedTuple):
    """Update of a node on the path with the value of the leaf."""

    leaf_value: float
    """Value of the leaf, for the side to move at the node."""
    visits: int
    """N(s) after the update."""
    mean_before: float
    mean_after: float
    """Mean value of the node before and after, for the side to move at the node."""


class Simulation(NamedTuple):
    """Record of one simulation; the first one, number 0, evaluates the root."""

    number: int
    selections: tuple[Selection, ...]
    """From the root to the parent of the leaf."""
    leaf: Leaf
    backups: tuple[Backup, ...]
    """From the root to the leaf, although the search updates the leaf first."""


class _Node:
    def __init__(self, position: Position, prior: np.float32) -> None:
        self.position = position
        self.prior = prior
        self.visits = 0
        self.value = np.float32(0)
        self.children: dict[int, _Node] = {}


class StepwiseSearch:
    """Search of one position that runs and records one simulation at a time."""

    def __init__(self, position: Position, settings: SearchSettings, evaluator: Evaluator) -> None:
        """Begin a search of an ongoing position.

        `settings` must come from `checked_stepwise_settings`; the `simulations` and `proven_values`
        options are ignored.
        """
        self._c = settings.selection.build().c
        self._fpu: ZeroFpu | ParentFpu | FixedFpu = settings.fpu.build()
        self._discount = np.float32(settings.discount)
        self._evaluator = evaluator
        self._root = _Node(position, np.float32(1))
        self._count = 0

    @property
    def simulation_count(self) -> int:
        """Number of simulations so far, and thus the number of the next one."""
        return self._count

    @property
    def root_visits(self) -> dict[int, int]:
        """Visit counts of the actions at the root; empty before the root is evaluated."""
        return {action: child.visits for action, child in self._root.children.items()}

    def simulate(self) -> Simulation:
        """Run the next simulation; the first one evaluates only the root."""
        path, selections = [self._root], []
        while path[-1].children:
            selection = self._select(path[-1])
            selections.append(selection)
            path.append(path[-1].children[selection.chosen])
        leaf = self._evaluate(path[-1])
        backups = self._back_up(path, np.float32(leaf.value))
        self._count += 1
        return Simulation(self._count - 1, tuple(selections), leaf, backups)

    def _select(self, node: _Node) -> Selection:
        exploration = np.float32(self._c * math.sqrt(node.visits))
        unvisited = self._unvisited_value(node)
        moves = []
        for action, child in node.children.items():
            value = -self._discount * child.value if child.visits else unvisited
            bonus = exploration * child.prior / np.float32(1 + child.visits)
            numbers = (float(each) for each in (child.prior, value, bonus, value + bonus))
            moves.append(ScoredMove(action, child.visits, *numbers))
        best = max(moves, key=lambda each: each.score)
        return Selection(node.visits, tuple(moves), best.action)

    def _unvisited_value(self, node: _Node) -> np.float32:
        """Return first-play urgency, the value of unvisited children."""
        if isinstance(self._fpu, ParentFpu):
            return np.float32(node.value - np.float32(self._fpu.reduction))
        return np.float32(self._fpu.value if isinstance(self._fpu, FixedFpu) else 0.0)

    def _evaluate(self, node: _Node) -> Leaf:
        """Return the outcome of a leaf, or expand it and return the network's value."""
        outcome = node.position.outcome
        if outcome is not None:
            return Leaf(outcome, float(outcome), {})
        priors, values = self._evaluator.evaluate(node.position.state[None])
        legal = node.position.legal_actions
        total = np.float32(0)
        for action in legal:  # in the compiled search's order, so that the sums are equal
            total += priors[0, action]
        is_usable = total > 0 and bool(np.isfinite(total))
        equal = np.float32(1 / len(legal))
        for action in legal:
            prior = priors[0, action] / total if is_usable else equal
            node.children[action] = _Node(node.position.play(action), prior)
        shares = {action: float(child.prior) for action, child in node.children.items()}
        return Leaf(None, float(values[0]), shares)

    def _back_up(self, path: list[_Node], value: np.float32) -> tuple[Backup, ...]:
        backups = []
        for node in reversed(path):
            before = float(node.value)
            node.visits += 1
            node.value += (value - node.value) / np.float32(node.visits)
            backups.append(Backup(float(value), node.visits, before, float(node.value)))
            value = -self._discount * value
        return tuple(reversed(backups))


def checked_stepwise_settings(settings: Settings | None, name: str) -> SearchSettings:
    """Return an agent's settings if `StepwiseSearch` can follow them; otherwise raise UserError.

    Players of a single game may use virtual loss despite their settings
    (`SearchPlayer.enable_virtual_loss`); such searches are shown with one leaf per step. `name` is
    the agent's name in the message.
    """
    if not isinstance(settings, SearchSettings) or settings.leaf_evaluator.name != "network":
        raise UserError(
            f"{name} does not evaluate the leaves of a tree with a network: expected a run, such as"
            " runs/demo"
        )
    expected = {
        "selection": (settings.selection.name, ("puct",)),
        "fpu": (settings.fpu.name, ("zero", "parent", "fixed")),
        "root": (settings.root.name, ("puct",)),
        "tie_break": (settings.tie_break, ("first",)),
        "draw_value": (settings.draw_value, (0.0,)),
        "leaves_per_step": (settings.leaves_per_step, (1,)),
    }
    for key, (value, possible) in expected.items():
        if value not in possible:
            names = " or ".join(str(each) for each in possible)
            raise UserError(
                f"{name} has {key} = {quoted(value)}: expected {names} to show single simulations"
            )
    return settings
