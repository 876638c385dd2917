"""The trees of a process: those that are over make room for others, those under way do not."""

from __future__ import annotations

import pytest
from tiny_laboratory import GAME

from zerolab.rules.position import Position
from zerolab.web.clients import Client
from zerolab.web.errors import BusyError
from zerolab.web.folders import Folders
from zerolab.web.searches import process
from zerolab.web.searches.live import Wanted
from zerolab.web.searches.players import find_player
from zerolab.web.searches.process import Begin, Look

START = Position.start(GAME)


def begin(number: int, simulations: int, *, can_wait: bool = False) -> Begin:
    wanted = Wanted(f"mcts:{simulations}", START, Folders())
    return Begin(number, Client("somebody"), wanted, can_wait)


def test_trees_share_the_memory_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (find_player(f"mcts:{n}", START.game, Folders()).slot_bytes for n in (50, 20_000))
    monkeypatch.setattr(process, "_MOST_TREE_BYTES", long + short)
    told = []
    searcher = process._Searcher(told.append)

    def step_until_done(number: int) -> Exception | None:
        while not any(each.number == number and each.is_done for each in told):
            searcher.step()
        return next(each.error for each in told if each.number == number and each.is_done)

    for number in (1, 2):
        searcher.take(begin(number, 50))
        assert step_until_done(number) is None
    searcher.take(begin(3, 20_000, can_wait=True))  # what comes later goes first
    searcher.step()
    searcher.take(Look(4, 1, ()))
    searcher.take(Look(5, 2, ()))
    errors = {each.number: each.error for each in told if each.number in (4, 5)}
    assert "not kept any more" in str(errors[4])  # it had to make room
    assert errors[5] is None
    searcher.take(begin(6, 20_000))
    assert isinstance(step_until_done(6), BusyError)  # 3 is under way and needs all of it
    assert step_until_done(3) is None
