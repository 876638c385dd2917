"""Training loop: rejected candidates, Elo, baselines and environments."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from zerolab.agents import baselines
from zerolab.core import code_digests
from zerolab.core.processes import available_cores
from zerolab.networks.catalogue import build_network
from zerolab.networks.inference import default_device
from zerolab.oracles.solver import SolverBudget
from zerolab.ratings.bayes import rate
from zerolab.replay.window import Window
from zerolab.replay.window_rules import IterationsWindow
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import full_agent_name
from zerolab.store.run_folder import RunFolder
from zerolab.training import context
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import WinRateGate
from zerolab.training.learner import Learner
from zerolab.training.records import (
    BaselineRecord,
    GateRecord,
    LearnRecord,
    SelfPlayRecord,
    UnplayedBaselineRecord,
)
from zerolab.training.reporting import NullReporter, read_records
from zerolab.training.shorthands import preset_title
from zerolab.training.trainer import Trainer
from zerolab.training.window_facts import states_and_facts

SHORT = ["final_evaluation.games=0", "selfplay.episodes=4"]


def train(folder, *assignments, on_record=lambda _: None, reporter=None):
    settings = resolve_settings(None, "smoke", [*SHORT, *assignments])
    run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings, reporter, on_record).train()
    return run


def records_of_kind(run, kind):
    return [record for record in read_records(run) if isinstance(record, kind)]


@pytest.fixture
def second_is_rejected(monkeypatch):
    """Gate that accepts candidates 1 and 3 and rejects candidate 2."""
    verdicts = iter([True, False, True])
    monkeypatch.setattr(WinRateGate, "accepts", lambda *_: next(verdicts))


def are_equal(first, second):
    """Return True if two dictionaries of arrays have equal names and values."""
    return first.keys() == second.keys() and all(np.array_equal(first[k], second[k]) for k in first)


def test_learning_restarts_from_the_best_network_after_a_rejection(tmp_path, second_is_rejected):
    """Candidate 3 continues from network 1 and its optimiser, not from candidate 2."""
    saved_states = {}

    def save_states(record):
        if isinstance(record, LearnRecord) and record.iteration == 2:
            opened = RunFolder.open(tmp_path / "run")
            saved_states.update(
                (n, (opened.load_weights(n), opened.load_optimizer_state(n))) for n in (1, 2)
            )

    run = train(tmp_path / "run", "iterations=3", "learn.window=9", on_record=save_states)
    assert run.network_iterations() == [0, 1, 3]
    candidate = run.load_weights(3), run.load_optimizer_state(3)
    from_best, from_rejected = (_learn_third(run, *saved_states[n]) for n in (1, 2))
    assert all(map(are_equal, candidate, from_best))
    assert not any(map(are_equal, candidate, from_rejected))


def _learn_third(run, weights, optimizer):
    """Return weights and optimiser arrays after iteration 3, starting from the given ones."""
    game, settings = parse_game(run.config["game"]), resolve_settings(None, "smoke")
    network = build_network(settings.network, game, 0)
    learner = Learner(network, settings.learn, settings.target_options, default_device())
    window = Window(game, IterationsWindow(iterations=9))
    for iteration in (1, 2, 3):
        window.add(
            *states_and_facts(run.load_examples(iteration), 1.0, learner.target_vector_columns)
        )
    learner.restore(weights, optimizer)
    torch.set_num_threads(available_cores())
    learner.learn(window, settings.seed, 3)
    return learner.weight_arrays(), learner.optimizer_arrays()


def test_rejected_candidates_leave_no_network_and_no_elo(tmp_path):
    run = train(tmp_path / "run", "gate.games=40", "gate.threshold=1", "iterations=3")
    gates = records_of_kind(run, GateRecord)
    assert [record.accepted for record in gates] == [False] * 3
    assert {record.elo for record in gates} == {0.0}
    for record in gates:
        assert record.candidate_elo_low < record.candidate_elo < record.candidate_elo_high
    assert run.progress.best == 0
    assert run.network_iterations() == [0]
    assert run.load_optimizer_state(0) == {}


def test_accepted_candidates_keep_their_optimizer(tmp_path):
    run = train(tmp_path / "run", "gate=always", "iterations=3")
    assert run.network_iterations() == [0, 1, 2, 3]
    samples = sum(record.examples_seen for record in records_of_kind(run, LearnRecord))
    steps = {float(v) for k, v in run.load_optimizer_state(3).items() if k.endswith("/step")}
    assert steps == {samples / 16}
    assert {record.elo for record in records_of_kind(run, GateRecord)} == {0.0}
    assert not are_equal(run.load_weights(1), run.load_weights(2))


@pytest.fixture
def gates_are_decided(monkeypatch):
    """Gates in which candidates 1 and 3 win all games and candidate 2 loses all games."""
    results, play_match = iter([1, -1, 1]), context.play_match

    def play_decided_match(*arguments, **options):
        match, result = play_match(*arguments, **options), next(results)
        signs = [1 if game.first == match.a else -1 for game in match.games]
        games = [
            game._replace(result=sign * result)
            for game, sign in zip(match.games, signs, strict=True)
        ]
        return replace(match, games=games)

    monkeypatch.setattr(context, "play_match", play_decided_match)


@pytest.mark.usefixtures("second_is_rejected", "gates_are_decided")
def test_training_elo_adds_up_over_accepted_candidates(tmp_path):
    run = train(tmp_path / "run", "iterations=3", "gate.games=6", "gate.openings=2")
    gates = records_of_kind(run, GateRecord)
    gained = []
    for iteration in (1, 2, 3):
        games = run.games.stage_games(iteration, "gate")
        gained.append(rate(games).elo_difference(games[0].first, games[0].second).elo)
    assert gained[1] < 0 < min(gained[0], gained[2])
    candidates = [gained[0], gained[0] + gained[1], gained[0] + gained[2]]
    assert [record.candidate_elo for record in gates] == pytest.approx(candidates)
    assert [record.elo for record in gates] == pytest.approx(
        [candidates[0], candidates[0], candidates[2]]
    )
    assert run.progress.elo == pytest.approx(candidates[2])


def test_records_reach_callback_and_reporter_in_order(tmp_path):
    called, reported = [], []

    class RecordingReporter(NullReporter):
        def stage_finished(self, record):
            reported.append(record)

    folder = tmp_path / "run"
    run = train(
        folder, "final_evaluation.games=2", on_record=called.append, reporter=RecordingReporter()
    )
    assert called == reported == read_records(run)
    per_iteration = ["selfplay", "learn", "gate"]
    assert [record.stage for record in called] == per_iteration * 2 + ["final_evaluation"] * 3
    assert all(record.summary() for record in called)


@pytest.mark.parametrize(
    ("losses", "warnings"),
    [([0.9, 1.2, 1.3, 1.4], [1.3]), ([1.2, 0.9, 1.2, 0.9], []), ([1.2, 1.3, 1.02, 1.3], [1.3])],
)
def test_saturation_of_the_value_head_is_reported_once(tmp_path, monkeypatch, losses, warnings):
    messages, learnt, learn = [], iter(losses), Learner.learn

    class RecordingReporter(NullReporter):
        def message(self, text):
            messages.append(text)

    def learn_with_loss(self, *arguments, **options):
        result = learn(self, *arguments, **options)
        return result._replace(epoch_losses=[{**result.last_epoch_losses, "value": next(learnt)}])

    monkeypatch.setattr(Learner, "learn", learn_with_loss)
    train(tmp_path / "run", "iterations=4", "gate=always", reporter=RecordingReporter())
    assert [text.split(":")[0] for text in messages] == [f"value loss {x:.2f}" for x in warnings]


def test_callback_can_stop_training_after_a_stage(tmp_path):
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", on_record=stop)
    run = RunFolder.open(tmp_path / "run")
    assert (run.progress.iteration, run.progress.stage) == (1, "learn")


def test_baseline_games_have_paired_openings_and_equal_settings(tmp_path):
    """Regression test: only the untrained network sampled its first moves."""
    games = ["final_evaluation.games=8", "final_evaluation.openings=3"]
    run = train(tmp_path / "run", "gate=always", *games)
    records = records_of_kind(run, BaselineRecord)
    assert [record.opponent for record in records] == ["random", "mcts:100?tie_break=random", "@0"]
    for record in records:
        assert record.iteration == 2
        games = run.games.stage_games(2, f"final_evaluation {record.opponent}")
        assert len(games) == 8
        for even, odd in zip(games[::2], games[1::2], strict=True):
            assert even.actions[:3] == odd.actions[:3]
            assert (even.first, even.second) == (odd.second, odd.first)
        assert len({game.actions[:3] for game in games}) > 1
        assert "temperature_plies" not in record.opponent
        names = {
            full_agent_name(f"@{record.network}", run.path),
            full_agent_name(record.opponent, run.path),
        }
        assert {game.first for game in games} == names


def test_baseline_iteration_means_the_best_network_at_that_time(tmp_path, second_is_rejected):
    """Candidate 2 is rejected, so @2 is network 1; equal baselines play once."""
    baseline_specs = ["@2", "@1", "@2?simulations=3"]
    run = train(
        tmp_path / "run", "iterations=3", "final_evaluation.games=2",
        f"final_evaluation.baselines={baseline_specs}",
    )  # fmt: skip
    opponents = [(record.opponent, record.asked) for record in records_of_kind(run, BaselineRecord)]
    assert opponents == [("@1", "@2"), ("@1?simulations=3", "@2?simulations=3")]
    assert "against @1 (for @2): " in records_of_kind(run, BaselineRecord)[0].summary()


def test_failing_baseline_is_skipped_and_the_run_finishes(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "_SOLVER_BUDGET", SolverBudget(nodes=1))
    run = train(
        tmp_path / "run", "final_evaluation.games=2",
        'final_evaluation.baselines=["perfect", "random"]',
    )  # fmt: skip
    assert RunFolder.open(run.path).progress.finished
    (unplayed,), (played,) = (
        records_of_kind(run, UnplayedBaselineRecord),
        records_of_kind(run, BaselineRecord),
    )
    assert (unplayed.opponent, played.opponent) == ("perfect", "random")
    assert "not solved within" in unplayed.summary()


def test_self_play_record_agrees_with_the_games(tmp_path):
    run = train(tmp_path / "run", "iterations=1", "warm_start.ramp.iterations=1")
    (record,) = records_of_kind(run, SelfPlayRecord)
    games = run.games.stage_games(1, "selfplay")
    assert record.games == len(games) == 4
    assert record.distinct_games == len({game.actions for game in games})
    assert record.positions == sum(len(game.actions) for game in games)
    assert record.simulations == 8 * record.positions
    assert record.warm_start_weight is None


def test_resuming_in_another_environment_is_reported(tmp_path, monkeypatch):
    messages, quick = [], [*SHORT, "gate=always", "learn.epochs=1"]

    class MessageReporter(NullReporter):
        def message(self, text):
            messages.append(text)

    def resume(iterations):
        run = RunFolder.open(tmp_path / "run")
        settings = resolve_settings(None, "smoke", [*quick, f"iterations={iterations}"])
        with run.locked():
            Trainer(run, settings, MessageReporter()).train()

    train(tmp_path / "run", *quick, reporter=MessageReporter())
    first = (tmp_path / "run" / "environment.json").read_bytes()
    resume(3)
    assert messages == []
    assert (tmp_path / "run" / "environment.json").read_bytes() == first
    monkeypatch.setattr(context, "available_cores", lambda: 77)
    monkeypatch.setattr(code_digests, "version", lambda name: f"{name}-99")
    resume(3)  # it is finished
    assert messages == []
    assert (tmp_path / "run" / "environment.json").read_bytes() == first
    resume(4)
    (message,) = messages
    assert "-> 77" in message and "-> torch-99" in message and "python" not in message
    assert len(message.splitlines()) == 1
    content = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert [entry["iteration"] for entry in content["environments"]] == [1, 4]
    resume(5)
    assert len(messages) == 1
    del content["environments"][-1]["processor"]  # as written by earlier versions
    (tmp_path / "run" / "environment.json").write_text(json.dumps(content))
    resume(6)
    assert len(messages) == 1


@pytest.mark.parametrize("name", ["wang2019", "wang2020a", "wang2020b"])
def test_paper_presets_depend_on_the_board(name):
    long = 100 if name == "wang2020b" else 200  # [Wang2020b] only uses 6x6 boards
    assert resolve_settings("gobang:6x6", name).iterations == 100
    assert resolve_settings("gobang:5x5:4", name).iterations == long
    assert resolve_settings(None, name, ["game=connect_four:5x5"]).iterations == long
    assert resolve_settings("othello:5x5", name, ["iterations=7"]).iterations == 7
    settings = resolve_settings("othello:6x6", name)
    assert settings.network.channels == 256
    assert (settings.gate.name, settings.gate.games, settings.gate.threshold) == (
        "win_rate",
        40,
        0.6,
    )
    assert preset_title(name).startswith(f"[{name.capitalize()}]")


def test_preset_can_be_a_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'game = "gobang:3x3:3"\n[search]\nsimulations = 3\n[boards."3x3".search]\ncache = 7'
    )
    settings = resolve_settings(None, str(path))
    assert (settings.preset, settings.search.simulations, settings.search.cache) == ("mine", 3, 7)
    assert settings.game == "gobang:3x3:3"
