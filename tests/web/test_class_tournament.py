"""Tournament of a class: its agents, its games after a stop and after a kill, and its standings."""

from __future__ import annotations

import shutil
from threading import Thread
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from fastapi.testclient import TestClient
from tiny_laboratory import GAME, RUN

from zerolab.core.errors import UserError
from zerolab.play.tournament import Tournament
from zerolab.store.run_folder import RunFolder
from zerolab.web import classroom
from zerolab.web.classroom import (
    Classroom,
    ClassTournamentProcess,
    parse_pupil_names,
    play_tournament,
)
from zerolab.web.folders import Folders
from zerolab.web.laboratory import Laboratory
from zerolab.web.server import make_app


def test_tournament_needs_two_agents_for_its_game(members):
    members.bring("Ada")
    response = members.start()
    assert response.status_code == 400
    assert "1 of 2 pupils has an agent for gobang:3x3:3" in response.json()["error"]


def test_restarted_server_has_same_tokens_agents_and_results(members, group_of, at_once):
    for name in members.pupils:
        members.bring(name, "mcts", playouts=2)
    members.start()
    before = members.finished()
    assert len(before["ratings"]) == 2
    group_of(members.classroom.folder, ["Ben", "Cleo"])
    again = group_of(members.classroom.folder, ["Ben", "Ada", "Cleo"])
    kept = {each.name: each for each in again.classroom.state.pupils}
    for pupil in members.classroom.state.pupils:
        assert kept[pupil.name] == pupil
    assert kept["Cleo"].agent == ""
    assert again.standings()["ratings"] == before["ratings"]
    assert again.standings()["latest_games"] == before["latest_games"]


def test_killed_tournament_continues_with_the_missing_games(members, at_once, monkeypatch):
    for name in members.pupils:
        members.bring(name)
    monkeypatch.setattr(ClassTournamentProcess, "_finish", lambda *arguments: None)  # as if killed
    members.start(games=4)
    folder = members.classroom.tournament_folder(1)
    whole = Tournament.load(folder).games()
    (folder / "games.sqlite").unlink()
    assert members.standings()["tournament"]["is_running"]
    monkeypatch.undo()
    monkeypatch.chdir(members.classroom.folder)  # tournaments need no files of the laboratory
    monkeypatch.setattr(classroom.os, "nice", lambda step: None)
    again = Classroom.open(members.classroom.folder, ["Ada", "Ben"])
    assert again.state.tournament.is_playing
    play_tournament(folder, again.state.tournament, Folders())
    assert Tournament.load(folder).games() == whole


