"""Shipped agents: their names, and folders with none, one or several of them.

The agents come from a run trained for seconds, in a folder that replaces the package's.
"""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest

import zerolab
from zerolab.agents import file_agents
from zerolab.agents.exporting import export_to_file
from zerolab.agents.file_agents import (
    default_opponent_spec,
    read_agent_file,
    shipped_agents,
    shipped_name,
    shipped_names,
    shipped_path,
)
from zerolab.agents.specs import fixed_game, is_agent_spec, named_path, parse_agent
from zerolab.cli.main import main
from zerolab.core.errors import UserError
from zerolab.evaluation.cards import read_card
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position

GAME = parse_game("gobang:3x3:3")
NAME = "gobang-3x3-3"
OTHER = "gobang-3x3-3-untrained"


@pytest.fixture(scope="module", autouse=True)
def work(tmp_path_factory):
    """Folder with runs/demo, and two of its networks in place of the package's agents."""
    folder = tmp_path_factory.mktemp("work")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(file_agents, "SHIPPED_FOLDER", folder / "shipped")
        smaller = ["--set", "iterations=1", "--set", "final_evaluation.games=0"]
        train = ["train", "gobang:3x3:3", "--preset", "smoke", *smaller, "--quiet"]
        assert main([*train, "--run", "runs/demo"]) == 0
        Path("shipped").mkdir()
        export_to_file("runs/demo@1", shipped_path(NAME), half=True)
        export_to_file("runs/demo@0", shipped_path(OTHER), half=True)
        yield folder


def refusal(spec):
    with pytest.raises(UserError) as error:
        parse_agent(spec)
    (line,) = str(error.value).splitlines()
    return line


@pytest.mark.parametrize(
    ("game", "name"),
    [
        ("connect_four:6x7", "connect-four"),
        ("connect_four:5x5", "connect-four-5x5"),
        ("othello:8x8", "othello"),
        ("othello:6x6", "othello-6x6"),
        ("gobang:6x6", "gobang"),
        ("gobang:8x8:5", "gobang-8x8-5"),
    ],
)
def test_names_are_those_of_games_without_the_default_size(game, name):
    assert shipped_name(parse_game(game)) == name
    assert shipped_name(parse_game(game.partition(":")[0])) in name


def test_name_includes_the_digest_and_parses_back():
    digest = read_agent_file(shipped_path(NAME)).digest
    agent = parse_agent(NAME)
    assert agent.name == f"{NAME}@{digest[:8]}"
    for spec in (agent.name, f"{NAME}@{digest[:3]}", f"shipped:{NAME}", f"shipped:{agent.name}"):
        assert parse_agent(spec) == agent
    assert parse_agent(f"{NAME}?simulations=7").name == f"{agent.name}?simulations=7"
    assert pickle.loads(pickle.dumps(agent)) == agent
    assert fixed_game(NAME) == GAME


def test_agent_is_that_of_its_file_and_not_of_its_run():
    """The file has rounded weights, so its agent differs from the run's network."""
    shipped = parse_agent(NAME)
    assert shipped.identity == parse_agent(f"shipped/{NAME}.zerolab").identity
    assert shipped.identity not in (
        parse_agent("runs/demo@1").identity, parse_agent(OTHER).identity,
    )  # fmt: skip


def test_python_interface_and_matches_accept_names():
    analysis = zerolab.analyse(Position.start(GAME), f"{NAME}?simulations=4")
    assert analysis.chosen_move.name in Position.start(GAME).legal_moves
    assert zerolab.load_network(NAME).name == parse_agent(NAME).name
    match = zerolab.play_match(f"{NAME}?simulations=2", f"{OTHER}?simulations=2", games=2)
    assert match.score.game_count == 2


def test_run_of_the_same_name_comes_first(work):
    canonical = parse_agent(NAME)
    shutil.copytree("runs/demo", NAME)
    try:
        assert parse_agent(NAME).name.startswith(f"{NAME}@1")
        assert parse_agent(f"{NAME}@0").identity == parse_agent("runs/demo@0").identity
        assert parse_agent(canonical.name) == canonical
        assert parse_agent(f"shipped:{NAME}").name == canonical.name
        assert default_opponent_spec(GAME) == f"shipped:{NAME}"
        assert named_path(NAME) == NAME
    finally:
        shutil.rmtree(NAME)
    assert default_opponent_spec(GAME) == NAME


def test_pages_may_use_names_but_no_folders_of_these_names(work):
    assert named_path(f"{NAME}?simulations=3") is None
    Path(NAME).mkdir()
    try:
        assert named_path(NAME) is None
        assert parse_agent(NAME).game == GAME
    finally:
        Path(NAME).rmdir()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("gobang-3x33", f'did you mean "{NAME}"?'),
        ("gobang-3x33?simulations=3", f'did you mean "{NAME}"?'),
        ("shipped:gobang-3x33", f'did you mean "{NAME}"?'),
        ("shipped:", f"expected one of {NAME}, {OTHER}"),
        (f"shipped:../shipped/{NAME}", "is not an agent shipped with this package"),
        (f"{NAME}@77777777", "not 77777777: this version of zerolab has a different agent"),
        (f"{NAME}@best", f'did you mean "{NAME}"?'),
        (f"{NAME}?simulatons=9", 'did you mean "simulations"?'),
    ],
)
def test_invalid_specs_get_one_line_errors(spec, expected):
    assert expected in refusal(spec)


def test_agent_named_after_the_game_is_the_first():
    assert [each.name for each in shipped_agents(GAME)] == [NAME, OTHER]
    assert shipped_agents(parse_game("othello:6x6")) == []
    assert default_opponent_spec(parse_game("othello:6x6")) == "mcts:1000"


def test_damaged_file_is_no_opponent_and_is_reported(work):
    content = shipped_path(NAME).read_bytes()
    shipped_path(NAME).write_bytes(content[:-1])
    try:
        assert default_opponent_spec(GAME) == OTHER
        assert "is damaged" in refusal(NAME)
    finally:
        shipped_path(NAME).write_bytes(content)


def test_package_without_agents(monkeypatch, work):
    monkeypatch.setattr(file_agents, "SHIPPED_FOLDER", work / "none")
    assert shipped_names() == []
    assert not is_agent_spec(NAME)
    assert default_opponent_spec(GAME) == "mcts:1000"
    assert "is neither a run nor one of" in refusal(NAME)
    assert "this package contains no agents" in refusal(f"shipped:{NAME}")


def test_export_of_a_shipped_agent(work):
    with pytest.raises(UserError, match="is already an agent file"):
        export_to_file(NAME, Path("copy.zerolab"))
    assert export_to_file(NAME, Path("copy.zerolab"), half=True).agent.digest
    assert Path("copy.zerolab").read_bytes() == shipped_path(NAME).read_bytes()
    changed = f"{NAME}?simulations=7&selection.c=2.5"
    export_to_file(changed, Path("changed.zerolab"))
    assert parse_agent("changed.zerolab").identity == parse_agent(changed).identity


MAX_BYTES = 400_000


def test_agents_of_this_package_are_small_named_by_rule_and_have_cards(monkeypatch):
    monkeypatch.setattr(
        file_agents, "SHIPPED_FOLDER", Path(file_agents.__file__).parent / "shipped"
    )
    for name in shipped_names():
        agent = read_agent_file(shipped_path(name))
        usual = shipped_name(agent.game)
        assert name == usual or name.startswith(f"{usual}-")
        assert shipped_path(name).stat().st_size <= MAX_BYTES
        card = read_card(shipped_path(name), agent)
        assert card is not None
        assert card.matches
        assert card.game == game_name(agent.game)
