"""The search service as Ray actors: results, restarts, errors and placement."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest

pytest.importorskip("ray")

from forks import wait_for
from zerolab.core.errors import UserError
from zerolab.core.ray_cluster import ray
from zerolab.play.ray_service import ActorGroup, ActorPlacement, RaySearchService, place_actors
from zerolab.play.search_service import ServiceSettings, ThreadSearchService
from zerolab.rules import rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search_settings import SearchSettings

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SPEC = partial(UniformEvaluator, rules.action_count(GAME))
SEARCH = SearchSettings.model_validate({"simulations": 8, "noise": {"fraction": 0.25}})
SEARCHES = ServiceSettings(SEARCH, seed=3, iteration=2, slots=5)
START = Position.start(NAME)
STATES = np.array([START.play(a).play(b).state for a in range(4) for b in range(4)] * 2)


@pytest.fixture(scope="module", autouse=True)
def cluster_on_this_machine():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        yield
    if ActorGroup.current:
        ActorGroup.current.terminate()


def local_results(searches):
    with ThreadSearchService(GAME, SPEC(), searches) as service:
        return service.search(STATES)


def assert_equal(one, other):
    for name, column in one.columns().items():
        np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)


def test_actors_agree_with_one_process_and_search_each_position_once():
    expected = local_results(SEARCHES)
    with RaySearchService(NAME, SPEC, SEARCHES, 2) as service:
        for _ in range(2):
            assert_equal(service.search(STATES), expected)
        counts = service.search_counts
    assert (counts["asked"], counts["merged"]) == (64, 32)
    assert (counts["searched"], counts["remembered"]) == (16, 16)
    assert counts["simulations"] == 16 * SEARCH.simulations


def test_actors_survive_iterations_without_their_cache():
    searches = SEARCHES._replace(iteration=3)
    with RaySearchService(NAME, SPEC, SEARCHES, 2):
        actors = ActorGroup.current
    with RaySearchService(NAME, SPEC, searches, 2) as service:
        assert ActorGroup.current is actors
        assert_equal(service.search(STATES), local_results(searches))
        assert service.search_counts["remembered"] == 0


def process_of(actor):
    """Return the number of an actor's process; None while it is restarted."""
    try:
        return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    except ray.exceptions.RayActorError:
        return None


def test_killed_actor_is_restarted():
    expected = local_results(SEARCHES)
    with RaySearchService(NAME, SPEC, SEARCHES, 2) as service:
        service.search(STATES)
        (killed, *_) = ActorGroup.current.handles
        before = process_of(killed)
        ray.kill(killed, no_restart=False)
        wait_for(lambda: process_of(killed) not in (None, before))
        assert_equal(service.search(STATES), expected)
        # The other actor still has its cache.
        assert 16 < service.search_counts["searched"] < 32


def test_errors_of_actors_are_reported_and_end_them():
    failing_spec = partial(parse_game, "chess:8x8")
    with pytest.raises(KeyboardInterrupt), RaySearchService(NAME, SPEC, SEARCHES, 2):
        raise KeyboardInterrupt
    assert ActorGroup.current is None
    assert not ray.is_initialized()
    with pytest.raises(UserError, match=r"an actor of the search service has failed .*chess"):
        RaySearchService(NAME, failing_spec, SEARCHES, 1).__enter__()
    assert ActorGroup.current is None
    assert not ray.is_initialized()


def node(name, cpus, gpus=0):
    resources = {"CPU": float(cpus), "GPU": float(gpus)}
    return {"NodeID": name, "NodeManagerAddress": name, "Resources": resources}


def test_actors_share_resources_of_nodes():
    plain, gpus = [node("a", 8), node("b", 5)], [node("a", 16, 2)]
    assert place_actors(plain, 1) == [ActorPlacement("a", 8, 0.0)]
    assert place_actors(plain, 3) == [ActorPlacement("a", 4, 0.0)] * 2 + [
        ActorPlacement("b", 5, 0.0)
    ]
    assert place_actors(gpus, 2) == [ActorPlacement("a", 8, 1.0)] * 2
    assert place_actors(gpus, 4) == [ActorPlacement("a", 4, 0.5)] * 4
    with pytest.raises(UserError, match="actors = 17: 9 actors would share the 8 CPUs of node a"):
        place_actors(plain, 17)
