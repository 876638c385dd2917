"""Player specs: parsing, names, identities and errors."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from forks import Fork
from zerolab.agents.agent import (
    AGENT_KINDS,
    SearchOptions,
    options_text,
    parse_search_options,
)
from zerolab.agents.baselines import RandomPlayer, RheaPlayer
from zerolab.agents.network_players import PolicyPlayer, SearchPlayer
from zerolab.agents.run_agents import run_spec
from zerolab.agents.specs import parse_agent, parse_agents, with_option
from zerolab.cli.main import main
from zerolab.core import streams
from zerolab.core.errors import UserError
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.search.rhea import RheaSettings, rhea_actions
from zerolab.search.search_settings import SearchSettings
from zerolab.store.run_folder import RunFolder

GAME = parse_game("gobang:3x3:3")
IDENTIFY = """
import pickle, sys
for agent in pickle.loads(bytes.fromhex(sys.argv[1])):
    assert agent.new_player() is not None
    print((agent.name, agent.identity, agent.game))
"""


@pytest.fixture(scope="module", autouse=True)
def runs(tmp_path_factory):
    """Folder with runs of two games, in runs/demo and runs/other."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        smaller = ["--set", "iterations=1", "--set", "final_evaluation.games=0"]
        assert main(["train", "--preset", "smoke", "--run", "runs/demo", *smaller]) == 0
        train = ["train", "gobang:4x4:3", "--preset", "smoke", "--run", "runs/other"]
        assert main([*train, *smaller]) == 0
        yield folder


def test_specs_create_players_of_their_kind():
    assert isinstance(parse_agent("random", GAME).new_player(), RandomPlayer)
    assert isinstance(parse_agent("rhea:20", GAME).new_player(), RheaPlayer)
    for spec in ("mcts:20", "runs/demo", "runs/demo@0", "runs/demo?simulations=3"):
        assert isinstance(parse_agent(spec, GAME).new_player(), SearchPlayer)
    greedy = parse_agent("runs/demo?simulations=0", GAME)
    assert isinstance(greedy.new_player(), PolicyPlayer)
    assert greedy.load_evaluator is not None


def test_names_of_runs_can_look_like_numbered_agents(runs):
    shutil.copytree(runs / "runs/other", runs / "runs/demo #2")
    assert parse_agent("runs/demo #2").game == parse_game("gobang:4x4:3")
    assert parse_agent("runs/demo #3").game == GAME
    names = [agent.name for agent in parse_agents(["runs/demo", "runs/demo"])]
    assert names == ["runs/demo@1", "runs/demo@1 #2"]
    shutil.copytree(runs / "runs/other", runs / "random #2")
    assert [agent.name for agent in parse_agents(["random"] * 2, GAME)] == ["random", "random #3"]
    for name in ("runs/demo #2", "random #2"):
        shutil.rmtree(runs / name)


@pytest.mark.parametrize("name", ["random", "-run", " run", "mcts:100", "other #2", "runs/new"])
def test_spec_of_a_run_names_the_run_whatever_its_folder_is_called(runs, name):
    shutil.copytree(runs / "runs/other", runs / name)
    agent = parse_agent(run_spec(name))
    assert agent.name.removeprefix("run:") == f"{name}@1"
    assert agent.game == parse_game("gobang:4x4:3")
    assert parse_agent(agent.name) == agent
    assert run_spec(str(runs / name)) == str(runs / name)
    shutil.rmtree(runs / name)


def test_games_do_not_depend_on_the_name_of_the_run(runs):
    records = {}
    for name in ("mcts:9", "runs/plain"):
        train = ["train", "--preset", "smoke", "--set", "iterations=1", "--run", name]
        assert main(train) == 0
        run = RunFolder.open(Path(name))
        lines = (json.loads(line) for line in (runs / name / "metrics.jsonl").open())
        records[name] = (
            [
                {key: value for key, value in line.items() if not key.startswith("wall_")}
                for line in lines
            ],
            [str(game).replace(name, "") for game in run.games.stage_games(1, "selfplay")],
        )
        shutil.rmtree(runs / name)
    assert records["mcts:9"] == records["runs/plain"]


