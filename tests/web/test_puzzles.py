"""Puzzles that the server makes: answers against an exhaustive solver, verdicts and storage."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, chdir
from shutil import copytree
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from tiny_laboratory import GAME, RUN, new_client

from evaluation.exhaustive import check_perfect_play, exhaustive
from forks import wait_for
from zerolab.evaluation.puzzles import (
    BASELINE_GRADER_SPECS,
    make_puzzle,
    puzzle_position,
    random_positions,
    write_puzzles,
)
from zerolab.oracles.solver import oracle_for
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.web import puzzle_maker
from zerolab.web.folders import Folders
from zerolab.web.puzzle_maker import PuzzleMaker, candidate_positions, grader_specs
from zerolab.web.requests import Client
from zerolab.web.solving import SolverEndedError

SMALL = "gobang:3x3:3"
COUNT = 4


@pytest.fixture(scope="module")
def one_run(tiny_folder, tmp_path_factory):
    """A folder with the tiny run alone: tests of other modules leave no grader here."""
    folder = tmp_path_factory.mktemp("puzzles")
    copytree(tiny_folder / RUN, folder / RUN)
    return folder


@pytest.fixture
def here(one_run, monkeypatch):
    """The folder with one run as the working directory."""
    monkeypatch.chdir(one_run)
    return one_run


@pytest.fixture(scope="module")
def served(one_run, search_threads):
    """A client of a server for the folder with one run."""
    client = new_client()
    with ExitStack() as stack:
        with chdir(one_run):
            stack.enter_context(client)
        yield client


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Few puzzles per game."""
    monkeypatch.setattr(puzzle_maker, "PUZZLES_PER_GAME", COUNT)


def _get(client, path, **params):
    response = client.get(f"/api/v1/puzzles{path}", params=params)
    assert response.status_code == 200, response.text
    return response.json()


def _complete(client, game):
    """Return the list of a game once all its puzzles are made and graded."""
    wait_for(lambda: _get(client, "", game=game)["state"] not in ("solving", "grading"))
    return _get(client, "", game=game)


def _position(shown):
    position = Position.start(shown["position"]["game"])
    for move in shown["position"]["moves"]:
        position = position.play(position.parse_action(move))
    return position


def test_every_puzzle_has_exactly_one_best_result(client):
    listed = _complete(client, SMALL)
    assert (listed["state"], listed["problem"]) == ("complete", "")
    assert len(listed["puzzles"]) == COUNT
    oracle = exhaustive(parse_game(SMALL))
    for summary in listed["puzzles"]:
        shown = _get(client, "/one", game=SMALL, key=summary["key"])
        position = _position(shown)
        results = np.sign(oracle.values_at(position)[position.legal_actions])
        assert (results == results.max()).sum() == 1
        assert {"win": 1, "draw": 0}[shown["goal"]] == results.max()
        assert summary["is_grade_measured"]
        assert set(shown["miss_shares"]) == set(BASELINE_GRADER_SPECS)
        answer = position.legal_moves[results.argmax()]
        for move in position.legal_moves:
            body = {"game": SMALL, "key": summary["key"], "move": move}
            verdict = client.post("/api/v1/puzzles/answer", json=body).json()
            assert verdict["is_right"] == (move == answer)
            _check_line(oracle, verdict, move)


def _check_line(oracle, verdict, move):
    """Check that a line begins with the move and continues with perfect play."""
    line = verdict["positions"]
    after = line[verdict["puzzle_index"] + 1]
    assert after["last_move"] == move
    played = line[-1]["moves"]
    position = Position.start(SMALL)
    for name in played[: verdict["puzzle_index"] + 1]:
        position = position.play(name)
    check_perfect_play(oracle, position, played[verdict["puzzle_index"] + 1 :])
    if verdict["is_right"]:
        assert line[-1]["result"] is not None
    else:
        assert after["result"] is not None or len(played) == verdict["puzzle_index"] + 2


def test_puzzles_of_a_run_are_graded_by_its_network(client):
    listed = _complete(client, GAME)
    shown = _get(client, "/one", game=GAME, key=listed["puzzles"][0]["key"])
    (network,) = set(shown["miss_shares"]) - set(BASELINE_GRADER_SPECS)
    assert network.startswith("runs/tiny@")
    assert listed["puzzles"][0]["grade"] == np.mean(list(shown["miss_shares"].values()))


