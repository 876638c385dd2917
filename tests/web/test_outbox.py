"""Messages that wait for a process: their order, their bound, and drops."""

from __future__ import annotations

import threading

import pytest
from tiny_laboratory import GAME

from zerolab.rules.position import Position
from zerolab.web import search_worker
from zerolab.web.folders import Folders
from zerolab.web.live_search import SearchRequest
from zerolab.web.requests import BusyError, Client
from zerolab.web.search_process import Begin, Drop, Look
from zerolab.web.search_worker import Outbox

WANTED = SearchRequest("random", Position.start(GAME), Folders())


def begin(number: int) -> Begin:
    return Begin(number, Client("a"), WANTED, False)


def taken(box: Outbox) -> list[Begin | Look | Drop | None]:
    found = []
    while not box.is_empty:
        found.append(box.take())
    return found


def test_messages_are_handed_over_in_order() -> None:
    box, look = Outbox(), Look(2, 1, ())
    messages = [begin(1), look, begin(3)]
    for each in messages:
        box.put(each)
    assert taken(box) == messages
    box.drop(3)
    box.put(begin(4))
    box.drop(1)
    assert taken(box) == [Drop(3), begin(4), Drop(1)]


def test_what_is_dropped_before_it_was_handed_over_is_forgotten() -> None:
    box = Outbox()
    for number in (1, 2, 3):
        box.put(begin(number))
    box.put(Look(4, 1, ()))
    box.drop(2)
    box.withdraw(4)
    box.withdraw(4)
    assert taken(box) == [begin(1), begin(3)]


def test_drops_are_taken_however_full_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_worker, "MAX_WAITING", 2)
    box = Outbox()
    for number in (1, 2):
        box.put(begin(number))
    with pytest.raises(BusyError):
        box.put(begin(3))
    for number in (7, 8, 9, 9):  # have been handed over before
        box.drop(number)
    assert box.is_full
    box.drop(2)
    box.put(begin(4))
    assert taken(box) == [begin(1), Drop(7), Drop(8), Drop(9), begin(4)]
    assert not box.is_full


def test_who_waits_for_a_message_is_told_of_the_end() -> None:
    box, found = Outbox(), []
    waiting = threading.Thread(target=lambda: found.append(box.take()))
    waiting.start()
    box.close()
    waiting.join(20)
    assert found == [None]
