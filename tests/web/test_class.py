"""Class: tokens, limits, roles, and agents that pupils enter."""

from __future__ import annotations

import json
import shutil
import stat
import sys

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.agents.exporting import encode_agent_of_run
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.store.folder import lock_folder
from zerolab.store.run_folder import RunFolder
from zerolab.web import security
from zerolab.web.classroom import Classroom, ClassTournament, link_table, parse_pupil_names
from zerolab.web.folders import Folders
from zerolab.web.requests import BusyError, Client, Quota, pupil_address
from zerolab.web.routes import classes


def test_unknown_and_missing_tokens_are_refused(members):
    for token in ("", "x", members.classroom.state.teacher[:-1]):
        stranger = members.client(token)
        for path in ("/", "/wall", "/api/v1/class/standings", "/api/v1/server"):
            assert stranger.get(path).status_code == 401


def test_link_with_token_sets_cookie_and_wrong_one_changes_nothing(members):
    token = members.classroom.state.pupils[0].token
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
    paths |= {"class/mine"}  # can be read too
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
    assert answers == [200] * 10 + [429] * 2  # a tenth of an address's limit
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
    ("choice", "status", "expected"),
    [
        ({"kind": "mcts", "playouts": 1001}, 422, "1000"),
        ({"kind": "mcts", "playouts": 0}, 422, "1"),
        ({"kind": "gtp:program"}, 422, "kind"),
        ({"kind": "network", "network": "/etc/passwd"}, 403, "not served"),
        ({"kind": "network", "network": f"{RUN}?simulations=100000"}, 400, "expected a run"),
        ({"kind": "network", "network": RUN}, 400, "connect_four"),
    ],
)
def test_agents_that_cannot_play_are_refused(members, choice, status, expected):
    response = members.pupils["Ada"].post("/api/v1/class/mine", json=choice)
    assert response.status_code == status
    assert expected in response.json()["error"]
    assert members.classroom.pupil("Ada").agent == ""


def test_pupil_brings_network_and_refused_file_is_removed(members):
    members.classroom.update_state(game=GAME)
    assert members.bring("Ada", "network", network=RUN, playouts=7).json()["agent"] == (
        f"{RUN}?simulations=7"
    )
    content = encode_agent_of_run(RunFolder.open(Folders().runs[0] / "tiny"), 1)
    response = members.pupils["Ada"].post("/api/v1/class/file", content=content)
    # The class of this test is outside the served folders, unlike that of a server.
    assert response.status_code == 403
    assert list(members.classroom.upload_folder.iterdir()) == []


def test_uploaded_file_is_checked_and_never_replaced_by_nonsense(group_of):
    folders = Folders()
    group = group_of(folders.classroom, ["Ada", "Ben"])
    group.classroom.update_state(game=GAME)
    ada = group.pupils["Ada"]
    content = encode_agent_of_run(RunFolder.open(folders.runs[0] / "tiny"), 1)
    brought = ada.post("/api/v1/class/file", content=content).json()["agent"]
    assert brought.endswith(".zerolab?simulations=100")
    response = ada.post("/api/v1/class/file", content=b"cos\nsystem\n(S'true'\ntR.")
    assert response.status_code == 400
    assert group.classroom.pupil("Ada").agent == brought
    assert len(list(group.classroom.upload_folder.iterdir())) == 1
    group.bring("Ada")
    assert list(group.classroom.upload_folder.iterdir()) == []
    shutil.rmtree(folders.classroom)


def test_absent_pupil_has_no_access_and_returns_with_token_and_agent(members, group_of):
    members.bring("Ada", "mcts", playouts=7)
    (ada, _) = members.classroom.state.pupils
    without = group_of(members.classroom.folder, ["Ben", "Cleo"])
    assert without.client(ada.token).get("/api/v1/server").status_code == 401
    listed = without.teacher.get("/api/v1/class/manage").json()["pupils"]
    assert [each["name"] for each in listed] == ["Ben", "Cleo"]
    again = Classroom.open(members.classroom.folder, ["Ada", "Cleo"])
    assert again.pupil("Ada") == ada
    assert again.pupil("Cleo") == without.classroom.pupil("Cleo")


def test_tournament_of_a_new_class_has_a_new_folder(tmp_path):
    """The folders of the tournaments remain if the file of the class is deleted."""
    classroom = Classroom.open(tmp_path, ["Ada"])
    assert classroom.next_tournament_number() == 1
    classroom.tournament_folder(3).mkdir(parents=True)
    assert Classroom.open(tmp_path, ["Cleo"]).next_tournament_number() == 4