def test_runs_determine_the_game_of_all_players():
    agents = parse_agents(["random", "runs/other", "mcts:5"])
    assert {agent.game for agent in agents} == {parse_game("gobang:4x4:3")}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("runs/demo", "./runs/demo/"),
        ("runs/demo", "run:runs/demo"),
        ("runs/demo?simulations=7&selection.c=2", "runs/demo?selection.c=2.0&simulations=7"),
        ("mcts:60", "mcts:50?simulations=60"),
        ("rhea:60", "rhea:50?playouts=60"),
        ("rhea:60", "rhea:15?playouts=60"),
        ("rhea:60", "rhea:60?mutation=0.20&horizon=10"),
        ("rhea:60?horizon=3&mutation=1.0", "rhea:60?mutation=1&horizon=3"),
        ("runs/demo?temperature_plies=0", "runs/demo"),
        ("runs/demo?selection=uct", "runs/demo?selection.name=uct"),
    ],
)
def test_equivalent_specs_have_one_name(one, other):
    first, second = parse_agent(one, GAME), parse_agent(other, GAME)
    assert first.name == second.name
    assert first.identity == second.identity


def test_different_players_have_unique_names_that_parse_back():
    specs = [
        "random", "mcts:50", "mcts:51", "mcts:50?selection.c=2", "mcts:50?temperature_plies=2",
        "rhea:50", "rhea:51", "rhea:50?mutation=0.1", "rhea:50?horizon=5&mutation=0.1",
        "rhea:5?population=1", "rhea:5?population=2&playouts_each=1",
        "runs/demo@0", "runs/demo@1", "runs/demo@1?simulations=0", "runs/demo@1?simulations=3",
        "runs/demo@1?selection.c=3", "runs/demo@1?simulations=3&selection.c=3",
        "runs/demo@1?reuse_tree=false", "runs/demo@1?selection=uct",
        "runs/demo@1?simulations=0&temperature_plies=3",
    ]  # fmt: skip
    agents = parse_agents(specs, GAME)
    names = [agent.name for agent in agents]
    assert len(set(names)) == len({agent.identity for agent in agents}) == len(specs)
    assert [agent.name for agent in parse_agents(names, GAME)] == names


OPTIONS = [
    "selection=puct", "selection=uct", "selection=rave", "selection.c=2", "selection.c=1.0",
    "selection.equivalence=50", "selection.all_movers=true", "root=gumbel", "root=rave_values",
    "root.considered=4", "fpu=parent", "fpu=fixed", "fpu.reduction=0.3", "fpu.value=-0.5",
    "tie_break=random", "discount=0.9", "simulations=7", "cache=0", "temperature_plies=3",
]  # fmt: skip


@given(st.sampled_from(["mcts:50", "rave:50"]), st.lists(st.sampled_from(OPTIONS), unique=True))
def test_names_parse_back_to_the_same_search_in_any_order_of_options(agent, options):
    options = list({option.partition("=")[0]: option for option in options}.values())
    try:
        first = parse_agent("?".join([agent, "&".join(options)] if options else [agent]), GAME)
    except UserError:
        reject()  # the options exclude each other
    again = parse_agent(first.name, GAME)
    assert (again.name, again.search_settings) == (first.name, first.search_settings)
    if options:
        assert parse_agent(f"{agent}?{'&'.join(reversed(options))}", GAME).name == first.name


def test_name_tells_that_a_key_of_a_variant_is_no_longer_set():
    base = SearchSettings(selection={"name": "rave", "equivalence": 50.0})
    chosen = parse_search_options(SearchOptions, "selection=rave&selection.c=2", base)
    assert chosen.selection.equivalence is None
    text = options_text(chosen, base).removeprefix("?")
    assert parse_search_options(SearchOptions, text, base) == chosen


def test_repeated_specs_are_numbered():
    agents = parse_agents(["random", "mcts:5", "random", "random"], GAME)
    names = [agent.name for agent in agents]
    assert names == ["random", "mcts:5", "random #2", "random #3"]
    assert [agent.name for agent in parse_agents(names, GAME)] == names
    assert parse_agent("random #3", GAME).name == "random #3"


def test_default_network_is_named_with_its_iteration(runs):
    name = parse_agent("runs/demo").name
    assert name.startswith("runs/demo@")
    assert name != "runs/demo@"


def test_agents_are_pickled_as_names():
    """Another process recreates agents from names, without closures or weights."""
    names = ["mcts:5?temperature_plies=2 #2", "runs/demo@1?simulations=2"]
    agents = [parse_agent(name, GAME) for name in names]
    assert [agent.name for agent in agents] == names
    assert all(len(pickle.dumps(agent)) < 300 for agent in agents)
    output, errors = Fork(pickle.dumps(agents).hex(), code=IDENTIFY).finish()
    assert errors == ""
    expected = [repr((agent.name, agent.identity, GAME)) for agent in agents]
    assert output.splitlines() == expected


