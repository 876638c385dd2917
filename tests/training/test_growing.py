"""Runs with growing networks: sizes, resumption and gates."""

from __future__ import annotations

import numpy as np
import pytest
from test_resume import contents
from tiny_training import KilledError, Killing, learn_lines, train

from zerolab.agents.agent import NetworkOptions
from zerolab.agents.run_agents import agent_of_run, load_run_evaluator
from zerolab.core.errors import UserError
from zerolab.play.match import play_match
from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.studies.cost_model import estimate_run_bytes, estimate_run_seconds
from zerolab.studies.design import run_key
from zerolab.training import stages
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import WinRateGate

GAME = "gobang:3x3:3"
SMALL = [
    "iterations=4",
    "selfplay.episodes=4",
    "gate=always",
    "final_evaluation.games=0",
    "network={name='resnet', blocks=1, filters=4, squeeze_excite=2, head_filters=1, hidden=0}",
    "learn.ema_decay=0.5",
]
"""Settings of a short run, with a weight average that growing must restart."""


@pytest.fixture(autouse=True)
def one_core(monkeypatch):
    """Use one thread, because parallel test processes share the cores."""
    monkeypatch.setattr(stages, "available_cores", lambda: 1)


def growing_settings(growth, *assignments):
    return resolve_settings(None, "smoke", [*SMALL, f"growth={growth}", *assignments])


def filters_by_network(run):
    return {
        number: len(run.load_weights(number)["trunk.0.conv.weight"])
        for number in run.network_iterations()
    }


TWICE = {
    "reinitialise": "after=[1, 3], epochs=3",
    "net2net": "after=[1, 3], added_blocks=1",
}


@pytest.mark.parametrize("name", TWICE)
def test_killed_run_that_grows_twice_resumes_to_the_same_bytes(tmp_path, name):
    settings = growing_settings(f"{{name='{name}', {TWICE[name]}}}")
    undisturbed = train(tmp_path / "undisturbed", settings)
    for moment in ((2, "learn"), (3, "self-play"), (4, "learn")):
        with pytest.raises(KilledError):
            train(tmp_path / "killed", settings, Killing(*moment))
    train(tmp_path / "killed", settings)
    assert contents(tmp_path / "killed") == contents(undisturbed.path)
    assert filters_by_network(undisturbed) == {0: 4, 1: 4, 2: 8, 3: 8, 4: 16}
    lines = learn_lines(undisturbed)
    sizes = [line["parameters"] for line in lines]
    assert sizes[1] == sizes[2]
    assert sizes[0] < sizes[1] < sizes[3]
    epochs = [len(line["epoch_losses"]) for line in lines]
    assert epochs == ([2, 3, 2, 3] if name == "reinitialise" else [2] * 4)
    _require_playing_networks(undisturbed)


def _require_playing_networks(run):
    game = parse_game(GAME)
    states = compiled_rules.start(game)[None]
    priors = [
        load_run_evaluator(run, number).evaluate(states)[0] for number in run.network_iterations()
    ]
    assert all(np.isfinite(prior).all() for prior in priors)
    policies = NetworkOptions(simulations=0)
    first, last = (agent_of_run(run, number, policies) for number in (0, 4))
    assert len(play_match(game, first, last, 2, seed=0).games) == 2


def test_net2net_starts_from_the_best_network(tmp_path):
    """With a tiny learning rate, network 2 keeps the weights of network 1 unless reinitialised."""
    rate = ("learn.learning_rate=1e-7", "iterations=2", "learn.ema_decay=0.99", "learn.epochs=1")
    differences = {}
    for name in TWICE:
        settings = growing_settings(f"{{name='{name}', after=[1]}}", *rate)
        run = train(tmp_path / name, settings)
        former, grown = run.load_weights(1), run.load_weights(2)
        differences[name] = max(
            np.abs(former[key] - grown[key][: len(former[key])]).max()
            for key in ("trunk.0.conv.weight", "heads.policy.head.output.weight")
        )
    assert differences["net2net"] < 1e-4 < differences["reinitialise"]


def test_candidate_after_a_rejection_grows_again(tmp_path, monkeypatch):
    """The small network stays the best one until a larger one is accepted."""
    verdicts = iter([True, False, True])
    monkeypatch.setattr(WinRateGate, "accepts", lambda *_: next(verdicts))
    gate = ("gate={name='win_rate', games=2}", "iterations=3")
    run = train(tmp_path / "run", growing_settings("{name='net2net', after=[1]}", *gate))
    assert filters_by_network(run) == {0: 4, 1: 4, 3: 8}


def test_settings_that_cannot_grow_are_refused():
    with pytest.raises(UserError, match=r"growth.after ends with 4"):
        growing_settings("{name='net2net', after=[1, 4]}")
    with pytest.raises(UserError, match=r'growth = "net2net": .*"conv" cannot grow'):
        growing_settings("{name='net2net', after=[1]}", "network=conv")
    with pytest.raises(UserError, match=r"filters = 8192: expected at most 4096"):
        growing_settings("{name='net2net', after=[1]}", "network.filters=4096")
    with pytest.raises(UserError, match=r"growth\.after: .*increasing order"):
        growing_settings("{name='net2net', after=[3, 1]}")


def test_growth_affects_run_key_and_cost_estimates():
    plain, grows = growing_settings("none"), growing_settings("{name='net2net', after=[1]}")
    assert run_key(plain) != run_key(grows)
    assert estimate_run_seconds(plain) < estimate_run_seconds(grows)
    assert estimate_run_bytes(plain) < estimate_run_bytes(grows)
