"""Class: tokens, limits, agents that pupils bring, and a tournament that survives a kill."""

from __future__ import annotations

import json
import shutil
import stat
import time

import pytest

pytest.importorskip("fastapi", reason="the extra web is not installed")

from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.agents.kinds.file import encode_agent_of_run
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.play.tournament import Tournament
from zerolab.store.run_folder import RunFolder
from zerolab.web import class_play, security
from zerolab.web.app import make_app
from zerolab.web.class_play import play_tournament
from zerolab.web.classroom import Classroom, class_names, link_table
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.requests import BusyError, Client, Quota, pupil_address
from zerolab.web.routes import classes

SMALL = "gobang:3x3:3"


class Members:
    """A class with a server, and a client for each of its tokens."""

    def __init__(self, folder, names):
        self.classroom = Classroom.open(folder, names)
        self.classroom.change(game=SMALL)
        self.laboratory = Laboratory(Folders(), workers=0, classroom=self.classroom)
        self.app = make_app(self.laboratory)
        self.teacher = self.client(self.classroom.record.teacher)
        self.pupils = {each.name: self.client(each.token) for each in self.classroom.record.pupils}

    def client(self, token):
        """Return a client that sends a token."""
        headers = {"authorization": f"Bearer {token}"}
        return TestClient(self.app, base_url="http://localhost", headers=headers)

    def bring(self, name, kind="random", **choice):
        """Let a pupil bring an agent."""
        return self.pupils[name].post("/api/v1/class/mine", json={"kind": kind, **choice})

    def start(self, games=2):
        """Let the teacher start a tournament."""
        body = {"game": SMALL, "games": games, "openings": 1}
        return self.teacher.post("/api/v1/class/manage/start", json=body)

    def finished(self):
        """Return the standings at the end of the tournament."""
        while (shown := self.standings())["tournament"]["playing"]:
            time.sleep(0.02)
        return shown

    def standings(self):
        """Return the current standings."""
        return self.teacher.get("/api/v1/class/standings").json()


@pytest.fixture
def members(here, tmp_path):
    """A class of two pupils."""
    group = Members(tmp_path / "class", ["Ada", "Ben"])
    yield group
    group.laboratory.close()


@pytest.fixture
def in_thread(monkeypatch):
    """Tournaments that are played in the server's process as soon as they are started."""

    class Pool:
        def schedule(self, function, args):
            future = class_play.Future()
            try:
                future.set_result(function(*args))
            except UserError as error:
                future.set_exception(error)
            return future

        def stop(self):
            pass

        def join(self, timeout):
            pass

    monkeypatch.setattr(class_play, "process_pool", lambda count, module: Pool())
    monkeypatch.setattr(class_play.os, "nice", lambda step: None)


def test_unknown_and_missing_tokens_are_refused(members):
    for token in ("", "x", members.classroom.record.teacher[:-1]):
        stranger = members.client(token)
        for path in ("/", "/wall", "/api/v1/class/standings", "/api/v1/server"):
            assert stranger.get(path).status_code == 401


def test_link_with_token_sets_cookie_and_wrong_one_changes_nothing(members):
    token = members.classroom.record.pupils[0].token
    browser = TestClient(members.app, base_url="http://localhost")
    assert browser.get(f"/pupil?token={token}").status_code == 200
    server = browser.get("/api/v1/server").json()
    assert (server["role"], server["pupil"]) == ("pupil", "Ada")
    assert browser.get("/wall?token=wrong", follow_redirects=False).status_code == 200
    assert "set-cookie" not in browser.get("/wall?token=wrong").headers


def test_pupil_cannot_do_what_the_teacher_can(members):
    pupil = members.pupils["Ada"]
    assert pupil.get("/class").status_code == 403
    assert pupil.get("/api/v1/class/manage").status_code == 403
    for path in ("class/manage/start", "class/manage/stop", "training/start", "agents"):
        response = pupil.post(f"/api/v1/{path}", json={})
        assert response.status_code == 403
        assert "only the teacher" in response.json()["error"]
    assert members.teacher.get("/class").status_code == 200
    assert members.teacher.post("/api/v1/class/mine", json={"kind": "random"}).status_code == 403


