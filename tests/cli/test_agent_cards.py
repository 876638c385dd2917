"""`zerolab agents`: lists, cards and their verification, with an agent trained for seconds."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from zerolab.agents import file_agents
from zerolab.agents.agent import NetworkOptions, parse_search_options
from zerolab.agents.file_agents import read_agent_file, shipped_path
from zerolab.cli.main import main
from zerolab.core.nested_tables import flatten
from zerolab.evaluation import solved_sets
from zerolab.evaluation.cards import MeasuredShare, card_path, compare_cards, read_card, write_card
from zerolab.oracles.oracle import NotSolvedError
from zerolab.play import selfplay_settings
from zerolab.report.table import Interval
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.costs import training_summary

PACKAGED = sorted(file_agents.SHIPPED_FOLDER.glob("*.zerolab"))
GAME = "gobang:3x3:3"
NAME = "gobang-3x3-3"
FEW = ("--positions", "30", "--games", "4", "--openings", "1", "--perfect", "4")


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory):
    """Folder with runs/demo, its agent with a card as mine.zerolab, and no shipped agents."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(file_agents, "SHIPPED_FOLDER", folder / "shipped")
        patch.setattr(solved_sets, "solved_set_cache_folder", lambda: folder / "cache")
        changes = ["iterations=1", "gate.threshold=0", "final_evaluation.games=0"]
        train = ["train", GAME, "--preset", "smoke", *(f"--set={each}" for each in changes)]
        assert main([*train, "--run", "runs/demo", "--quiet"]) == 0
        source = "runs/demo@1?simulations=9"
        made = ["agents", "card", source, "mine.zerolab", *FEW, "--against", "random"]
        assert main(made) == 0
        yield folder


@pytest.mark.parametrize("path", PACKAGED, ids=lambda path: path.stem)
def test_commands_on_shipped_cards_have_the_settings_of_the_agents(path):
    agent = read_agent_file(path)
    card = read_card(path, agent)
    training = card.training
    _, _, game, _, preset, *options = shlex.split(training.command)
    settings = resolve_settings(game, preset, options[1 : options.index("--run") : 2])
    network = settings.network_settings_at(agent.header.origin.iteration)
    search = parse_search_options(NetworkOptions, card.options or None, settings.search)
    assert (network, search.search_settings) == (agent.network_settings, agent.search_settings)
    keys = dict(flatten(settings.model_dump()))
    assert {key: keys[key] for key in training.settings} == training.settings


@pytest.fixture
def mine():
    return read_card(Path("mine.zerolab"), read_agent_file(Path("mine.zerolab")))


@pytest.fixture
def shipped(work):
    """Put the agent and its card into the folder of shipped agents for one test."""
    Path("shipped").mkdir()
    for file in (Path("mine.zerolab"), Path("mine.toml")):
        shutil.copy(file, Path("shipped", NAME).with_suffix(file.suffix))
    yield shipped_path(NAME)
    shutil.rmtree("shipped")


def run(capsys, *arguments, code=0):
    """Return the output of a command, or its messages if it fails."""
    capsys.readouterr()
    assert main(["agents", *arguments]) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def refusal(capsys, *arguments):
    (line,) = run(capsys, *arguments, code=2).splitlines()
    return line


def test_card_says_how_the_agent_was_trained_and_measured(mine):
    agent = read_agent_file(Path("mine.zerolab"))
    assert (mine.digest, mine.game) == (agent.digest, GAME)
    assert (mine.options, mine.simulations) == ("simulations=9", 9)
    assert agent.search_settings.simulations == 9
    training = mine.training
    assert (training.preset, training.iterations) == ("smoke", 1)
    assert training.settings == {"iterations": 1, "gate.threshold": 0.0}
    assert training.command == (
        f"zerolab train {GAME} --preset smoke --set iterations=1 --set gate.threshold=0.0 --run"
        " runs/demo"
    )
    assert 0 <= training.hours < 1
    assert training.environments[0].threads >= 1
    assert mine.accuracy.positions == 30
    assert mine.accuracy.dataset.one_per_game
    assert mine.accuracy.network.strong.samples == 30
    assert mine.perfect_play.first.samples + mine.perfect_play.second.samples <= 4
    (match,) = mine.matches
    assert match.wins + match.draws + match.losses == match.games == 4
    assert match.score.value == (match.wins + match.draws / 2) / 4


