"""Class with a server and a client for each member, and tournaments without a process."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient

from forks import wait_for
from zerolab.web import classroom
from zerolab.web.classroom import Classroom
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.server import make_app

SMALL = "gobang:3x3:3"


class Members:
    """A class with a server, and a client for each of its tokens."""

    def __init__(self, folder, names):
        self.classroom = Classroom.open(folder, names)
        self.classroom.update_state(game=SMALL)
        self.laboratory = Laboratory(Folders(), workers=0, classroom=self.classroom)
        self.app = make_app(self.laboratory)
        self.teacher = self.client(self.classroom.state.teacher)
        self.pupils = {each.name: self.client(each.token) for each in self.classroom.state.pupils}

    def client(self, token):
        """Return a client that sends a token."""
        headers = {"authorization": f"Bearer {token}"}
        return TestClient(self.app, base_url="http://localhost", headers=headers)

    def bring(self, name, kind="random", **choice):
        """Let a pupil bring an agent."""
        return self.pupils[name].post("/api/v1/class/mine", json={"kind": kind, **choice})

    def start(self, games=2, game=SMALL):
        """Let the teacher start a tournament."""
        body = {"game": game, "games_per_pair": games, "opening_plies": 1}
        return self.teacher.post("/api/v1/class/manage/start", json=body)

    def finished(self):
        """Return the standings at the end of the tournament."""
        wait_for(lambda: not self.classroom.state.tournament.is_playing, 400)
        return self.standings()

    def standings(self):
        """Return the current standings."""
        return self.teacher.get("/api/v1/class/standings").json()


@pytest.fixture
def group_of(here):
    """Function that returns the members of a class in a folder; their servers end with the test."""
    with ExitStack() as stack:

        def opened(folder, names):
            group = Members(folder, names)
            stack.callback(group.laboratory.close)
            return group

        yield opened


@pytest.fixture
def members(group_of, tmp_path):
    """A class of two pupils."""
    return group_of(tmp_path / "class", ["Ada", "Ben"])


@pytest.fixture
def at_once(monkeypatch):
    """Tournaments that are played within the request that starts them."""

    class Pool:
        def schedule(self, function, args):
            future = classroom.Future()
            try:
                future.set_result(function(*args))
            except Exception as error:
                future.set_exception(error)
            return future

        def stop(self):
            pass

        def join(self, timeout):
            pass

    monkeypatch.setattr(classroom, "process_pool", lambda count, module: Pool())
    monkeypatch.setattr(classroom.os, "nice", lambda step: None)