TOURNAMENT = ClassTournament(
    number=1, game=GAME, games=2, openings=0, agents={"Ada": "random"}, is_playing=True
)


def test_class_of_a_stranger_gets_new_links(tmp_path, monkeypatch):
    """A downloaded folder can contain a class whose tokens its author knows."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "stranger"))
    Classroom.open(tmp_path / "class", ["Ada", "Ben"]).set_agent("Ada", "random")
    theirs = Classroom.open(tmp_path / "class", ["Ada"])
    theirs.update_state(tournament=TOURNAMENT)
    assert not theirs.has_new_links
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    ours = Classroom.open(tmp_path / "class", ["Ada"])
    assert ours.has_new_links
    assert ours.pupil("Ada").agent == "random"
    assert not ours.state.tournament.is_playing
    assert _tokens(ours.state).isdisjoint(_tokens(theirs.state))
    assert not any(map(ours.holder_of, _tokens(theirs.state)))
    assert Classroom.open(tmp_path / "class", ["Ada"]).state == ours.state


def test_moved_class_gets_new_links(tmp_path):
    former = Classroom.open(tmp_path / "class", ["Ada"])
    former.folder.rename(tmp_path / "moved")
    moved = Classroom.open(tmp_path / "moved", ["Ada"])
    assert moved.has_new_links
    assert _tokens(moved.state).isdisjoint(_tokens(former.state))


def _tokens(state):
    return {state.teacher, *(each.token for each in (*state.pupils, *state.absent))}


def test_agents_are_read_again_only_if_their_files_change(members, monkeypatch):
    members.bring("Ada", "mcts", playouts=3)
    members.teacher.get("/api/v1/class/manage")
    monkeypatch.setattr(classes, "find_agent", lambda *arguments: pytest.fail("read again"))
    shown = members.teacher.get("/api/v1/class/manage").json()["pupils"]
    assert [each["problem"] for each in shown] == ["", ""]


def test_pupil_names_come_from_number_or_file(tmp_path):
    assert parse_pupil_names("3") == ["Pupil 1", "Pupil 2", "Pupil 3"]
    path = tmp_path / "names.txt"
    path.write_text("Ada  Lovelace\n\n Zoë\n")
    assert parse_pupil_names(str(path)) == ["Ada Lovelace", "Zoë"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("Ada", "expected 2 to"), ("Ada\nAda", "twice"),
     ("Zo\u00eb\nZoe\u0308", "twice"), ("Ada\n" + 41 * "x", "at most 40"),
     ("Ada\nBen\x1b", "printable"), ("Ada\nBen vs Cleo", "without")],
)  # fmt: skip
def test_wrong_names_are_explained(tmp_path, content, expected):
    path = tmp_path / "names.txt"
    path.write_text(content)
    with pytest.raises(UserError, match=expected):
        parse_pupil_names(str(path))
    with pytest.raises(UserError, match="expected 2 to 100"):
        parse_pupil_names("1000000000000000000000")


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["--class-links", "links.txt"], "needs --class"), (["--class", "none.txt"], "none.txt")],
)
def test_wrong_options_are_explained(here, capsys, options, expected):
    assert main(["serve", *options]) == 2
    assert expected in capsys.readouterr().err


def test_class_has_only_one_server(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs/.server/class"
    folder.mkdir(parents=True)
    with lock_folder(folder):
        assert main(["serve", "--class", "2"]) == 2
    assert "class is in use by another process" in capsys.readouterr().err
    assert not (folder / "class.json").exists()


def test_missing_websockets_are_named_before_anything_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "websockets", None)
    assert main(["serve", "--class", "2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "requires websockets" in line and '"web" extra' in line
    assert not list(tmp_path.iterdir())


def test_only_the_owner_can_read_the_class_file(members):
    path = members.classroom.folder / "class.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    state = members.classroom.state
    tokens = {state.teacher, *(each.token for each in state.pupils)}
    assert len(tokens) == 3
    assert json.loads(path.read_text())["teacher"] == state.teacher
    table = link_table(state, "http://host/")
    assert [line.split("token=")[1] for line in table.splitlines()] == [
        state.teacher, *(each.token for each in state.pupils),
    ]  # fmt: skip


def test_server_without_class_says_so(client):
    response = client.get("/api/v1/class/standings")
    assert response.status_code == 404
    assert "--class NAMES.txt" in response.json()["error"]