def test_cores_of_the_writing_machine_do_not_appear_on_the_card(mine, monkeypatch):
    cores = mine.training.environments[0].threads
    monkeypatch.setattr(selfplay_settings, "available_cores", lambda: cores + 1)
    origin = read_agent_file(Path("mine.zerolab")).header.origin
    assert training_summary(RunFolder.open(Path("runs/demo")), origin) == mine.training


def test_card_names_no_folders_and_no_machine(work):
    text = Path("mine.toml").read_text()
    assert str(work) not in text
    assert work.name not in text


def test_positions_are_those_of_the_shown_command(capsys, mine):
    command = re.search(r"positions: zerolab (.*), digest", run(capsys, "mine.zerolab"))[1]
    assert main([*shlex.split(command), "--out", "again.parquet"]) == 0
    manifest = json.loads(Path("again.parquet.json").read_text())
    assert manifest["digest"] == mine.accuracy.digest


def test_verification_agrees_with_the_same_seeds(capsys, mine):
    compared = json.loads(run(capsys, "mine.zerolab", "--verify", "--json"))["mine"]
    assert all(each["agrees"] for each in compared)
    quantities = [each["quantity"] for each in compared]
    assert quantities[:2] == ["simulations", "digest of the positions"]
    assert len(quantities) == len(set(quantities)) == 2 + 4 + 2 + 1
    shares = [each for each in compared if isinstance(each["stated"], dict)]
    assert len(shares) == 4 + 2 + 1
    assert all(each["stated"] == each["measured"] for each in shares)
    assert shares[0]["stated"].keys() == {"value", "low", "high"}


def test_verification_fails_if_a_number_is_wrong(capsys, mine):
    shutil.copy("mine.zerolab", "boast.zerolab")
    (match,) = mine.matches
    false = match.score.model_copy(update={"value": 0.0, "low": 0.0, "high": 0.0})
    boast = mine.model_copy(
        update={
            "accuracy": None, "perfect_play": None,
            "matches": (
                match.model_copy(update={"score": false, "wins": 0, "draws": 0, "losses": 4}),
            ),
        }
    )  # fmt: skip
    write_card(Path("boast.zerolab"), boast)
    assert match.score.low > 0
    assert run(capsys, "boast.zerolab", "--verify", code=1) == (
        "zerolab: numbers that do not agree with the card: 1 for boast\n"
    )


def test_verification_runs_no_programs(capsys, mine):
    """Cards may be from unknown authors."""
    shutil.copy("mine.zerolab", "hostile.zerolab")
    (match,) = mine.matches
    hostile = match.model_copy(update={"opponent": 'gtp:"touch ran"'})
    changes = {"accuracy": None, "perfect_play": None, "matches": (hostile,)}
    write_card(Path("hostile.zerolab"), mine.model_copy(update=changes))
    assert "available to everyone" in refusal(capsys, "hostile.zerolab", "--verify")
    assert not Path("ran").exists()


def test_list_is_empty_without_agents(capsys):
    assert "this package has no agents" in run(capsys)
    assert json.loads(run(capsys, "--json")) == []
    assert json.loads(run(capsys, "--verify", "--json")) == {}


def test_list_has_agents_with_and_without_cards(capsys, shipped):
    shutil.copy(shipped, shipped.with_stem("another"))
    listed = json.loads(run(capsys, "--json"))
    assert [(each["name"], each["card"] is None) for each in listed] == [
        ("another", True), (NAME, False),
    ]  # fmt: skip
    assert {each["game"] for each in listed} == {GAME}
    printed = run(capsys)
    assert NAME in printed
    assert "strong moves, search" in printed


