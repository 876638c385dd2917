"""The search service as Ray actors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("ray")

from zerolab.core.errors import UserError
from zerolab.play.service.ray_service import RayService
from zerolab.play.service.service import Searches, SearchService
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.interface import UniformEvaluator
from zerolab.search.settings import SearchSettings

NAME = "connect_four:4x4"
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})


def test_actors_answer_as_one_process_does_and_search_each_position_once(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    start = Position.start(NAME)
    states = np.array([start.play(a).play(b).state for a in range(4) for b in range(4)] * 2)
    game = parse_game(NAME)
    spec = partial(UniformEvaluator, rules.actions(game))
    searches = Searches(SEARCH, seed=3, iteration=2, slots=5)
    with SearchService(game, spec(), searches) as here:
        expected = here.ask(states)
    with RayService(NAME, spec, searches, 2) as there:
        for found in (there.ask(states), there.ask(states)):
            for name, one, other in zip(expected._fields, expected, found, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)
        counts = there.counts
        with pytest.raises(UserError, match="uses Ray already"):
            RayService(NAME, spec, searches, 2).__enter__()
    assert (counts["asked"], counts["merged"]) == (64, 32)
    assert (counts["searched"], counts["remembered"]) == (16, 16)
    assert counts["simulations"] == 16 * SEARCH.simulations
