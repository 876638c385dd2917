"""Search that records its steps, with the same decisions as the compiled search."""

from __future__ import annotations

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.core.errors import UserError
from zerolab.rules import rules
from zerolab.rules.position import Position
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings, mcts_settings
from zerolab.search.stepwise import StepwiseSearch, checked_stepwise_settings

SIMULATIONS = 200
SETTINGS = {
    "zero": {},
    "parent": {"fpu": {"name": "parent", "reduction": 0.3}},
    "fixed": {"fpu": {"name": "fixed", "value": 0.4}, "discount": 0.97},
}


def _search(position: Position, settings: SearchSettings, evaluator: HashEvaluator) -> Search:
    """Return a finished search of the position."""
    search = Search(position.game, settings, evaluator, 1)
    slots = np.zeros(1, np.int64)
    search.set_root(slots, position.state[None])
    keys = np.zeros(1, np.uint64)
    search.start_search(slots, keys, keys)
    search.run()
    return search


def _evaluator(position: Position) -> HashEvaluator:
    return HashEvaluator(rules.action_count(position.game))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("game", ["connect_four:5x5", "othello:4x4", "gobang:5x5:4"])
def test_visits_and_values_equal_those_of_compiled_search(game: str, name: str) -> None:
    position = Position.start(game)
    position = position.play(position.legal_actions[1])
    settings = SearchSettings.model_validate(
        {"simulations": SIMULATIONS, "selection": {"name": "puct", "c": 1.3}, **SETTINGS[name]}
    )
    stepwise = StepwiseSearch(position, settings, _evaluator(position))
    last = [stepwise.simulate() for _ in range(1 + SIMULATIONS)][-1]
    result = _search(position, settings, _evaluator(position)).result(0)
    visits = {action: int(result.visits[action]) for action in position.legal_actions}
    assert stepwise.root_visits == visits
    assert last.number == SIMULATIONS
    assert last.backups[0].mean_after == result.root_value
    for each in last.selections[0].moves:
        if each.action != last.selections[0].chosen:  # the last simulation changes only this one
            assert each.value == result.action_values[each.action] or each.visits == 0
            assert each.prior == result.priors[each.action]


class UnusablePriors(HashEvaluator):
    """Evaluator with equal, unusable priors: 0, infinity or NaN."""

    def __init__(self, actions: int, prior: float) -> None:
        super().__init__(actions)
        self.prior = prior

    def evaluate(self, states):
        priors, values = super().evaluate(states)
        return np.full_like(priors, self.prior), values


@pytest.mark.parametrize("prior", [0.0, np.inf, np.nan])
def test_unusable_priors_are_replaced_by_equal_ones(prior: float) -> None:
    position = Position.start("connect_four:4x4:3")
    evaluator = UnusablePriors(rules.action_count(position.game), prior)
    settings = SearchSettings(simulations=SIMULATIONS)
    stepwise = StepwiseSearch(position, settings, evaluator)
    for _ in range(1 + SIMULATIONS):
        stepwise.simulate()
    visits = _search(position, settings, evaluator).result(0).visits
    assert stepwise.root_visits == {action: visits[action] for action in position.legal_actions}


def test_record_of_simulation_adds_up() -> None:
    """Every number follows from the others: the formula, the choice, and the mean."""
    position = Position.start("connect_four:4x4:3")
    settings = SearchSettings.model_validate({"selection": {"name": "puct", "c": 2.0}})
    search = StepwiseSearch(position, settings, _evaluator(position))
    for number in range(SIMULATIONS):
        simulation = search.simulate()
        assert len(simulation.backups) == len(simulation.selections) + 1
        for selection in simulation.selections:
            assert selection.visits == 1 + sum(each.visits for each in selection.moves)
            assert sum(each.prior for each in selection.moves) == pytest.approx(1, abs=1e-5)
            for each in selection.moves:
                bonus = 2 * each.prior * selection.visits**0.5 / (1 + each.visits)
                assert each.bonus == pytest.approx(bonus, rel=1e-5)
                assert each.score == pytest.approx(each.value + each.bonus, abs=1e-6)
            best = max(each.score for each in selection.moves)
            chosen = [each for each in selection.moves if each.action == selection.chosen]
            assert chosen[0].score == best
        signs = [(-1) ** depth for depth in reversed(range(len(simulation.backups)))]
        for sign, backup in zip(signs, simulation.backups, strict=True):
            assert backup.leaf_value == pytest.approx(sign * simulation.leaf.value)
            step = (backup.leaf_value - backup.mean_before) / backup.visits
            assert backup.mean_after == pytest.approx(backup.mean_before + step, abs=1e-6)
        assert sum(search.root_visits.values()) == number


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (mcts_settings(10), "expected a run"),
        (None, "expected a run"),
        (SearchSettings.model_validate({"root": "gumbel"}), 'root = "gumbel": expected puct'),
        (SearchSettings(tie_break="random"), 'tie_break = "random": expected first'),
        (SearchSettings(leaves_per_step=8), "leaves_per_step = 8: expected 1"),
    ],
)
def test_other_searches_are_rejected(settings: SearchSettings | None, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        checked_stepwise_settings(settings, "an agent")