def test_card_is_shown_by_name(capsys, shipped, mine):
    printed = run(capsys, NAME)
    assert printed.startswith(f"{NAME}@{mine.digest[:8]}: {GAME}")
    assert mine.training.command in printed
    assert mine.accuracy.digest in printed
    assert json.loads(run(capsys, NAME, "--json"))[0]["card"]["digest"] == mine.digest


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("schema = 1", "schema = 2", "schema version 2"),
        ("schema = 1\n", "", "has no schema version"),
        ("game = ", "gane = ", "is not a card of an agent"),
        ("positions = 30", "positions = 'many'", "is not a card of an agent"),
        ("[training]", "[training", "is not a TOML file"),
        ('digest = "', 'digest = "0', "is the card of another agent"),
        ("seed = 0", f"seed = {1 << 64}", "is not a card of an agent"),
        ('options = "simulations=9"', 'options = "simulatons=9"', 'did you mean "simulations"'),
        ('options = "', 'options = "temperature_plies=9&', "can be set only for play"),
        ("\nsimulations = 9\n", "\nsimulations = 5000\n", "its training or options differ"),
        ("\nlosses = ", "\nlosses = 1", "expected 4 games in total"),
        ("\niterations = 1\n", "\niterations = 2\n", "its training or options differ"),
        (
            'options = "simulations=9"',
            'options = "simulations=8"',
            "its training or options differ",
        ),
    ],
)
def test_damaged_cards_get_one_line(capsys, shipped, old, new, expected):
    path = card_path(shipped)
    path.write_text(path.read_text().replace(old, new, 1))
    line = refusal(capsys, NAME)
    assert expected in line
    assert NAME in line
    capsys.readouterr()
    assert main(["agents"]) == 0  # the others are listed
    assert expected in capsys.readouterr().err
    assert expected in refusal(capsys, "--verify")


def test_score_of_other_games_is_refused(capsys, shipped, mine):
    (match,) = mine.matches
    false = match.model_copy(update={"score": match.score.model_copy(update={"value": 0.123})})
    write_card(shipped, mine.model_copy(update={"matches": (false,)}))
    assert "the score does not match the wins, draws and losses" in refusal(capsys, NAME)
    write_card(shipped, mine.model_copy(update={"matches": (match, match)}))
    assert "expected different opponents" in refusal(capsys, NAME)


def test_card_of_another_file_is_refused(capsys, shipped):
    assert main(["export", "runs/demo@0", str(shipped), "--half", "--overwrite"]) == 0
    assert "is the card of another agent" in refusal(capsys, NAME)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["gobang-3x33"], f'did you mean "{NAME}"?'),
        (["mine.zerolb"], "is neither a run nor one of"),
        (["runs/demo"], "has no card"),
        (["mine.zerolab?simulations=3"], "has no card"),
        (["random"], "has no card"),
        (["card", "mine.zerolab", "new.zerolab"], "is not a run"),
        (["card", "runs/demo", "mine.zerolab"], "mine.toml exists"),
        (["card", "runs/demo", "new.zip"], "new.zip: expected a file ending in .zerolab"),
        (["card", "runs/demo", "new.onnx"], "new.onnx: expected a file ending in .zerolab"),
        (["card", "runs/demo", "new.zerolab", "--openings", "9"], "openings"),
        (["card", "runs/demo", "new.zerolab", "--against", "random", "random"], "listed twice"),
        (["card", "runs/demo", "nowhere/new.zerolab"], "does not exist"),
        (["card", "runs/demo", "new.zerolab", "--games", "3"], "expected an even number"),
        (["card", "runs/demo", "new.zerolab", "--perfect", "-2"], "expected an even number"),
        (["card", "runs/demo", "new.zerolab", "--positions", "-1"], "expected at least 0"),
        (["card", "runs/demo", "new.zerolab", "--plies", "x"], "expected LOW:HIGH"),
        (["card", "runs/demo", "new.zerolab", "--against", "mcst:3"], 'did you mean "mcts"?'),
        (["card", "runs/demo", "new.zerolab", "--against", "runs/demo"], "available to everyone"),
        (["card", "runs/demo", "new.zerolab", "--against", 'gtp:"x"'], "available to everyone"),
        (["card", "runs/demo?simulatons=3", "new.zerolab"], 'did you mean "simulations"?'),
        (
            ["card", "runs/demo?simulations=0", "new.zerolab"],
            "simulations = 0 can be set only for play",
        ),
    ],
)
def test_invalid_requests_get_one_line(capsys, shipped, arguments, expected):
    assert expected in refusal(capsys, *arguments)
    assert not Path("new.zerolab").exists()


@pytest.mark.parametrize("other", ["runs/demo@0", "runs/demo@1?simulations=11"])
def test_card_of_a_file_that_is_another_agent_is_refused(capsys, other):
    assert main(["export", other, "other.zerolab", "--half", "--overwrite"]) == 0
    line = refusal(capsys, "card", "runs/demo@1", "other.zerolab")
    assert "contains a different agent than runs/demo@1" in line
    assert not Path("other.toml").exists()


