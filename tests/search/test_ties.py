"""Equal scores: the lowest action first, as in the papers' framework, or one at random."""

from __future__ import annotations

import numpy as np
import pytest

from search.test_search import run
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import mcts_settings

CELLS, SIMULATIONS, TREES = 36, 25, 720


def visits_of_mcts(tie_break, trees=TREES, key=0):
    """Return the root visits of plain MCTS with fewer simulations than there are cells."""
    start = Position.start("gobang:6x6:4")
    settings = mcts_settings(SIMULATIONS).model_copy(update={"tie_break": tie_break})
    made = run(start.game, settings, UniformEvaluator(CELLS), [start] * trees, key)
    return made.visits(np.arange(trees))


def test_at_random_every_action_is_tried_equally_often():
    visits = visits_of_mcts("random")
    assert visits.max() == 1
    tried = visits.sum(axis=0)
    share = SIMULATIONS / CELLS
    deviation = np.sqrt(TREES * share * (1 - share))
    assert tried == pytest.approx(TREES * share, abs=4.5 * deviation)


def test_random_ties_depend_on_their_stream_alone():
    visits = visits_of_mcts("random", 9)
    assert (visits_of_mcts("random", 3) == visits[:3]).all()
    assert (visits_of_mcts("random", 9, key=1) != visits).any()
    assert len(np.unique(visits, axis=0)) == 9


def test_lowest_first_never_tries_the_last_cells():
    """Why opponents that are to be beaten should break ties at random."""
    tried = visits_of_mcts("first", 20).sum(axis=0)
    assert tried.tolist() == [20] * SIMULATIONS + [0] * (CELLS - SIMULATIONS)
