"""Memory limits of a search process, which frees finished trees but not running ones."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_laboratory import GAME, RUN

from zerolab.agents.network_players import SearchPlayer
from zerolab.core.errors import UserError
from zerolab.rules.position import Position
from zerolab.web import live_search, search_process
from zerolab.web.folders import Folders
from zerolab.web.live_search import SearchRequest, find_agent, search_memory_bytes
from zerolab.web.requests import BusyError, Client
from zerolab.web.search_process import BeginCommand, NodeCommand, TaskUpdate

START = Position.start(GAME)


def begin(number: int, simulations: int, *, is_low_priority: bool = False) -> BeginCommand:
    return begin_agent(number, f"mcts:{simulations}", is_low_priority=is_low_priority)


def begin_agent(number: int, agent: str, *, is_low_priority: bool = False) -> BeginCommand:
    return BeginCommand(
        number, Client("a"), SearchRequest(agent, START, Folders()), is_low_priority
    )


def test_trees_share_memory_of_process(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (
        search_memory_bytes(find_agent(f"mcts:{n}", START.game, Folders())) for n in (50, 20_000)
    )
    monkeypatch.setattr(search_process, "_MAX_PROCESS_BYTES", long + short)
    updates = []
    searcher = search_process._Searcher(updates.append)

    def step_until_done(number: int) -> Exception | None:
        while not any(each.task_number == number and each.is_done for each in updates):
            searcher.step()
        return next(each.error for each in updates if each.task_number == number and each.is_done)

    for number in (1, 2):
        searcher.execute(begin(number, 50))
        assert step_until_done(number) is None
    searcher.execute(begin(3, 20_000, is_low_priority=True))  # urgent requests run first
    searcher.step()
    searcher.execute(NodeCommand(4, 1, ()))
    searcher.execute(NodeCommand(5, 2, ()))
    errors = {each.task_number: each.error for each in updates if each.task_number in (4, 5)}
    assert "analyse the position again" in str(errors[4])  # evicted for search 3
    assert errors[5] is None
    searcher.execute(begin(6, 20_000))
    assert isinstance(step_until_done(6), BusyError)  # search 3 is running and needs all memory
    assert step_until_done(3) is None


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("options", ["cache=0", "", "cache=9000&selection.c=2", "cache=1048576"])
def test_estimated_memory_matches_allocation(options: str) -> None:
    agent = find_agent(f"{RUN}?simulations=1000&{options}".rstrip("&"), START.game, Folders())
    player = agent.new_player()
    assert isinstance(player, SearchPlayer)
    player.start(1)
    player.choose(np.zeros(1, np.int64), START.state[None], np.zeros(1, np.uint64))
    memory = player.search._memory
    cache = {id(each.base): each.base for each in memory.cache if each.base is not None}
    own = sum(each.nbytes for each in memory.cache if each.base is None)
    assert agent.bytes_per_player == own + sum(each.nbytes for each in cache.values())
    forest, used = memory.forest, memory.forest.node_count[0]
    trees = sum(each[0, :used].nbytes for each in (forest.nodes, forest.statistics, forest.states))
    assert 0.2 * agent.bytes_per_game <= trees <= agent.bytes_per_game


@pytest.mark.usefixtures("here")
def test_search_with_excessive_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = f"{RUN}?cache=1048576"
    monkeypatch.setattr(
        live_search,
        "_MAX_SEARCH_BYTES",
        search_memory_bytes(find_agent(agent, START.game, Folders())),
    )
    with pytest.raises(UserError, match="MiB to search: expected fewer"):
        find_agent(f"{agent}&simulations=20000", START.game, Folders())


@pytest.mark.usefixtures("here")
def test_evaluation_caches_count_toward_process_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = f"{RUN}?simulations=20000&cache=1048576"
    needed = search_memory_bytes(find_agent(agent, START.game, Folders()))
    monkeypatch.setattr(search_process, "_MAX_PROCESS_BYTES", 2 * needed - 1)
    updates: list[TaskUpdate] = []
    searcher = search_process._Searcher(updates.append)
    searcher.execute(begin_agent(1, agent, is_low_priority=True))  # urgent requests run first
    searcher.step()
    searcher.execute(begin_agent(2, agent))
    while not any(each.is_done for each in updates):
        searcher.step()
    assert [(each.task_number, type(each.error)) for each in updates if each.is_done] == [
        (2, BusyError)
    ]