def test_card_of_an_extended_run_can_be_written_again(capsys):
    shutil.copytree("runs/demo", "runs/extended")
    made = ["card", "runs/extended@1", "first.zerolab", *FEW, "--against", "random", "--overwrite"]
    run(capsys, *made)
    assert main(["train", "--run", "runs/extended", "--set", "iterations=2", "--quiet"]) == 0
    Path("first.toml").unlink()
    run(capsys, *made[:-1])
    assert Path("first.toml").exists()
    shutil.rmtree("runs/extended")
    train = ["train", GAME, "--preset", "smoke", "--set", "iterations=1", "--set", "seed=5"]
    changes = ["--set", "gate.threshold=0", "--run", "runs/extended", "--quiet"]
    assert main([*train, *changes]) == 0
    Path("first.toml").unlink()
    assert "contains a different agent than runs/extended@1" in refusal(capsys, *made[:-1])


def test_damaged_and_missing_caches_do_not_prevent_measurements(capsys, monkeypatch, work, mine):
    for path in (work / "cache").glob("*.parquet"):
        path.write_bytes(path.read_bytes()[:-9])
    compared = json.loads(run(capsys, "mine.zerolab", "--verify", "--json"))["mine"]
    assert all(each["agrees"] for each in compared)
    monkeypatch.setattr(solved_sets, "solved_set_cache_folder", lambda: work / "mine.toml")
    compared = json.loads(run(capsys, "mine.zerolab", "--verify", "--json"))["mine"]
    assert all(each["agrees"] for each in compared)


def test_game_that_is_too_hard_has_a_card_without_accuracy(capsys, monkeypatch):
    def give_up(*arguments):
        raise NotSolvedError("the game cannot be solved")

    monkeypatch.setattr("zerolab.cli.agents.measure_accuracy", give_up)
    made = ["card", "runs/demo", "hard.zerolab", "--against", "random", "--games", "2", "--json"]
    card = json.loads(run(capsys, *made))
    assert "accuracy" not in card
    assert "perfect_play" not in card
    assert [each["opponent"] for each in card["matches"]] == ["random"]
    agent = read_agent_file(Path("hard.zerolab"))
    assert read_card(Path("hard.zerolab"), agent).model_dump(mode="json") == card
    compared = json.loads(run(capsys, "hard.zerolab", "--verify", "--json"))
    assert [each["quantity"] for each in compared["hard"]] == ["simulations", "against random"]


@pytest.mark.parametrize(
    ("stated", "measured", "expected"),
    [
        ((0.4, 0.5), (0.5, 0.6), True),
        ((0.4, 0.5), (0.51, 0.6), False),
        ((0.3, 0.4), (0.1, 0.9), True),
        ((0.1, 0.9), (0.3, 0.4), False),
        ((0.985, 1.0), (1.0, 1.0), True),
    ],
)
def test_measurements_agree_if_equally_exact_intervals_overlap(stated, measured, expected):
    shares = [
        MeasuredShare.from_interval(Interval(low, low, high), 9) for low, high in (stated, measured)
    ]
    assert shares[0].agrees_with(shares[1]) == expected


def test_false_values_in_true_intervals_do_not_agree():
    measured = MeasuredShare.from_interval(Interval(0.6, 0.5, 0.7), 100)
    assert measured.model_copy(update={"value": 0.69}).agrees_with(measured)
    for false in (0.49, 0.71):
        assert not measured.model_copy(update={"value": false}).agrees_with(measured)


def test_repeated_card_must_have_the_same_numbers(mine):
    assert all(each.agrees for each in compare_cards(mine, mine))
    assert mine.accuracy.search is not None
    alone = mine.accuracy.model_copy(update={"search": None})
    for other, wrong in (({"simulations": 99}, 1), ({"accuracy": alone}, 2)):
        compared = compare_cards(mine.model_copy(update=other), mine)
        assert sum(not each.agrees for each in compared) == wrong


def test_verification_without_a_card_is_refused(capsys):
    shutil.copy("mine.zerolab", "bare.zerolab")
    assert "bare.zerolab has no card" in refusal(capsys, "bare.zerolab", "--verify")
    assert "no card" in run(capsys, "bare.zerolab")


def test_game_alone_is_played_against_the_shipped_agent_or_mcts(capsys, shipped, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["play", GAME]) == 0
    assert f"{GAME} against {NAME}" in capsys.readouterr().out
    assert main(["play", NAME]) == 0
    assert main(["play", "gobang:4x4:3"]) == 0
    assert "gobang:4x4:3 against mcts:1000" in capsys.readouterr().out
    assert main(["play", "gobang:2x2"]) == 2
    assert main(["play", "gobang", "--game", GAME]) == 2
