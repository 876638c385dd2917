"""Selection rules and leaf evaluators registered by other packages."""

from __future__ import annotations

from typing import NamedTuple

from search.test_search import run
from zerolab.core.config import validate
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.methods import LeafEvaluatorRule, register_leaf_evaluator, register_selection
from zerolab.search.puct import PuctRule, Uct
from zerolab.search.search import Search
from zerolab.search.search_settings import SearchSettings


class Pessimist(NamedTuple):
    loss: float = 0.5


@register_leaf_evaluator("pessimist", Pessimist)
class PessimistRule(LeafEvaluatorRule):
    @staticmethod
    def leaf_value(rule, game, state, evaluator_value, key, playout_state, playout_moves):
        playout_moves[0] = 1
        playout_moves[1] = 3
        return evaluator_value - rule.loss


class Counting(NamedTuple):
    c: float = 1.0


@register_selection("counting", Counting)
class CountingRule(PuctRule):
    """PUCT with root statistics: number of updates, and sum of the leaf evaluator's moves."""

    @staticmethod
    def statistics_width(rule):
        return 2

    @staticmethod
    def update_statistics(rule, tree, b, leaf, backup_value, playout_moves):
        tree.statistics[b, 0, 0] += 1.0
        if playout_moves[0] == 1:
            tree.statistics[b, 0, 1] += playout_moves[1]


def test_registered_rules_run_in_the_kernels():
    start = Position.start("connect_four:5x5")
    puct = SearchSettings(simulations=30)
    settings = puct.model_copy(
        update={
            "selection": _Prebuilt(Counting()),
            "leaf_evaluator": _Prebuilt(Pessimist(loss=0.25)),
        }
    )
    search: Search = run(start.game, settings, UniformEvaluator(5), [start])
    updates, moves = search._tree.statistics[0, 0]
    assert updates == 31
    assert moves == 3 * (30 - search.work_counts["terminal"])
    plain = run(start.game, puct, UniformEvaluator(5), [start])
    assert plain._tree.value[0, 0] == 0.0
    assert search._tree.value[0, 0] != 0.0


def test_builtin_rules_are_selected_by_name():
    settings = validate(SearchSettings, {"selection": {"name": "uct", "c": 0.5}})
    assert settings.selection.build() == Uct(0.5)


class _Prebuilt:
    def __init__(self, rule):
        self.rule = rule

    def build(self):
        return self.rule