def test_pupil_can_send_only_what_the_pages_of_pupils_need(members):
    routes = members.app.openapi()["paths"]
    paths = {path.removeprefix("/api/v1/") for path in routes if "get" not in routes[path]}
    paths |= {"class/mine"}  # can be read, too
    assert {"tournaments/start", "tournaments/stop", "tournaments/resume"} < paths
    reached = set()
    for path in paths:
        response = members.pupils["Ada"].post(f"/api/v1/{path}", json={})
        if response.status_code != 403:
            reached.add(path)
        assert "only the teacher" not in members.teacher.post(f"/api/v1/{path}", json={}).text
    assert reached == {
        "class/mine", "class/file", "puzzles/answer", "position", "line", "opening", "move",
        "analysis", "solution", "agent", "values", "simulation",
    }  # fmt: skip


def test_links_at_top_depend_on_role(members):
    teacher, pupil = members.teacher.get("/wall").text, members.pupils["Ada"].get("/wall").text
    assert ('href="/class"' in teacher, 'href="/pupil"' in teacher) == (True, False)
    assert ('href="/class"' in pupil, 'href="/pupil"' in pupil) == (False, True)


def test_rate_is_limited_per_pupil_and_not_per_address(members, monkeypatch):
    monkeypatch.setattr(security, "_RATE", 0.0)
    monkeypatch.setattr(security, "_BURST", 100.0)
    ada, ben = members.pupils.values()
    answers = [ada.get("/api/v1/server").status_code for _ in range(12)]
    assert answers == [200] * 10 + [429] * 2  # a tenth of the limit of an address
    assert ben.get("/api/v1/server").status_code == 200


def test_all_pages_of_a_pupil_share_the_limit_of_one_page():
    quota = Quota("searches", total=100, per_address=50, per_page=3)
    ada, ben = pupil_address("Ada"), pupil_address("Ben")
    for page in ("1", "2", "3"):
        quota.acquire(Client(ada, page))
    with pytest.raises(BusyError, match="3 searches"):
        quota.acquire(Client(ada, "4"))
    quota.acquire(Client(ben, "4"))
    for page in range(10):
        quota.acquire(Client("192.0.2.1", str(page)))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"kind": "mcts", "playouts": 1001}, "1000"),
        ({"kind": "mcts", "playouts": 0}, "1"),
        ({"kind": "gtp:program"}, "kind"),
        ({"kind": "network", "network": "/etc/passwd"}, "not served"),
        ({"kind": "network", "network": f"{RUN}?simulations=100000"}, "expected a run"),
        ({"kind": "network", "network": RUN}, "connect_four"),
    ],
)
def test_agents_that_cannot_play_are_refused(members, choice, expected):
    response = members.pupils["Ada"].post("/api/v1/class/mine", json=choice)
    assert response.status_code in (400, 403, 422)
    assert expected in response.json()["error"]
    assert members.classroom.pupil("Ada").agent == ""


def test_pupil_brings_network_or_file_and_old_file_is_removed(members):
    members.classroom.change(game=GAME)
    assert members.bring("Ada", "network", network=RUN, playouts=7).json()["agent"] == (
        f"{RUN}?simulations=7"
    )
    content = encode_agent_of_run(RunFolder.open(Folders().runs[0] / "tiny"), 1)
    response = members.pupils["Ada"].post("/api/v1/class/file", content=content)
    # The class of this test is outside the served folders, unlike that of a server.
    assert response.status_code == 403
    assert list(members.classroom.uploads.iterdir()) == []


def test_uploaded_file_is_checked_and_never_replaced_by_nonsense(here):
    folders = Folders()
    group = Members(folders.classroom, ["Ada", "Ben"])
    group.classroom.change(game=GAME)
    ada = group.pupils["Ada"]
    content = encode_agent_of_run(RunFolder.open(folders.runs[0] / "tiny"), 1)
    brought = ada.post("/api/v1/class/file", content=content).json()["agent"]
    assert brought.endswith(".zerolab?simulations=100")
    response = ada.post("/api/v1/class/file", content=b"cos\nsystem\n(S'true'\ntR.")
    assert response.status_code == 400
    assert group.classroom.pupil("Ada").agent == brought
    assert len(list(group.classroom.uploads.iterdir())) == 1
    group.bring("Ada")
    assert list(group.classroom.uploads.iterdir()) == []
    shutil.rmtree(folders.classroom)