def test_identity_depends_on_the_weights(runs):
    """A run retrained in the same folder is a new agent, and the former agent is refused."""
    train = ["train", "gobang:3x3:3", "--preset", "smoke", "--run", "runs/again"]
    small = ["--set", "iterations=1", "--set", "selfplay.episodes=2", "--set", "gate.games=2"]
    agents = []
    for seed in (0, 0, 2):
        if seed == 0:
            shutil.copytree("runs/demo", "runs/again")
        else:
            assert main([*train, *small, "--set", f"seed={seed}"]) == 0
        agents.append(parse_agent("runs/again@0"))
        shutil.rmtree("runs/again") if len(agents) < 3 else None
    first, repeated, other = agents
    assert first.name == repeated.name == other.name == "runs/again@0"
    assert first.identity == repeated.identity != other.identity
    assert first == repeated != other
    other.load_evaluator()
    with pytest.raises(UserError, match="runs/again@0 has been retrained"):
        first.load_evaluator()


def test_only_randomized_agents_vary(runs):
    varying = [
        "random", "mcts:5", "rhea:20", "runs/demo?temperature_plies=2", "runs/demo?tie_break=random"
    ]  # fmt: skip
    assert all(parse_agent(spec, GAME).is_stochastic for spec in varying)
    fixed = ["runs/demo", "runs/demo?simulations=0"]
    assert not any(parse_agent(spec, GAME).is_stochastic for spec in fixed)


def test_players_with_one_network_share_its_evaluator():
    agents = parse_agents(["runs/demo@1", "runs/demo@1?simulations=2", "runs/demo@0"])
    first, second, earlier = (agent.load_evaluator() for agent in agents)
    assert first is second
    assert first is not earlier


def test_options_change_the_search():
    other = parse_agent("runs/demo?fpu=parent").new_player()
    assert other.search.settings.fpu.name == "parent"
    player = parse_agent("runs/demo?simulations=9&selection.c=2.5&cache=0").new_player()
    settings = player.search.settings
    assert (settings.simulations, settings.selection.c, settings.cache) == (9, 2.5, 0)
    player.start(1)
    state = compiled_rules.start(GAME)[None]
    player.choose(np.zeros(1, int), state, np.zeros(1, np.uint64))
    assert player.search.root_visits(np.zeros(1, int)).sum() == 9


def test_players_have_no_self_play_noise(runs):
    settings = parse_agent("runs/demo").new_player().search.settings
    assert settings.noise.fraction == 0


def test_one_pair_of_quotes_is_removed_from_commands():
    names = [parse_agent(f"gtp:{text}", GAME).name for text in ("a -b", '"a -b"', "'a -b'")]
    assert names == ['gtp:"a -b"'] * 3


