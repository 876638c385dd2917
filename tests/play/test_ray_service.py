"""The search service as Ray actors, also those that are lost."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

pytest.importorskip("ray")

from zerolab.core.errors import UserError
from zerolab.core.ray_cluster import ray
from zerolab.play.ray_service import ActorPlace, Actors, RayService, place_actors
from zerolab.play.search_service import SearchService, ServiceSearches
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SPEC = partial(UniformEvaluator, rules.actions(GAME))
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
SEARCHES = ServiceSearches(SEARCH, seed=3, iteration=2, slots=5)
START = Position.start(NAME)
STATES = np.array([START.play(a).play(b).state for a in range(4) for b in range(4)] * 2)


@pytest.fixture(scope="module", autouse=True)
def cluster_on_this_machine():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        yield
    if Actors.current:
        Actors.current.end()


def answered_here(searches):
    with SearchService(GAME, SPEC(), searches) as here:
        return here.search(STATES)


def assert_equal(one, other):
    for name, column in one.columns().items():
        np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)


def test_actors_answer_as_one_process_does_and_search_each_position_once():
    expected = answered_here(SEARCHES)
    with RayService(NAME, SPEC, SEARCHES, 2) as there:
        for _ in range(2):
            assert_equal(there.search(STATES), expected)
        counts = there.counts
    assert (counts["asked"], counts["merged"]) == (64, 32)
    assert (counts["searched"], counts["remembered"]) == (16, 16)
    assert counts["simulations"] == 16 * SEARCH.simulations


def test_actors_outlive_an_iteration_but_not_what_they_remember():
    searches = SEARCHES._replace(iteration=3)
    with RayService(NAME, SPEC, SEARCHES, 2):
        former = Actors.current
    with RayService(NAME, SPEC, searches, 2) as there:
        assert Actors.current is former
        assert_equal(there.search(STATES), answered_here(searches))
        assert there.counts["remembered"] == 0


def test_an_actor_that_is_lost_begins_again():
    expected = answered_here(SEARCHES)
    with RayService(NAME, SPEC, SEARCHES, 2) as there:
        there.search(STATES)
        ray.kill(Actors.current.handles[0], no_restart=False)
        assert_equal(there.search(STATES), expected)
        # The other one remembers.
        assert 16 < there.counts["searched"] < 32


def test_mistakes_of_actors_are_told_and_end_them():
    wrong = partial(parse_game, "chess:8x8")
    with pytest.raises(UserError, match=r"an actor of the search service has failed .*chess"):
        RayService(NAME, wrong, SEARCHES, 2).__enter__()
    with pytest.raises(KeyboardInterrupt), RayService(NAME, SPEC, SEARCHES, 2):
        raise KeyboardInterrupt
    assert Actors.current is None
    assert not ray.is_initialized()


def node(name, cpus, gpus=0):
    resources = {"CPU": float(cpus), "GPU": float(gpus)}
    return {"NodeID": name, "NodeManagerAddress": name, "Resources": resources}


def test_actors_share_what_nodes_have():
    plain, gpus = [node("a", 8), node("b", 5)], [node("a", 16, 2)]
    assert place_actors(plain, 1) == [ActorPlace("a", 8, 0.0)]
    assert place_actors(plain, 3) == [ActorPlace("a", 4, 0.0)] * 2 + [ActorPlace("b", 5, 0.0)]
    assert place_actors(gpus, 2) == [ActorPlace("a", 8, 1.0)] * 2
    assert place_actors(gpus, 4) == [ActorPlace("a", 4, 0.5)] * 4
    with pytest.raises(UserError, match="actors = 17: 9 of them would share the 8 CPUs of node a"):
        place_actors(plain, 17)