def test_restarted_server_has_same_puzzles_without_solving_again(client):
    before = _complete(client, SMALL)
    with new_client(workers=0) as restarted:
        after = _complete(restarted, SMALL)
    assert after["puzzles"] == before["puzzles"]
    assert after["tried_position_count"] == 0


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        ({"game": SMALL, "key": "0" * 16, "move": "a1"}, 404, "there is no puzzle"),
        ({"game": SMALL, "key": "../../..", "move": "a1"}, 422, "key"),
        ({"game": "nogame:3x3", "key": "0" * 16, "move": "a1"}, 400, "nogame"),
    ],
)
def test_wrong_answer_requests_are_explained(client, body, status, expected):
    response = client.post("/api/v1/puzzles/answer", json=body)
    assert response.status_code == status
    assert expected in response.json()["error"]


def test_illegal_move_is_no_answer(client):
    key = _complete(client, SMALL)["puzzles"][0]["key"]
    response = client.post("/api/v1/puzzles/answer", json={"game": SMALL, "key": key, "move": "z9"})
    assert response.status_code == 400
    assert '"z9" is not a legal move here' in response.json()["error"]


def test_possible_puzzles_come_from_files_and_stored_games(here, tmp_path):
    game = parse_game(GAME)
    oracle = oracle_for(game, memory_mib=1)
    found = (make_puzzle(each, oracle) for each in random_positions(game, 5))
    puzzle = next(each for each in found if each is not None)
    folders = Folders((here / "runs",), tmp_path, tmp_path)
    folders.puzzles.mkdir()
    try:
        write_puzzles(folders.puzzles / "mine.jsonl", [puzzle])
        (folders.puzzles / "damaged.jsonl").write_text("{")
        positions = candidate_positions(folders, game)
        assert next(positions) == puzzle_position(puzzle)
        stored = next(positions)
    finally:
        for path in folders.puzzles.iterdir():
            path.unlink()
        folders.puzzles.rmdir()
    assert stored.outcome is None
    assert stored.history
    assert grader_specs(folders, game)[-1].startswith(f"{here / 'runs'}/tiny@")


def test_one_page_cannot_start_work_on_many_games(tmp_path, monkeypatch):
    def positions(folders, game):
        return iter([Position.start(game)])

    async def ask():
        maker = PuzzleMaker(Folders((tmp_path,)), SimpleNamespace(is_busy=True), None)
        greedy, other = Client("192.0.2.1", "greedy"), Client("192.0.2.1", "other")
        first, second, third = map(parse_game, (SMALL, GAME, "gobang:4x4:3"))
        await maker.puzzles_for(greedy, first)
        await maker.puzzles_for(greedy, second)
        assert (await maker.puzzles_for(greedy, third)).state == "waiting"
        assert (await maker.puzzles_for(greedy, first)).state == "solving"  # already in progress
        assert (await maker.puzzles_for(other, third)).state == "solving"
        maker.close()

    monkeypatch.setattr(puzzle_maker, "candidate_positions", positions)
    asyncio.run(ask())


class Solver:
    """A solver that does the same with every position."""

    is_busy = False

    def __init__(self, error):
        self.error = error
        self.asked = 0

    async def make_puzzle(self, client, position, seconds):
        self.asked += 1
        raise self.error


def test_served_folder_contains_no_puzzles_that_count_as_proven(tmp_path):
    folders = Folders((tmp_path / "runs",))
    assert not folders.puzzle_file(SMALL).resolve().is_relative_to(tmp_path / "runs")
    assert folders.puzzle_file(SMALL) != Folders((tmp_path / "others",)).puzzle_file(SMALL)


@pytest.mark.parametrize(
    ("error", "asked", "state", "problem"),
    [
        (SolverEndedError("ended"), 2, "complete", ""),
        (ValueError("a fault"), 1, "stopped", "internal error: a fault"),
    ],
)
def test_solver_that_ends_or_fails_is_not_asked_for_ever(
    tmp_path, monkeypatch, error, asked, state, problem
):
    solver, game = Solver(error), parse_game(SMALL)

    async def ask():
        maker = PuzzleMaker(Folders((tmp_path,)), solver, None)
        while (game_puzzles := await maker.puzzles_for(Client("", ""), game)).state == "solving":
            await asyncio.sleep(0)
        await maker.puzzles_for(Client("", ""), game)  # begins nothing
        return game_puzzles

    monkeypatch.setattr(
        puzzle_maker, "candidate_positions", lambda folders, game: iter([Position.start(game)])
    )
    game_puzzles = asyncio.run(asyncio.wait_for(ask(), 120))
    assert (solver.asked, game_puzzles.state, game_puzzles.problem) == (asked, state, problem)
