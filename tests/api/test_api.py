"""The public Python interface, compared with the rules, the solver and the command line."""

from __future__ import annotations

import ast
import gc
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import zerolab
from forks import Fork
from zerolab.core.nested_tables import flatten
from zerolab.training.configure import resolve_settings

GAME = "gobang:3x3:3"
START = zerolab.Position.start(GAME)
AGENTS = ["random", "random"]


def test_public_names_exist():
    for name in zerolab.__all__:
        assert getattr(zerolab, name) is not None
    assert set(zerolab.__all__) <= set(dir(zerolab))
    with pytest.raises(AttributeError, match="nonsense"):
        zerolab.nonsense  # noqa: B018


def test_names_for_type_checkers_agree():
    tree = ast.parse(Path(zerolab.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == zerolab._MODULES


def test_imports_of_api_and_server_do_not_load_torch():
    light = (
        "zerolab.Position, zerolab.parse_game, zerolab.analyse, zerolab.solve, zerolab.list_games"
    )
    modules = "import sys, zerolab, zerolab.web.server"
    code = f"{modules}; {light}; print('torch' in sys.modules)"
    assert Fork(code=code).finish() == ("False\n", "")


def test_on_stage_gets_saved_records_in_order(run, records):
    assert [record.as_dict() for record in records] == run.metrics()
    stages = [(record.iteration, record.stage) for record in records]
    assert stages[:3] == [(1, "selfplay"), (1, "learn"), (1, "gate")]
    assert {stage for _, stage in stages} <= {line["stage"] for line in run.metrics()}


def test_exception_in_on_stage_stops_training_resumably(tmp_path, run):
    def stop(record):
        if record.stage == "learn":
            raise KeyboardInterrupt

    settings = {"iterations": 2, "search.simulations": 6, "final_evaluation.games": 0}
    with pytest.raises(KeyboardInterrupt):
        zerolab.train(GAME, run=tmp_path / "r", preset="smoke", settings=settings, on_stage=stop)
    resumed = zerolab.train(run=tmp_path / "r")
    expected = [{k: v for k, v in m.items() if "wall" not in k} for m in run.metrics()]
    assert [{k: v for k, v in m.items() if "wall" not in k} for m in resumed.metrics()] == expected


def test_settings_of_run_cannot_change(run):
    assert run.settings["search"]["simulations"] == 6
    with pytest.raises(zerolab.UserError, match="simulations"):
        zerolab.train(run=run.path, settings={"search.simulations": 7})
    for preset in ("strong", "no-such-preset"):
        with pytest.raises(zerolab.UserError, match="preset"):
            zerolab.train(run=run.path, preset=preset)


def test_misspelt_folder_begins_no_new_run(run):
    misspelt = run.path.with_name(f"{run.path.name}x")
    with pytest.raises(zerolab.UserError, match=rf'is not a run: .*did you mean "{run.path.name}"'):
        zerolab.train(run=misspelt, settings={"iterations": 3})
    assert not misspelt.exists()


def test_metrics_of_unknown_stages_are_refused(run):
    assert [each["stage"] for each in run.metrics("learn")] == ["learn"] * len(run.metrics("gate"))
    with pytest.raises(zerolab.UserError, match=r'stage = "self-play": expected .*selfplay'):
        run.metrics("self-play")
    with pytest.raises(zerolab.UserError, match="stage = 5: expected a name"):
        run.metrics(5)
    with pytest.raises(zerolab.UserError, match='unknown preset ""'):
        zerolab.train(GAME, run=run.path / "other", preset="")


def test_network_evaluates_positions_and_states_alike(run):
    network = run.network()
    start = zerolab.Position.start(GAME)
    positions = [start, start.play("b2"), start.play("b2").play("a1")]
    priors, values = network.evaluate(positions)
    assert priors.shape == (3, 9)
    assert values.shape == (3,)
    assert np.allclose(priors.sum(axis=1), 1, atol=1e-3)
    assert (np.abs(values) <= 1).all()
    again = network.evaluate_states(np.array([each.state for each in positions]))
    assert np.array_equal(priors, again[0])
    assert network.evaluate([])[0].shape == (0, 9)


def test_network_refuses_invalid_positions_and_states(run):
    network = run.network()
    for positions in (3, ["x"], [zerolab.Position.start("gobang:4x4:3")]):
        with pytest.raises(zerolab.UserError, match="expected"):
            network.evaluate(positions)
    words = len(START.state)
    for states in ("x", np.zeros((1, words)), np.zeros((1, words + 1), np.uint64), START.state):
        with pytest.raises(zerolab.UserError, match=rf"expected an array uint64\[N, {words}\]"):
            network.evaluate_states(states)
        with pytest.raises(zerolab.UserError, match=rf"expected an array uint64\[N, {words}\]"):
            zerolab.encode_batch(START.game, states)
    with pytest.raises(zerolab.UserError, match="padded = 1: expected at least 2"):
        zerolab.encode_batch(START.game, np.stack([START.state] * 2), 1)
    with pytest.raises(zerolab.UserError, match="has no network"):
        zerolab.load_network("mcts:10")
    with pytest.raises(zerolab.UserError, match="expected no options"):
        zerolab.load_network(f"{run.path}?simulations=4")


@pytest.mark.parametrize("name", ["random", "mcts", "perfect", "mcts:9", "x@1234567890", " run"])
def test_networks_of_runs_named_like_other_agents(run, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run.path, name)
    copy = zerolab.open_run(name)
    for iteration in (None, 1):
        network, expected = copy.network(iteration), run.network(iteration)
        assert network.name.removeprefix("run:").startswith(f"{name}@")
        assert np.array_equal(network.evaluate([START])[0], expected.evaluate([START])[0])


@pytest.mark.parametrize(
    ("iteration", "message"),
    [
        (9, "has no network 9: expected one of 0, 1"),
        (-1, "iteration = -1: expected at least 0"),
        ("x", 'iteration = "x": expected a whole number'),
    ],
)
def test_missing_networks_are_refused(run, iteration, message):
    with pytest.raises(zerolab.UserError, match=message):
        run.network(iteration)


def test_encoding_accepts_names_of_games():
    states = np.stack([START.state] * 2)
    by_name = zerolab.encode_batch(GAME, states, 3)
    assert np.array_equal(by_name, zerolab.encode_batch(START.game, states, 3))
    assert by_name.shape[0] == 3


def test_tournament_without_a_folder_keeps_its_games_until_it_is_deleted():
    report = zerolab.play_tournament(AGENTS, game=GAME, games=2)
    tournament = report.tournament
    assert len(tournament.games()) == report.game_counts.game_count == 2
    assert report.as_dict()["folder"] is None
    with pytest.raises(zerolab.UserError, match=r"without a folder: expected folder=\.\.\."):
        report.save()
    path = tournament.path
    del report
    assert path.is_dir()
    del tournament
    gc.collect()
    assert not path.parent.exists()


def test_interrupted_tournament_without_a_folder_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def stop(done):
        assert list(tmp_path.iterdir())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zerolab.play_tournament(AGENTS, game=GAME, games=2, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_finished_tournament_of_a_moved_run_is_reported(run, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(run.path, moved)
    folder = tmp_path / "t"
    first = zerolab.play_tournament([f"{moved}?simulations=2", "random"], games=2, folder=folder)
    shutil.rmtree(moved)
    again = zerolab.play_tournament([], folder=folder)
    assert again.as_dict() == first.as_dict()
    with pytest.raises(zerolab.UserError, match="moved"):
        zerolab.play_tournament(["mcts:2"], folder=folder)


def test_search_analysis_finds_win(run):
    position = zerolab.Position.start(GAME)
    for move in ("a1", "b1", "a2", "b2"):
        position = position.play(move)
    for agent in ("mcts:300?tie_break=random", f"{run.path}?simulations=300"):
        analysis = zerolab.analyse(position, agent, seed=3)
        assert analysis.chosen_move.name == "a3"
        assert analysis.principal_variation[0] == "a3"
        assert analysis.value > 0.5
        assert sum(move.visits for move in analysis.moves) == 300
        assert [move.visits for move in analysis.moves] == sorted(
            (move.visits for move in analysis.moves), reverse=True
        )


def test_perfect_analysis_agrees_with_solver():
    position = zerolab.Position.start(GAME).play("b2").play("a1").play("c1")
    analysis = zerolab.analyse(position, "perfect")
    values = zerolab.solve(position)
    assert {move.name: move.value for move in analysis.moves} == values
    assert analysis.value == max(values.values())


def test_policy_analysis_has_priors_and_random_only_move(run):
    position = zerolab.Position.start(GAME)
    policy = zerolab.analyse(position, f"{run.path}?simulations=0")
    assert policy.chosen_move.prior == max(move.prior for move in policy.moves)
    random = zerolab.analyse(position, "random", seed=5)
    assert random == zerolab.analyse(position, "random", seed=5)
    assert random.chosen_move.visits is None
    assert random.value is None


def test_match_has_score_and_elo_difference(run):
    progress = []
    match = zerolab.play_match(
        "mcts:200", "random", game=GAME, games=20, openings=1, progress=progress.append
    )
    assert match.score.game_count == 20
    assert match.score.score_rate > 0.6
    assert match.elo_difference().los > 0.5
    assert progress[-1] == 20


def test_sequential_test_finds_the_stronger_agent():
    tested = zerolab.play_sprt("mcts:100", "random", game=GAME, elo1=100, games=400, seed=1)
    assert tested.verdict.decision == "accept H1"
    assert len(tested.match.games) < 400
    assert repr(tested).startswith("<TestedMatch mcts:100 against random: accept H1 after ")
    assert "the larger difference is accepted" in tested._repr_html_()


def test_tournament_folder_can_be_extended(tmp_path):
    folder = tmp_path / "t"
    zerolab.play_tournament(["random", "mcts:5"], game=GAME, games=4, folder=folder)
    report = zerolab.play_tournament(["mcts:50"], folder=folder)
    assert {rating.player for rating in report.ratings.player_ratings} == {
        "random",
        "mcts:5",
        "mcts:50",
    }


def test_winner_of_all_games_is_rated_higher():
    games = [("strong", "weak", 1), ("weak", "strong", -1)] * 20
    ratings = zerolab.rate(games)
    assert ratings.player_ratings[0].player == "strong"
    assert ratings.elo_difference("strong", "weak").interval.low > 0


RATINGS = zerolab.rate([("a", "b", 1), ("b", "a", 1)])
STATES = START.state[None]
LONG = "a" * 100_000


def play(**options):
    return zerolab.play_match("random", "random", game=GAME, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: zerolab.analyse(zerolab.Position.start(GAME), "mtcs:10"), "mcts"),
        (lambda: zerolab.analyse("x", "random"), 'position = "x": expected a zerolab.Position'),
        (lambda: zerolab.analyse(START, 5), "agent = 5: expected an agent"),
        (lambda: zerolab.analyse(START, "random", seed=-1), "seed = -1: expected at least 0"),
        (lambda: zerolab.analyse(START, "random", seed="x"), 'seed = "x": expected a whole'),
        (lambda: zerolab.solve("x"), 'position = "x": expected a zerolab.Position'),
        (lambda: zerolab.solve(START, nodes=-1), "nodes = -1: expected at least 1"),
        (lambda: zerolab.solve(START, nodes=1), "not solved within 1 nodes"),
        (lambda: zerolab.Position.start(3), "game = 3: expected a name"),
        (lambda: zerolab.Position.start((3, 3)), "expected a name"),
        (lambda: START.play(None), "not a legal move here"),
        (lambda: START.parse_action(3), "move = 3: expected a name"),
        (lambda: zerolab.parse_game(3), "game = 3: expected a name"),
        (lambda: zerolab.load_network("random"), '"random" has no network: expected a run'),
        (lambda: zerolab.load_network(3), "3 has no network: expected a run"),
        (lambda: zerolab.Position.set_up(GAME, [[0]], True), "board: expected an array"),
        (lambda: zerolab.Position.set_up(GAME, np.full((5, 5), 2), True), "of 1, 0 and -1"),
        (lambda: zerolab.Position.set_up(GAME, np.array([["X"]]), True), "of 1, 0 and -1"),
        (lambda: zerolab.open_run(3), "path = 3: expected a path"),
        (lambda: zerolab.read_positions(3), "path = 3: expected a path"),
        (lambda: zerolab.play_match("random", "random"), 'expected game=..., as in game="othello'),
        (lambda: zerolab.play_match("random", 3, game=GAME), "agent = 3: expected an agent"),
        (lambda: zerolab.play_match("random", "random", game=3), "game = 3: expected a name"),
        (lambda: play(games=0), "games = 0: expected at least 2"),
        (lambda: play(games="x"), 'games = "x": expected a whole number'),
        (lambda: play(openings=-1), "openings = -1: expected at least 0"),
        (lambda: play(seed=-1), "seed = -1: expected at least 0"),
        (lambda: zerolab.play_sprt("mcts:5", "random", game=GAME, elo0=9, elo1=1), "sprt 9 1"),
        (lambda: zerolab.play_sprt("mcts:5", "random", game=GAME, elo0="x"), 'elo0 = "x": expe'),
        (lambda: play(progress=3), "progress = 3: expected a function"),
        (lambda: zerolab.play_tournament("random", game=GAME), 'agents = "random": expected a li'),
        (lambda: zerolab.play_tournament(AGENTS, game=GAME, games=3), "3 is odd"),
        (lambda: zerolab.play_tournament(AGENTS, game=GAME, openings=-1), "openings = -1"),
        (lambda: zerolab.play_tournament(AGENTS, game=GAME, seed=-1), "seed = -1"),
        (lambda: zerolab.play_tournament(AGENTS, game=GAME, folder=3), "folder = 3"),
        (lambda: zerolab.rate("x"), 'games = "x": expected a list of games'),
        (lambda: zerolab.rate(["x"]), '"x" is not a finished game'),
        (lambda: zerolab.rate([("a", "b")]), "with the result 1, 0 or -1"),
        (lambda: zerolab.rate([("a", "b", 5)]), "with the result 1, 0 or -1"),
        (lambda: zerolab.rate([(1, 2, 1)]), "with the result 1, 0 or -1"),
        (lambda: zerolab.rate([("a", "b", 1)], advantage="x"), 'advantage = "x": expected a num'),
        (lambda: zerolab.rate([]), "no finished game"),
        (lambda: zerolab.train(3, run="x"), "game = 3: expected a name"),
        (lambda: zerolab.train(GAME, run=3), "run = 3: expected a path"),
        (lambda: zerolab.train(GAME, run="x", preset=3), "preset = 3: expected a name"),
        (lambda: zerolab.train(GAME, run="x", settings=[1]), "settings = .*expected a mapping"),
        (
            lambda: zerolab.train(GAME, run="x", settings={"seed": {1}}),
            "seed = .*: expected a whole number",
        ),
        (lambda: zerolab.open_run("nowhere"), "nowhere"),
        (lambda: play(games=3), "3 is odd"),
        (lambda: zerolab.play_tournament(["random"], game=GAME), "at least two"),
        (lambda: zerolab.train("gobng:3x3:3", run="x"), "gobang"),
        (lambda: zerolab.train(GAME, run="x", settings={"learn.epoch": 1}), "learn.epochs"),
        (lambda: zerolab.read_positions("nothing.parquet"), "nothing.parquet"),
        (lambda: zerolab.train(GAME, run="a?b"), r"a\?b: expected a name without \?"),
        (lambda: zerolab.train(GAME, run=LONG), "aaa: File name too long"),
        (lambda: zerolab.study_report(LONG), "aaa: File name too long"),
        (lambda: zerolab.read_cost_reference(LONG), "aaa: File name too long"),
        (lambda: zerolab.run_costs("\0"), "embedded null"),
        (lambda: zerolab.write_pgn("", [START]), r"cannot write \.: it is a folder"),
        (lambda: zerolab.write_pgn("\0", [START]), "embedded null"),
        (lambda: zerolab.write_pgn("x/y.pgn", [START]), "the folder x does not exist"),
        (lambda: zerolab.encode_batch("gobng:3x3:3", STATES), "gobang"),
        (lambda: zerolab.encode_batch(3, STATES), "game = 3: expected a name"),
        (lambda: zerolab.encode_batch(GAME, STATES, "3"), 'padded = "3": expected a whole number'),
        (lambda: zerolab.encode_batch(GAME, STATES, 2.5), "padded = 2.5: expected a whole number"),
        (lambda: RATINGS.elo_difference(0, "a"), "player = 0: expected the name of a rated"),
        (lambda: RATINGS.elo_difference("a", "c"), 'unknown player "c"'),
        (lambda: RATINGS.standard_error(["a"]), r"weights = .*: expected a mapping, such as"),
        (lambda: RATINGS.standard_error({0: 1.0}), "player = 0: expected the name of a rated"),
        (lambda: RATINGS.standard_error({"a": "x"}), 'weight = "x": expected a number'),
    ],
)
def test_mistakes_raise_one_line_errors(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(zerolab.UserError) as error:
        call()
    assert re.search(message, str(error.value))
    assert "\n" not in str(error.value)
    assert "--" not in str(error.value)
    assert list(Path.cwd().iterdir()) == []


def test_finished_games_cannot_be_analysed():
    position = zerolab.Position.start(GAME)
    for move in ("a1", "b1", "a2", "b2", "a3"):
        position = position.play(move)
    for call in (lambda: zerolab.analyse(position, "random"), lambda: zerolab.solve(position)):
        with pytest.raises(zerolab.UserError, match="over"):
            call()


def test_settings_can_be_lists_of_tables():
    heads = ["policy", {"name": "outcome", "weight": 0.01}]
    settings = {"network": {"name": "conv", "heads": heads}, "seed": 3}
    resolved = resolve_settings(GAME, "smoke", list(flatten(settings)))
    assert [(head.name, head.weight) for head in resolved.network.heads] == [
        ("policy", 1.0), ("outcome", 0.01),
    ]  # fmt: skip
    assert resolved.seed == 3