def test_tournament_needs_two_agents_for_its_game(members):
    members.bring("Ada")
    response = members.start()
    assert response.status_code == 400
    assert "1 of 2 pupils have an agent for gobang:3x3:3" in response.json()["error"]


def test_restarted_server_has_same_tokens_agents_and_results(members, in_thread):
    for name in members.pupils:
        members.bring(name, "mcts", playouts=2)
    members.start()
    before = members.finished()
    assert len(before["ratings"]) == 2
    Members(members.classroom.folder, ["Ben", "Cleo"])
    again = Members(members.classroom.folder, ["Ben", "Ada", "Cleo"])
    kept = {each.name: each for each in again.classroom.record.pupils}
    for pupil in members.classroom.record.pupils:
        assert kept[pupil.name] == pupil
    assert kept["Cleo"].agent == ""
    assert again.standings()["ratings"] == before["ratings"]
    assert again.standings()["latest"] == before["latest"]


def test_killed_tournament_continues_with_the_missing_games(members, in_thread, monkeypatch):
    for name in members.pupils:
        members.bring(name)
    monkeypatch.setattr(class_play.ClassPlay, "_finish", lambda *arguments: None)  # as if killed
    members.start(games=4)
    folder = members.classroom.tournament_folder(1)
    whole = Tournament.load(folder).games()
    (folder / "games.sqlite").unlink()
    assert members.standings()["tournament"]["playing"]
    monkeypatch.undo()
    monkeypatch.chdir(members.classroom.folder)  # tournaments need no files of the laboratory
    monkeypatch.setattr(class_play.os, "nice", lambda step: None)
    again = Classroom.open(members.classroom.folder, ["Ada", "Ben"])
    assert again.record.tournament.is_playing
    play_tournament(folder, again.record.tournament, Folders())
    assert Tournament.load(folder).games() == whole


def test_thirty_pupils_play_in_a_process_of_their_own(here, tmp_path):
    group = Members(tmp_path / "class", class_names("30"))
    for number, name in enumerate(group.pupils):
        kind = ("random", "mcts")[number % 2]
        assert group.bring(name, kind, playouts=2).status_code == 200
    assert group.start().status_code == 200
    busy = group.start()
    assert busy.status_code == 400 or not group.standings()["tournament"]["playing"]
    shown = group.finished()
    assert shown["tournament"]["problem"] == ""
    assert shown["tournament"]["games"] == shown["tournament"]["planned"] == 30 * 29
    assert {each["player"] for each in shown["ratings"]} == set(group.pupils)
    assert all(each["low"] < each["elo"] < each["high"] for each in shown["ratings"])
    points = sum(each["score_rate"] * each["games"] for each in shown["ratings"])
    assert points == pytest.approx(30 * 29)
    assert len(shown["latest"]) == 12
    group.laboratory.close()


def test_stopped_tournament_can_be_continued(members, in_thread):
    for name in members.pupils:
        members.bring(name)
    members.start()
    stopped = members.teacher.post("/api/v1/class/manage/stop").json()
    assert not stopped["tournament"]["playing"]
    response = members.teacher.post("/api/v1/class/manage/continue")
    assert response.status_code == 200
    assert members.finished()["tournament"]["games"] == 2


def test_absent_pupil_has_no_access_and_returns_with_token_and_agent(members):
    members.bring("Ada", "mcts", playouts=7)
    (ada, _) = members.classroom.record.pupils
    without = Members(members.classroom.folder, ["Ben", "Cleo"])
    assert without.client(ada.token).get("/api/v1/server").status_code == 401
    listed = without.teacher.get("/api/v1/class/manage").json()["pupils"]
    assert [each["name"] for each in listed] == ["Ben", "Cleo"]
    again = Classroom.open(members.classroom.folder, ["Ada", "Cleo"])
    assert again.pupil("Ada") == ada
    assert again.pupil("Cleo") == without.classroom.pupil("Cleo")