@pytest.mark.parametrize("text", ['"a ?b"?timeout=2.50', "a ?b?timeout=2.5", "'a ?b'?timeout=2.5"])
def test_program_timeout_is_parsed(text):
    assert parse_agent(f"gtp:{text}", GAME).name == 'gtp:"a ?b"?timeout=2.5'
    assert parse_agent('gtp:"a ?b"?timeout=60', GAME).name == 'gtp:"a ?b"'


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("rnadom", '"rnadom" is neither a run nor one of'),
        ("rnadom", 'did you mean "random"?'),
        ("mtcs:100", 'did you mean "mcts"?'),
        ("runs/dmeo", 'did you mean "runs/demo"?'),
        ("", "neither a run nor"),
        ("random?x=1", "expected random alone"),
        ("random:3", "expected random alone"),
        ("mcts", "expected a number of playouts from 1"),
        ("mcts:ten", "as in mcts:100"),
        ("mcts:0", "from 1 to 1000000"),
        (f"mcts:{'9' * 5000}", "from 1 to 1000000"),
        ("mcts:50?simulations=0", "expected at least 1"),
        ("mcts:50?leaf_evaluator=network", "mcts has no network"),
        ("mcts:50?fpu=action_values", "mcts has no network with action values"),
        ("mcts:50?selection=ucb", 'did you mean "uct"?'),
        ("rhea", "expected a number of playouts from 1 to 1000000, as in rhea:100"),
        ("rhea:0", '"rhea:0": expected a number of playouts from 1'),
        ("rhae:100", 'did you mean "rhea"?'),
        (
            "rhea:15",
            "rhea:15: playouts = 15 is too small for a population of 10 with 2 playouts each: "
            "expected at least 20",
        ),
        ("rhea:100?population=60", "expected at least 120"),
        ("rhea:100?population=0", "population = 0: expected at least 1"),
        ("rhea:100?playouts=0", "playouts = 0: expected at least 1"),
        ("rhea:100?mutation=2", "mutation = 2: expected at most 1"),
        ("rhea:100?mutation=often", 'mutation = "often": expected a number'),
        ("rhea:100?mutatoin=0.1", 'unknown setting "mutatoin"; did you mean "mutation"?'),
        ("rhea:100?noise.fraction=0.5", 'unknown setting "noise"'),
        ("rhea:100?mutation", "expected KEY=VALUE after ?, as in ?playouts=100"),
        ("gtp:", "expected a command"),
        ('gtp:""', "expected a command"),
        ('gtp:"a"?timeout=0', "timeout = 0: expected more than 0"),
        ('gtp:"a"?time=5', 'unknown setting "time"'),
        ("runs/demo@77", "has no network 77: expected one of 0, 1"),
        ("runs/demo@one", "expected a whole number after @, as in runs/demo@12"),
        ("runs/demo@-1", "expected a whole number after @"),
        ("nowhere@12", "neither a run nor"),
        ("runs/demo?simulatons=9", 'unknown setting "simulatons"; did you mean "simulations"?'),
        ("runs/demo?selection.d=9", 'did you mean "selection.c"?'),
        ("runs/demo?simulations=many", 'simulations = "many": expected a whole number'),
        ("runs/demo?simulations=-1", "expected at least 0"),
        ("runs/demo?simulations", "expected KEY=VALUE after ?"),
        ("runs/demo?", "as in ?simulations=100"),
        ("runs/demo?simulations=4&&cache=0", "expected KEY=VALUE"),
        ("runs/demo?simulations=4&simulations=5", "simulations is given twice"),
        ("mcts:50?selection=uct&selection.name=rave", "selection is given twice"),
        ("runs/demo?temperature_plies=1.5", "expected a whole number"),
        ("runs/demo?noise.fraction=0.5", "noise is for self-play"),
        ("runs/demo?simulations=0&selection.c=2", "has no effect without a search"),
        ("runs/demo?draw_value=0.4", "runs/demo@1?draw_value=0.4: draw_value = 0.4: no head"),
        ("runs/demo?fpu=action_values", 'fpu = "action_values": no head provides action values'),
        ("runs/demo?simulations.x=2", "has no keys"),
    ],
)
def test_invalid_specs_get_one_line_errors(spec, expected):
    with pytest.raises(UserError) as error:
        parse_agent(spec, GAME)
    message = str(error.value)
    assert expected in message
    assert len(message.splitlines()) == 1
    assert len(message) < 6000


def test_command_reports_invalid_spec_in_one_line(capsys):
    assert main(["match", "rhea:15", "random", "--game", "gobang:3x3:3"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "rhea:15: playouts = 15" in lines[0]


def test_rhea_options_are_used():
    keys = streams.stream_keys(0, 0, np.arange(50), np.arange(50), streams.MATCH_MOVE)
    states = np.repeat(compiled_rules.start(GAME)[None], 50, axis=0)
    player = parse_agent(
        "rhea:9?population=2&horizon=1&mutation=0.5&playouts_each=3", GAME
    ).new_player()
    settings = RheaSettings(playouts=9, population=2, horizon=1, mutation=0.5, playouts_each=3)
    chosen = player.choose(np.arange(50), states, keys)
    assert chosen.tolist() == rhea_actions(GAME, settings, states, keys).tolist()
    assert chosen.tolist() != rhea_actions(GAME, RheaSettings(), states, keys).tolist()


def test_players_of_different_games_are_refused():
    with pytest.raises(UserError, match="runs/other plays gobang:4x4:3, but runs/demo plays"):
        parse_agents(["random", "runs/demo", "runs/other"])
    with pytest.raises(UserError, match="runs/demo plays gobang:3x3:3, but the requested game is"):
        parse_agent("runs/demo", parse_game("othello:6x6"))


def test_missing_game_is_reported():
    with pytest.raises(UserError, match="expected --game, as in --game othello:6x6"):
        parse_agents(["random", "mcts:5"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("mcts:100", "mcts:100?simulations=7"),
        ("mcts?simulations=3&c=2", "mcts?c=2&simulations=7"),
        ("mcts?simulations=3&c=2 #12", "mcts?c=2&simulations=7 #12"),
    ],
)
def test_option_is_replaced_before_the_number(spec, expected):
    assert with_option(spec, "simulations", 7) == expected


def test_every_registered_kind_has_a_form():
    assert all(kind.spec_form for kind in AGENT_KINDS.values())
    assert {"random", "mcts", "rhea", "perfect", "gtp", "run", "file"} <= set(AGENT_KINDS)
