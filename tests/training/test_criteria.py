"""Gates, the evidence for their verdicts, and stop rules."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evaluation.exhaustive import exhaustive
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.evaluation.collecting import DatasetSettings
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.positions import write_positions
from zerolab.play.match import Match
from zerolab.ratings.results import MatchScore
from zerolab.rules.catalogue import parse_game
from zerolab.store.games import GameRecord
from zerolab.store.run_folder import RunFolder
from zerolab.training.configure import resolve_settings
from zerolab.training.criteria import GATES, STOP_RULES, AlwaysGate, LosGate, WinRateGate
from zerolab.training.records import AccuracyRecord, BaselineRecord, SelfPlayRecord
from zerolab.training.reporting import read_records
from zerolab.training.trainer import Trainer


@pytest.mark.parametrize(
    ("score", "accepted"),
    [
        (MatchScore(0, 40, 0), False),  # no decisive games
        (MatchScore(6, 30, 4), True),  # exactly the threshold without draws
        (MatchScore(59, 0, 41), False),
        (MatchScore(1, 39, 0), True),
        (MatchScore(0, 39, 1), False),
    ],
)
def test_win_rate_gate_ignores_draws(score, accepted):
    assert WinRateGate(threshold=0.6).accepts(score, 0.5) == accepted
    assert AlwaysGate().accepts(score, 0.5)


@pytest.mark.parametrize(
    ("preset", "at_threshold", "is_accepted"),
    [
        ("wang2019", MatchScore(24, 0, 16), True),
        ("wang2020a", MatchScore(24, 0, 16), True),
        ("wang2020b", MatchScore(24, 0, 16), True),
        ("hongcharoen2018", MatchScore(55, 0, 45), False),
    ],
)
def test_gates_of_presets_differ_only_at_the_threshold(preset, at_threshold, is_accepted):
    """The framework of the Leiden papers accepts at u; [Hongcharoen2018] requires more."""
    gate = resolve_settings(None, preset).gate
    assert gate.accepts(at_threshold, 0.5) == is_accepted
    wins, _, losses = at_threshold
    assert gate.accepts(MatchScore(wins + 1, 0, losses - 1), 0.5)
    assert not gate.accepts(MatchScore(wins - 1, 0, losses + 1), 0.5)
    assert not gate.accepts(MatchScore(0, wins + losses, 0), 0.5)


def test_los_gate_ignores_the_score():
    assert LosGate(min_los=0.95).accepts(MatchScore(12, 16, 12), 0.95)
    assert not LosGate(min_los=0.95).accepts(MatchScore(40, 0, 0), 0.949)


def test_los_gate_needs_openings():
    with pytest.raises(UserError, match=r"openings = 0: expected at least 1"):
        validate(LosGate, {"openings": 0})
    assert LosGate().openings > 0


def test_gates_have_their_own_settings():
    gate = resolve_settings(None, "wang2020a", ["gate=los"]).gate
    assert (gate.name, gate.min_los, gate.games) == ("los", 0.95, 40)
    assert resolve_settings(None, "wang2020a", ["gate=always"]).gate.games == 0
    assert set(GATES) == {"win_rate", "strict_win_rate", "los", "always"}


def made_match(results, actions=None):
    """Return a match in which "new" moves first in even-numbered games."""
    names = ("new", "old"), ("old", "new")
    games = [
        GameRecord(n, *names[n % 2], (actions[n] if actions else n,), result)
        for n, result in enumerate(results)
    ]
    return Match("new", "old", games)


def test_repeated_games_rarely_pass_equal_players():
    """Ten distinct games, each played four times, pass a LOS of 0.95 in at most about 5%.

    If repeated games counted as independent, a quarter of the matches would pass.
    """
    random = np.random.default_rng(0)
    passed = 0
    cases = 400
    for _ in range(cases):
        distinct = random.choice([1, -1], 10).tolist()
        match = made_match(distinct * 4, list(range(10)) * 4)
        passed += LosGate(min_los=0.95).accepts(match.score, match.elo_difference().los)
    assert passed / cases <= 0.06


def test_difference_accounts_for_colours():
    """If the first player always wins, neither agent is stronger."""
    equal = made_match([1] * 20).elo_difference()
    assert equal.elo == pytest.approx(0, abs=1e-6)
    assert equal.los == pytest.approx(0.5)
    better = made_match([1, -1] * 10).elo_difference()
    assert better.interval.low > 0 and better.los > 0.98
    worse = made_match([-1, 1] * 10).elo_difference()
    assert worse.elo == pytest.approx(-better.elo)


def test_draws_do_not_inflate_the_difference():
    """4 wins, 94 draws and 2 losses are about 7 Elo on the logistic curve, not more than 50."""
    match = made_match([1, -1, 1, -1, -1, 1, *[0] * 94])
    assert match.score == MatchScore(4, 94, 2)
    rate = match.score.score_rate
    logistic = 400 * math.log10(rate / (1 - rate))
    assert match.elo_difference().elo == pytest.approx(logistic, rel=0.2)


GAME = parse_game("gobang:3x3:3")


def accuracy_record(iteration, search_strong, network_strong=0.5):
    return AccuracyRecord.model_construct(
        stage="accuracy",
        iteration=iteration,
        search_strong=search_strong,
        network_strong=network_strong,
    )


def self_play_record(iteration):
    return SelfPlayRecord.model_construct(stage="selfplay", iteration=iteration)


def test_no_gain_counts_iterations_since_the_best_measurement():
    rule = STOP_RULES["no_gain"](iterations=3)
    records = [
        accuracy_record(1, 0.6),
        accuracy_record(2, 0.8),
        accuracy_record(3, 0.7),
        accuracy_record(4, 0.8),
    ]
    assert not rule.is_met([])
    assert not rule.is_met([self_play_record(7)])
    assert not rule.is_met(records)
    assert rule.is_met([*records, accuracy_record(5, 0.79)])
    assert not rule.is_met([*records, self_play_record(9)])  # no later measurement
    assert not rule.is_met([*records, accuracy_record(5, 0.81)])
    by_network = STOP_RULES["no_gain"](iterations=3, accuracy="network_strong")
    assert by_network.is_met(records)
    assert not STOP_RULES["never"]().is_met(records)


def test_spent_counts_self_play_evaluations():
    rule = STOP_RULES["spent"](evaluations=100)

    def evaluated_record(iteration, evaluated):
        record = SelfPlayRecord.model_construct(stage="selfplay", iteration=iteration)
        return record.model_copy(update={"evaluated": evaluated})

    assert not rule.is_met([])
    assert not rule.is_met(
        [evaluated_record(1, 60), accuracy_record(1, 0.5), evaluated_record(2, 39)]
    )
    assert rule.is_met([evaluated_record(1, 60), accuracy_record(1, 0.5), evaluated_record(2, 40)])


@pytest.fixture(scope="module")
def positions(tmp_path_factory):
    path = tmp_path_factory.mktemp("positions") / "solved.parquet"
    solved = collect_in_memory(GAME, 20, DatasetSettings(), exhaustive(GAME))
    write_positions(path, solved.positions, {})
    return path


def train(folder, positions, *assignments):
    settings = resolve_settings(
        None,
        "smoke",
        [
            "selfplay.episodes=4",
            "final_evaluation.games=2",
            "accuracy.every=1",
            f"accuracy.positions='{positions}'",
            "stop={name='no_gain', iterations=1}",
            *assignments,
        ],
    )
    if folder.exists():
        run = RunFolder.open(folder)
    else:
        run = RunFolder.create(folder, settings.model_dump(mode="json"))
    with run.locked():
        Trainer(run, settings).train()
    return run


def test_run_without_gain_stops_after_its_final_evaluation(tmp_path, positions):
    """The gate rejects every candidate, so accuracy never improves."""
    reject = "gate={name='win_rate', games=2, threshold=1}"
    run = train(tmp_path / "run", positions, "iterations=9", reject, "learn.learning_rate=1e-9")
    records = read_records(run)
    accuracies = [record for record in records if isinstance(record, AccuracyRecord)]
    last = accuracies[-1].iteration
    assert last < 9
    assert accuracies[-2].search_strong >= accuracies[-1].search_strong
    finals = [record for record in records if isinstance(record, BaselineRecord)]
    assert {record.iteration for record in finals} == {last}
    assert run.progress.finished
    before = (tmp_path / "run" / "state.json").read_bytes()
    train(tmp_path / "run", positions, "iterations=9", reject, "learn.learning_rate=1e-9")
    assert (tmp_path / "run" / "state.json").read_bytes() == before


def test_accuracy_rule_needs_accuracy_measurements():
    with pytest.raises(UserError, match=r"expected accuracy\.every of at least 1"):
        resolve_settings(None, "smoke", ["stop=no_gain"])
