"""Order, capacity and dropped messages of the outbox for a search process."""

from __future__ import annotations

import threading

import pytest
from tiny_laboratory import GAME

from zerolab.rules.position import Position
from zerolab.web import search_worker
from zerolab.web.folders import Folders
from zerolab.web.live_search import SearchRequest
from zerolab.web.requests import BusyError, Client
from zerolab.web.search_process import BeginCommand, DropCommand, NodeCommand
from zerolab.web.search_worker import Outbox

REQUEST = SearchRequest("random", Position.start(GAME), Folders())


def begin(number: int) -> BeginCommand:
    return BeginCommand(number, Client("a"), REQUEST, False)


def drain(box: Outbox) -> list[BeginCommand | NodeCommand | DropCommand | None]:
    messages = []
    while not box.is_empty:
        messages.append(box.take())
    return messages


def test_messages_are_taken_in_order() -> None:
    box, node = Outbox(), NodeCommand(2, 1, ())
    messages = [begin(1), node, begin(3)]
    for each in messages:
        box.put(each)
    assert drain(box) == messages
    box.drop_search(3)
    box.put(begin(4))
    box.drop_search(1)
    assert drain(box) == [DropCommand(3), begin(4), DropCommand(1)]


def test_searches_dropped_before_sending_are_forgotten() -> None:
    box = Outbox()
    for number in (1, 2, 3):
        box.put(begin(number))
    box.put(NodeCommand(4, 1, ()))
    box.drop_search(2)
    box.withdraw_node_command(4)
    box.withdraw_node_command(4)
    assert drain(box) == [begin(1), begin(3)]


def test_full_outbox_accepts_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_worker, "MAX_WAITING_COMMANDS", 2)
    box = Outbox()
    for number in (1, 2):
        box.put(begin(number))
    with pytest.raises(BusyError):
        box.put(begin(3))
    for number in (7, 8, 9, 9):  # sent earlier
        box.drop_search(number)
    assert box.is_full
    box.drop_search(2)
    box.put(begin(4))
    assert drain(box) == [begin(1), DropCommand(7), DropCommand(8), DropCommand(9), begin(4)]
    assert not box.is_full


def test_closing_wakes_waiting_reader() -> None:
    box, messages = Outbox(), []
    reader = threading.Thread(target=lambda: messages.append(box.take()))
    reader.start()
    box.close()
    reader.join(20)
    assert messages == [None]