def test_tournament_keeps_the_network_that_was_the_best_at_its_start(here, tmp_path, in_thread):
    group = Members(tmp_path / "class", ["Ada", "Ben"])
    group.classroom.change(game=GAME)
    group.bring("Ada", "network", network=RUN, playouts=2)
    group.bring("Ben")
    body = {"game": GAME, "games": 2, "openings": 1}
    assert group.teacher.post("/api/v1/class/manage/start", json=body).status_code == 200
    best = RunFolder.open(here / RUN).progress.best
    played = group.classroom.record.tournament.agents
    assert played["Ada"] == f"{RUN}@{best}?simulations=2"
    assert group.classroom.pupil("Ada").agent == f"{RUN}?simulations=2"
    group.laboratory.close()


def test_agent_that_cannot_play_any_more_is_left_out_and_named(here, tmp_path, in_thread):
    group = Members(tmp_path / "class", ["Ada", "Ben", "Cleo"])
    for name in group.pupils:
        group.bring(name)
    group.start()
    tournament = group.classroom.record.tournament
    agents = {**tournament.agents, "Cleo": "runs/deleted@1"}
    shutil.rmtree(group.classroom.tournament_folder(1))
    group.classroom.change(tournament=tournament.model_copy(update={"agents": agents}))
    state = group.teacher.post("/api/v1/class/manage/continue").json()["tournament"]
    assert (state["games"], state["planned"], state["playing"]) == (2, 6, False)
    assert "Cleo was left out" in state["problem"]
    assert "runs/deleted" in state["problem"]
    group.laboratory.close()


def test_agents_are_read_again_only_if_their_files_change(members, monkeypatch):
    members.bring("Ada", "mcts", playouts=3)
    members.teacher.get("/api/v1/class/manage")
    monkeypatch.setattr(classes, "find_agent", lambda *arguments: pytest.fail("read again"))
    shown = members.teacher.get("/api/v1/class/manage").json()["pupils"]
    assert [each["problem"] for each in shown] == ["", ""]


def test_problem_of_a_tournament_is_shown(members, in_thread, monkeypatch):
    for name in members.pupils:
        members.bring(name)

    def fail(*arguments):
        raise UserError("no space left")

    monkeypatch.setattr(class_play, "play_tournament", fail)
    members.start()
    assert members.finished()["tournament"]["problem"] == "no space left"


def test_pupil_names_come_from_number_or_file(tmp_path):
    assert class_names("3") == ["Pupil 1", "Pupil 2", "Pupil 3"]
    path = tmp_path / "names.txt"
    path.write_text("Ada  Lovelace\n\n Zoë\n")
    assert class_names(str(path)) == ["Ada Lovelace", "Zoë"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("Ada", "from 2"), ("Ada\nAda", "twice"), ("Ada\n" + 41 * "x", "at most 40"),
     ("Ada\nBen\x1b", "printable"), ("Ada\nBen vs Cleo", "without")],
)  # fmt: skip
def test_wrong_names_are_explained(tmp_path, content, expected):
    path = tmp_path / "names.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=expected):
        class_names(str(path))
    with pytest.raises(UserError, match="from 2 to 100"):
        class_names("1000000000000000000000")


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["--class-links", "links.txt"], "needs --class"), (["--class", "none.txt"], "none.txt")],
)
def test_wrong_options_are_explained(here, capsys, options, expected):
    assert main(["serve", *options]) == 2
    assert expected in capsys.readouterr().err


def test_only_the_owner_can_read_the_class_file(members):
    path = members.classroom.folder / "class.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    record = members.classroom.record
    tokens = {record.teacher, *(each.token for each in record.pupils)}
    assert len(tokens) == 3
    assert json.loads(path.read_text())["teacher"] == record.teacher
    table = link_table(record, "http://host/")
    assert [line.split("token=")[1] for line in table.splitlines()] == [
        record.teacher, *(each.token for each in record.pupils),
    ]  # fmt: skip


def test_server_without_class_says_so(client):
    response = client.get("/api/v1/class/standings")
    assert response.status_code == 404
    assert "--class NAMES.txt" in response.json()["error"]
