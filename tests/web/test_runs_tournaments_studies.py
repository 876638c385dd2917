"""Runs, tournaments and studies through the server, and run updates over a websocket.

The tests stay in one file because they share trained runs and a tournament.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate

import pytest

pytest.importorskip("fastapi", reason="the web extra is not installed")

from starlette.testclient import TestClient
from tiny_laboratory import new_client

from zerolab.agents.exporting import encode_agent_of_run
from zerolab.agents.file_agents import ShippedAgent
from zerolab.cli.main import main
from zerolab.play.tournament import Tournament
from zerolab.play.tournament_report import TournamentReport
from zerolab.report.html import save_document
from zerolab.rules.catalogue import parse_game
from zerolab.store.run_folder import RunFolder
from zerolab.studies.execution import StudyExecution
from zerolab.studies.findings import study_claims
from zerolab.studies.study import registered_studies
from zerolab.training.panels import MAX_TREND_VALUES, trend_of_run
from zerolab.training.records import AccuracyRecord, GateRecord, LearnRecord
from zerolab.training.reporting import read_records
from zerolab.web import puzzle_maker
from zerolab.web.folders import FileCache, Folders, newest_run
from zerolab.web.laboratory import Laboratory
from zerolab.web.requests import BusyError
from zerolab.web.routes.studies import read_verdict_summary
from zerolab.web.searches import SearchPool
from zerolab.web.server import make_app

API = "/api/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, no_figures):
    folder = tmp_path_factory.mktemp("laboratory")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train = ["train", "--preset", "smoke", "--set", "final_evaluation.games=2"]
        assert main([*train, "--run", "runs/one"]) == 0
        assert main([*train, "--run", "runs/two", "--set", "learn.epochs=1",
                     "--set", "seed=3"]) == 0  # fmt: skip
        players = ["random", "mcts:5", "runs/one", "--games", "4", "--openings", "1"]
        assert main(["tournament", *players, "--folder", "tournaments/first"]) == 0
        execution = StudyExecution.plan(
            registered_studies()["warm-start"], "smoke", folder / "studies"
        )
        execution.create_folder()
        save_document(execution.report(), execution.folder.report_path)
        yield folder


@pytest.fixture(scope="module")
def client(folder):
    with new_client(workers=0) as client:
        yield client


def get(client, path, **params):
    response = client.get(API + path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_runs_agree_with_command(client, capsys):
    assert main(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    served = get(client, "/runs")
    assert [each["run"] for each in served] == ["runs/one", "runs/two"]
    for run, expected in zip(served, listed, strict=True):
        own = {"run", "problem", "latest_progress_time", "trend"}
        assert run.keys() - own == expected.keys() - {"path"}
        for key in expected.keys() - {"path"}:
            assert run[key] == expected[key]
        assert run["final_score_rates"].keys() == {"random", "mcts:100?tie_break=random"}


def test_trend_is_the_loss_until_accuracy_has_a_curve(client, folder):
    (listed, _) = get(client, "/runs")
    records = read_records(RunFolder.open(folder / "runs/one"))
    losses = [sum(each.loss[head] for head in each.head_names) for each in records
              if isinstance(each, LearnRecord)]  # fmt: skip
    assert listed["trend"]["name"] == "loss"
    assert listed["trend"]["values"] == pytest.approx(losses)
    intervals = dict.fromkeys(
        f"{player}_{kind}{end}" for player in ("network", "search") for kind in ("strong", "weak")
        for end in ("", "_low", "_high")
    )  # fmt: skip
    shares = [number / 100 for number in range(100)]
    accuracies = [
        AccuracyRecord(iteration=at, wall_seconds=0, network=at, positions=9,
                       **{**dict.fromkeys(intervals, 0.0), "search_strong": share})
        for at, share in enumerate(shares)
    ]  # fmt: skip
    assert trend_of_run([*records, accuracies[0]]).name == "loss"
    trend = trend_of_run([*records, *accuracies])
    assert (trend.name, len(trend.values)) == ("accuracy", MAX_TREND_VALUES)
    assert (trend.values[0], trend.values[-1]) == (shares[0], shares[-1])
    assert trend.values == sorted(set(trend.values) & set(shares))


def test_run_details_agree_with_folder(client, folder):
    details = get(client, "/runs/one", run="runs/two")
    run = RunFolder.open(folder / "runs/two")
    assert details["settings"]["learn.epochs"] == 1
    assert details["settings"]["search.simulations"] == run.config["search"]["simulations"]
    assert [each["iteration"] for each in details["networks"]] == run.network_iterations()
    (best,) = [each for each in details["networks"] if each["is_best"]]
    assert (best["iteration"], best["training_elo"]) == (run.progress.best, run.progress.elo)
    assert details["game_count"] == run.games.game_count()
    assert details["environments"][0]["first_iteration"] == 1
    assert {each["wins"] + each["draws"] + each["losses"] for each in details["baselines"]} == {2}


def test_curves_agree_with_metrics(client, folder):
    panels = {each["key"]: each for each in get(client, "/runs/curves", run="runs/one")["runs/one"]}
    records = read_records(RunFolder.open(folder / "runs/one"))
    learned = [each for each in records if isinstance(each, LearnRecord)]
    for series in panels["loss"]["series"]:
        expected = [[each.iteration, each.loss[series["name"]]] for each in learned]
        assert series["points"] == expected
    gates = [each for each in records if isinstance(each, GateRecord)]
    best, candidate = panels["elo"]["series"]
    assert best["points"] == [[each.iteration, each.elo] for each in gates]
    assert candidate["band"][0] == [1, gates[0].candidate_elo_low, gates[0].candidate_elo_high]
    seconds = {each["name"]: dict(each["points"]) for each in panels["seconds"]["series"]}
    assert seconds["learn"][1] == pytest.approx(learned[0].wall_seconds)
    memory = [y for _, y in panels["memory"]["series"][0]["points"]]
    assert memory == sorted(memory)
    assert memory[0] > 20  # MiB, at least an interpreter with torch
    hours = get(client, "/runs/curves", run="runs/one", x="hours")["runs/one"]
    ends = list(accumulate(each.wall_seconds / 3600 for each in records))
    last_of_iterations = {each.iteration: end for end, each in zip(ends, records, strict=True)}
    (memory,) = [each for each in hours if each["key"] == "memory"]
    assert [x for x, _ in memory["series"][0]["points"]] == pytest.approx(
        list(last_of_iterations.values())
    )
    (loss,) = [each for each in hours if each["key"] == "loss"]
    assert [x for x, _ in loss["series"][0]["points"]] == pytest.approx(
        [x for x, each in zip(ends, records, strict=True) if isinstance(each, LearnRecord)]
    )


def test_only_different_settings_are_listed(client):
    differences = get(client, "/runs/differences", run=["runs/one", "runs/two"])
    assert {each["key"]: each["values"] for each in differences} == {
        "learn.epochs": [2, 1], "seed": [0, 3],
    }  # fmt: skip
    alone = client.get(f"{API}/runs/differences", params={"run": ["runs/one"]})
    assert alone.status_code == 400


@pytest.mark.parametrize(
    ("run", "status"),
    [("runs/none", 404), ("../x", 403), ("/", 403), ("tournaments/first", 403), ("runs/\0", 400)],
)
def test_runs_outside_served_folders_are_refused(client, run, status):
    for path in ("/runs/one", "/runs/curves"):
        response = client.get(API + path, params={"run": run})
        assert response.status_code == status
        assert len(response.json()["error"].splitlines()) == 1


def test_progress_of_run_is_sent_to_pages(client, folder):
    shutil.copytree(folder / "runs/one", folder / "runs/growing")
    address = "ws://localhost/api/v1/runs/live?run=runs/growing&run=runs/two"
    with client.websocket_connect(address) as socket:
        first, second = socket.receive_json(), socket.receive_json()
        assert [each["run"]["run"] for each in (first, second)] == ["runs/growing", "runs/two"]
        assert first["run"]["status"] == "finished"
        run = RunFolder.open(folder / "runs/growing")
        with run.locked():
            line = read_records(run)[-1].as_dict()
            run.commit(run.progress, [line])
            update = socket.receive_json()
        assert update["run"]["run"] == "runs/growing"
        assert update["record_count"] == first["record_count"] + 1
    shutil.rmtree(folder / "runs/growing")


@pytest.mark.parametrize("query", ["", "?run=runs/none", "?run=../x", "?" + "run=a&" * 20])
def test_websocket_without_valid_runs_gets_error(client, query):
    with client.websocket_connect(f"ws://localhost/api/v1/runs/live{query}") as socket:
        assert "error" in socket.receive_json()


def test_damaged_run_is_listed_with_problem(client, folder):
    shutil.copytree(folder / "runs/one", folder / "runs/damaged")
    (folder / "runs/damaged/state.json").write_text("{}")
    (damaged,) = [each for each in get(client, "/runs") if each["run"] == "runs/damaged"]
    assert damaged["status"] == "damaged"
    assert "state.json" in damaged["problem"]
    assert client.get(f"{API}/runs/one", params={"run": "runs/damaged"}).status_code == 400
    shutil.rmtree(folder / "runs/damaged")


def test_names_that_are_not_utf_8_are_left_out(client, folder):
    odd = [
        folder / "runs" / os.fsdecode(b"caf\xe9"),
        folder / "tournaments" / os.fsdecode(b"caf\xe9"),
    ]
    addresses = [f"{API}/runs", f"{API}/tournaments", f"{API}/agents?game=gobang:3x3:3"]
    before = [client.get(address).json() for address in addresses]
    try:
        shutil.copytree(folder / "runs/one", odd[0])
        shutil.copytree(folder / "tournaments/first", odd[1])
    except OSError:
        pytest.skip("the file system accepts only UTF-8")
    try:
        assert [client.get(address).json() for address in addresses] == before
    finally:
        for path in odd:
            shutil.rmtree(path)


def test_what_links_lead_to_elsewhere_is_left_out(client, folder, tmp_path):
    """Requests for it are refused, so pages could only show that it exists."""
    game = "gobang:3x3:3"

    def listed():
        stores = list(puzzle_maker._stores(Folders(), parse_game(game)))
        lists = get(client, "/runs"), get(client, "/tournaments"), get(client, "/agents", game=game)
        return *lists, newest_run(Folders()), len(stores)

    before = listed()
    shutil.copytree(folder / "runs/one", tmp_path / "run")
    (tmp_path / "run/state.json").touch()
    shutil.copytree(folder / "tournaments/first", tmp_path / "tournament")
    agent = tmp_path / "agent.zerolab"
    agent.write_bytes(encode_agent_of_run(RunFolder.open(folder / "runs/one"), 0))
    links = {
        "runs/link": tmp_path / "run",
        "runs/agents/link.zerolab": agent,
        "tournaments/link": tmp_path / "tournament",
        "studies/warm-start-smoke/tournaments/link": tmp_path / "tournament",
    }
    for name, target in links.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target)
    try:
        assert listed() == before
    finally:
        for name in links:
            (folder / name).unlink()


def test_tournament_ratings_agree_with_report(client, folder):
    (listed,) = get(client, "/tournaments")
    assert (listed["tournament"], listed["player_count"]) == ("tournaments/first", 3)
    assert listed["stored_games"] == listed["planned_games"] == 12
    details = get(client, "/tournaments/one", tournament="tournaments/first")
    tournament = Tournament.load(folder / "tournaments/first")
    assert tournament is not None
    report = TournamentReport.from_tournament(tournament)
    assert [each["player"] for each in details["ratings"]] == report.players
    for row, rating in zip(details["ratings"], report.ratings.player_ratings, strict=True):
        assert (row["elo"], row["low"], row["high"]) == rating.interval
    for i, row in enumerate(details["cross_table"]):
        assert row[i] is None
        for j, meeting in enumerate(row):
            if meeting is not None:
                assert meeting["score_rate"] == pytest.approx(report.score_rates[i, j])
                assert meeting["score_rate"] + details["cross_table"][j][i][
                    "score_rate"
                ] == pytest.approx(1)
                assert meeting["low"] == pytest.approx(1 - details["cross_table"][j][i]["high"])
    foreign = client.get(f"{API}/tournaments/one", params={"tournament": "runs/one"})
    assert foreign.status_code == 403


def test_findings_of_all_studies_are_one_page(client):
    page = client.get("/reports/findings")
    assert page.status_code == 200
    assert "sandbox" in page.headers["content-security-policy"]
    assert "WRoRa trains stronger players than the baseline." in page.text
    assert "not measured yet" in page.text


def test_studies_list_existing_folders(client):
    studies = {each["name"]: each for each in get(client, "/studies")}
    assert set(studies) == set(registered_studies())
    (existing,) = studies["warm-start"]["started_scales"]
    assert (existing["scale"], existing["is_running"]) == ("smoke", False)
    assert existing["report_url"] == "/reports/warm-start-smoke/index.html"


def test_study_progress_agrees_with_command(client, capsys):
    assert main(["study", "warm-start", "--scale", "smoke", "--status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    details = get(client, "/studies/one", name="warm-start", scale="smoke")
    assert [each["part"] for each in details["parts"]] == [each["part"] for each in status["parts"]]
    assert details["whole_study"]["planned_runs"] == status["planned_runs"] > 0
    assert details["whole_study"]["finished_runs"] == 0
    assert details["command"] == "zerolab study warm-start --scale smoke"
    assert {each["verdict"] for each in details["claims"]} == {"no data"}
    (listed,) = [each for each in get(client, "/studies") if each["name"] == "warm-start"]
    summary = listed["started_scales"][0]["verdict_summary"]
    assert summary["strongest_claim"] is None
    assert summary["verdict_counts"] == {"no data": len(details["claims"])}
    unknown = client.get(f"{API}/studies/one", params={"name": "warm", "scale": "mini"})
    assert unknown.status_code == 404
    assert "warm-start" in unknown.json()["error"]


CLAIMS = [
    ("own", "zerolab", "yes", "holds", "1e-9"),
    ("secondary", "[A2020]", "no", "does not hold", "1e-8"),
    ("confirmed", "[A2020]", "yes", "holds", "1e-7"),
    ("weaker", "[A2020]", "yes", "does not hold", "0.04"),
    ("strongest", "[A2020]", "yes", "does not hold", "0.001"),
    ("open", "[A2020]", "yes", "undecided", "1e-9"),
]


def write_claims(report, claims, figures=()):
    report.mkdir(parents=True, exist_ok=True)
    columns = ["key", "claim", "source", "claimed", "primary", "found", "adjusted p", "verdict",
               "note"]  # fmt: skip
    rows = [
        [key, f"{key}!", source, "above 0", primary, "1.5", p, verdict, ""]
        for key, source, primary, verdict, p in claims
    ]
    text = "".join(f"{','.join(row)}\n" for row in [columns, *rows])
    (report / "claims.csv").write_text(text)
    for name in figures:
        (report / name).write_text("")


def test_headline_is_the_strongest_verdict_on_a_published_finding(tmp_path):
    study = registered_studies()["warm-start"]
    report = tmp_path / "warm-start-mini" / "report"
    assert read_verdict_summary(report, study) is None
    write_claims(report, CLAIMS, ["b.svg", "a.svg"])
    summary = read_verdict_summary(report, study)
    assert summary.strongest_claim.key == "strongest"
    assert summary.figure_url == "/reports/warm-start-mini/a.svg"
    assert summary.verdict_counts == {"does not hold": 3, "holds": 2, "undecided": 1}
    claim = next(each for each in study_claims(study) if each.figure)
    named = (claim.key, "[A2020]", "yes", "does not hold", "0.0001")
    write_claims(report, [*CLAIMS, named], [f"{claim.figure}.svg"])
    summary = read_verdict_summary(report, study)
    assert summary.strongest_claim.key == claim.key
    assert summary.figure_url == f"/reports/warm-start-mini/{claim.figure}.svg"


@pytest.mark.parametrize("content", ["", "key\n1\n", "key,verdict\n", "\0", "adjusted p\nx\n"])
def test_damaged_claims_have_no_headline(tmp_path, content):
    (tmp_path / "claims.csv").write_text(content)
    assert read_verdict_summary(tmp_path, registered_studies()["warm-start"]) is None


def test_report_is_served_without_scripts(client, folder):
    response = client.get("/reports/warm-start-smoke/index.html")
    report = folder / "studies/warm-start-smoke/report"
    assert response.content == (report / "index.html").read_bytes()
    policy = response.headers["content-security-policy"]
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert client.get("/reports/warm-start-smoke/claims.csv").status_code == 200


@pytest.mark.parametrize(
    "path",
    ["warm-start-smoke/report.json", "warm-start-smoke/..%2fstudy.toml", "%2e%2e/index.html",
     "runs/index.html", "warm-start-smoke/none.html", "warm-start-smoke/.html"],
)  # fmt: skip
def test_files_outside_reports_are_not_served(client, path):
    assert client.get(f"/reports/{path}").status_code in (403, 404)


def test_links_out_of_report_are_not_followed(client, folder):
    link = folder / "studies/warm-start-smoke/report/link.html"
    (folder / "secret.html").write_text("secret")
    link.symlink_to(folder / "secret.html")
    assert client.get("/reports/warm-start-smoke/link.html").status_code == 403
    link.unlink()


def test_empty_laboratory_lists_nothing(tmp_path):
    folders = Folders((tmp_path / "runs",), tmp_path / "studies", tmp_path / "tournaments")
    app = make_app(Laboratory(folders, workers=0))
    with TestClient(app, base_url="http://localhost") as client:
        assert get(client, "/runs") == []
        assert get(client, "/tournaments") == []
        assert not any(each["started_scales"] for each in get(client, "/studies"))


def test_server_warms_up_with_most_recent_run(folder, monkeypatch):
    now = time.time()
    for name, age in (("one", 10), ("two", 20)):
        os.utime(folder / "runs" / name / "state.json", (now - age, now - age))
    requests, is_warming_up = [], threading.Event()

    async def warm_up(searches, request):
        requests.append(request)
        is_warming_up.set()
        raise BusyError("pages work even if the warm-up fails")

    monkeypatch.setattr(SearchPool, "warm_up", warm_up)
    laboratory = Laboratory(Folders(), workers=1, warm_up=True)
    with TestClient(make_app(laboratory), base_url="http://localhost") as client:
        assert is_warming_up.wait(60)
        assert get(client, "/runs")
    assert [(each.agent, each.position.history) for each in requests] == [("runs/one", ())]
    assert newest_run(Folders((folder / "nowhere",))) is None


def test_server_without_runs_warms_up_with_a_shipped_agent(tmp_path, monkeypatch):
    laboratory = Laboratory(Folders((tmp_path,)), workers=0)
    shipped = {parse_game("connect_four"): []}
    monkeypatch.setattr("zerolab.web.laboratory.shipped_agents", shipped.__getitem__)
    assert laboratory._warm_up_request() is None
    (usual,) = shipped
    shipped[usual] = [ShippedAgent("connect-four", "connect-four", None)]
    request = laboratory._warm_up_request()
    assert (request.agent, request.position.game) == ("connect-four", usual)


def test_simultaneous_callers_read_a_file_once(tmp_path):
    cache, reads, meeting = FileCache(), [], threading.Barrier(2)

    def read():
        reads.append(1)
        with suppress(threading.BrokenBarrierError):
            meeting.wait(timeout=0.1)  # ends at once if two callers read
        return len(reads)

    with ThreadPoolExecutor(4) as pool:
        results = pool.map(lambda _: cache.get("key", [tmp_path / "file"], read), range(4))
        assert list(results) == [1] * 4
    (tmp_path / "file").touch()
    assert cache.get("key", [tmp_path / "file"], read) == 2