def test_restarted_server_continues_the_tournament(group_of, tmp_path, at_once, monkeypatch):
    names, play_slice = ["Ada", "Ben", "Cleo"], classroom.play_slice
    group = group_of(tmp_path / "class", names)
    for name in names:
        group.bring(name)
    folder = group.classroom.tournament_folder(1)

    def play_first_pair(*arguments):
        if Tournament.load(folder).games():
            raise UserError("killed")
        return play_slice(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(classroom, "_PAIRS_AT_ONCE", 1)
        patch.setattr(classroom, "play_slice", play_first_pair)
        patch.setattr(ClassTournamentProcess, "_finish", lambda *arguments: None)  # as if killed
        group.start()
    before = Tournament.load(folder).games()
    assert len(before) == 2
    again = Classroom.open(group.classroom.folder, names)
    assert again.state.tournament.is_playing
    laboratory = Laboratory(Folders(), workers=0, classroom=again)
    with TestClient(make_app(laboratory), base_url="http://localhost"):
        assert not again.state.tournament.is_playing
    games = Tournament.load(folder).games()
    assert len(games) == 6
    assert [each for each in games if each in before] == before


def test_thirty_pupils_play_in_a_separate_process(group_of, tmp_path):
    group = group_of(tmp_path / "class", parse_pupil_names("30"))
    for number, name in enumerate(group.pupils):
        kind = ("random", "mcts")[number % 2]
        assert group.bring(name, kind, playouts=2).status_code == 200
    assert group.start().status_code == 200
    assert group.start().status_code == 400
    shown = group.finished()
    assert shown["tournament"]["problem"] == ""
    assert shown["tournament"]["stored_games"] == shown["tournament"]["planned_games"] == 30 * 29
    assert {each["player"] for each in shown["ratings"]} == set(group.pupils)
    assert all(each["low"] < each["elo"] < each["high"] for each in shown["ratings"])
    points = sum(each["score_rate"] * each["games"] for each in shown["ratings"])
    assert points == pytest.approx(30 * 29)
    assert len(shown["latest_games"]) == 12


def test_stopped_tournament_can_be_continued(members, at_once, monkeypatch):
    for name in members.pupils:
        members.bring(name)
    with monkeypatch.context() as patch:  # stopped before the first game
        patch.setattr(classroom, "play_tournament", lambda *arguments: "")
        patch.setattr(ClassTournamentProcess, "_finish", lambda *arguments: None)
        assert members.start().json()["tournament"]["is_running"]
    stopped = members.teacher.post("/api/v1/class/manage/stop").json()["tournament"]
    assert (stopped["is_running"], stopped["stored_games"]) == (False, 0)
    response = members.teacher.post("/api/v1/class/manage/continue")
    assert response.status_code == 200
    assert members.finished()["tournament"]["stored_games"] == 2


def test_end_of_a_tournament_is_not_recorded_in_the_next_one(members, at_once, monkeypatch):
    """A tournament begun by another thread is still being played after the last one has ended."""
    for name in members.pupils:
        members.bring(name)
    assert members.start().status_code == 200
    latest = members.classroom.state.tournament
    following = latest.model_copy(update={"number": latest.number + 1, "is_playing": True})
    begin = Thread(target=lambda: members.classroom.update_state(tournament=following))

    def result():
        begin.start()
        begin.join(0.2)  # it waits for the lock of the class
        return ""

    play = ClassTournamentProcess(members.classroom, Folders())
    play._pool = pool = SimpleNamespace(stop=lambda: None, join=lambda timeout: None)
    play._finish(pool, SimpleNamespace(exception=lambda: None, result=result))
    begin.join()
    assert members.classroom.state.tournament == following


def test_tournament_keeps_the_network_that_was_the_best_at_its_start(here, members, at_once):
    members.classroom.update_state(game=GAME)
    members.bring("Ada", "network", network=RUN, playouts=2)
    members.bring("Ben")
    assert members.start(game=GAME).status_code == 200
    best = RunFolder.open(here / RUN).progress.best
    played = members.classroom.state.tournament.agents
    assert played["Ada"] == f"{RUN}@{best}?simulations=2"
    assert members.classroom.pupil("Ada").agent == f"{RUN}?simulations=2"


def test_agent_that_cannot_play_any_more_is_left_out_and_named(group_of, tmp_path, at_once):
    group = group_of(tmp_path / "class", ["Ada", "Ben", "Cleo"])
    for name in group.pupils:
        group.bring(name)
    group.start()
    tournament = group.classroom.state.tournament
    agents = {**tournament.agents, "Cleo": "runs/deleted@1"}
    shutil.rmtree(group.classroom.tournament_folder(1))
    group.classroom.update_state(tournament=tournament.model_copy(update={"agents": agents}))
    state = group.teacher.post("/api/v1/class/manage/continue").json()["tournament"]
    assert (state["stored_games"], state["planned_games"], state["is_running"]) == (2, 6, False)
    assert "Cleo was left out" in state["problem"]
    assert "runs/deleted" in state["problem"]


def test_problem_of_a_tournament_is_shown(members, at_once, monkeypatch):
    for name in members.pupils:
        members.bring(name)

    def fail(*arguments):
        raise UserError("no space left")

    monkeypatch.setattr(classroom, "play_tournament", fail)
    members.start()
    assert members.finished()["tournament"]["problem"] == "no space left"
