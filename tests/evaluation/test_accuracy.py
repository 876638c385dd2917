"""Move accuracy: hand-computed values, perfect and random players, and batching."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.exhaustive import exhaustive
from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.agents.baselines import PerfectPlayer, RandomPlayer
from zerolab.agents.specs import parse_agent
from zerolab.cli.main import main
from zerolab.evaluation.accuracy import (
    MoveChoices,
    accuracy_report,
    agent_accuracy_reports,
    grade_moves,
    network_choices,
    non_trivial_mask,
    player_choices,
    ply_ranges,
    random_move_accuracy_report,
)
from zerolab.evaluation.collecting import DatasetSettings, collect_positions
from zerolab.evaluation.dataset import collect_in_memory
from zerolab.evaluation.opponents import MIN_POSITIONS_PER_PLY, draw_accuracy
from zerolab.evaluation.positions import SolvedPositions
from zerolab.oracles.oracle import ILLEGAL_VALUE
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.position import Position

GAME = parse_game("gobang:3x3:3")
ORACLE = exhaustive(GAME)


@pytest.fixture(scope="module")
def solved():
    return collect_in_memory(GAME, 250, DatasetSettings(seed=1), ORACLE).positions


def graded_positions():
    """Return four positions without a game, with values of three actions."""
    values = [
        [3, 1, -2],  # two moves win, one of them faster
        [0, ILLEGAL_VALUE, -1],  # one move draws
        [-1, -4, ILLEGAL_VALUE],  # both moves lose: trivial
        [2, 2, 1],  # every move wins: trivial
    ]
    plies = [1, 2, 2, 4]
    return SolvedPositions(
        None,
        np.arange(4),
        np.zeros(sum(plies), np.int16),
        np.cumsum([0, *plies]),
        np.zeros((4, 1), np.uint64),
        np.array(values, np.int32),
    )


def test_grades_agree_with_hand_computed_values():
    grades = grade_moves(graded_positions(), np.array([1, 2, 0, FORFEIT_ACTION]))
    assert grades.is_best.tolist() == [False, False, True, False]
    assert grades.preserves_result.tolist() == [True, False, True, False]
    assert grades.regret[:3].tolist() == [2, 1, 0]
    assert np.isnan(grades.regret[3])
    assert non_trivial_mask(graded_positions()).tolist() == [True, True, False, False]


def test_report_agrees_with_hand_computed_values():
    values = np.array([0.5, 0.5, -0.5, -1.0], np.float32)
    report = accuracy_report("x", graded_positions(), MoveChoices(np.array([1, 2, 0, 0]), values))
    assert report.all_positions.strong.interval.value == 0.5
    assert report.all_positions.weak.interval.value == 0.75
    assert report.all_positions.regret.interval.value == 0.75
    assert report.non_trivial.strong.interval.value == 0.0
    assert report.non_trivial.weak.interval.value == 0.5
    assert {ply: accuracy.weak.interval.value for ply, accuracy in report.by_ply.items()} == {
        1: 1.0,
        2: 0.5,
        4: 1.0,
    }
    assert report.by_ply[2].strong.sample_count == 2
    assert report.value_accuracy.mean_squared_error.interval.value == pytest.approx(
        (0.25 + 0.25 + 0.25 + 4) / 4
    )
    assert report.value_accuracy.correct_sign_share.interval.value == pytest.approx(
        2 / 3
    )  # the drawn position is excluded
    low, high = report.all_positions.weak.interval.low, report.all_positions.weak.interval.high
    assert (low, high) == pytest.approx((0.3006, 0.9544), abs=1e-4)  # Wilson interval, 3 of 4


def test_random_report_agrees_with_hand_computed_values():
    report = random_move_accuracy_report(graded_positions())
    assert report.all_positions.strong.interval.value == pytest.approx(
        (1 / 3 + 1 / 2 + 1 / 2 + 2 / 3) / 4
    )
    assert report.all_positions.weak.interval.value == pytest.approx((2 / 3 + 1 / 2 + 1 + 1) / 4)
    assert report.all_positions.regret.interval.value == pytest.approx(
        (7 / 3 + 1 / 2 + 3 / 2 + 1 / 3) / 4
    )
    assert report.non_trivial.weak.interval.value == pytest.approx((2 / 3 + 1 / 2) / 2)


def agent(player):
    return Agent("x", player)


def test_perfect_player_is_always_correct(solved):
    report = accuracy_report(
        "x", solved, player_choices(agent(lambda: PerfectPlayer(ORACLE)), solved, 1)
    )
    for accuracy in (report.all_positions, report.non_trivial, *report.by_ply.values()):
        assert accuracy.strong.interval.value == accuracy.weak.interval.value == 1.0
    assert report.all_positions.regret.interval.value == 0.0
    assert report.value_accuracy is None


def test_random_player_has_the_expected_accuracy(solved):
    expected = random_move_accuracy_report(solved)
    seeds = range(40)
    reports = [
        accuracy_report(
            "x", solved, player_choices(agent(lambda: RandomPlayer(GAME)), solved, seed)
        )
        for seed in seeds
    ]
    count = len(solved) * len(seeds)
    for kind in ("strong", "weak"):
        exact = getattr(expected.all_positions, kind).interval.value
        mean = np.mean([getattr(report.all_positions, kind).interval.value for report in reports])
        assert abs(mean - exact) < 4 * (exact * (1 - exact) / count) ** 0.5
    mean_regret = np.mean([report.all_positions.regret.interval.value for report in reports])
    assert mean_regret == pytest.approx(expected.all_positions.regret.interval.value, rel=0.05)


def test_search_beats_random_and_predicts_winners(solved):
    few, many = (
        accuracy_report(
            "x",
            solved,
            player_choices(
                agent(lambda n=n: parse_agent(f"mcts:{n}", GAME).new_player()), solved, 1
            ),
        )
        for n in (5, 400)
    )
    assert (
        random_move_accuracy_report(solved).all_positions.weak.interval.value
        < few.all_positions.weak.interval.value
        < many.all_positions.weak.interval.low
    )
    assert many.value_accuracy.correct_sign_share.interval.value > 0.9
    assert (
        many.value_accuracy.mean_squared_error.interval.value
        < few.value_accuracy.mean_squared_error.interval.value
    )


class Recorder:
    """Player that chooses the highest legal action and checks that it received every move."""

    name = "recorder"

    def start(self, games):
        self.positions = [None] * games

    def reset(self, slots):
        for slot in slots:
            self.positions[slot] = Position.start(GAME)

    def choose(self, slots, states, keys):
        assert len(set(keys.tolist())) == len(keys)
        for slot, state in zip(slots, states, strict=True):
            assert (self.positions[slot].state == state).all()
        return np.array([max(self.positions[slot].legal_actions) for slot in slots])

    def advance(self, slots, actions):
        for slot, action in zip(slots, actions, strict=True):
            self.positions[slot] = self.positions[slot].play(int(action))


@pytest.mark.parametrize("most", [1 << 30, 7, 1])
def test_players_receive_all_moves_with_limited_games(most, solved):
    chosen = player_choices(Agent("x", Recorder, max_games_per_player=most), solved, 1)
    highest = [np.flatnonzero(mask).max() for mask in solved.legal]
    assert chosen.actions.tolist() == highest
    assert chosen.position_values is None


class DecreasingPriors:
    """Evaluator whose priors decrease with the action, regardless of legality."""

    def evaluate(self, states):
        priors = np.tile(np.arange(9, 0, -1, dtype=np.float32) / 45, (len(states), 1))
        return priors, np.full(len(states), 0.25, np.float32)


def test_network_choices_have_the_highest_legal_prior(solved):
    chosen = network_choices(DecreasingPriors(), solved)
    assert chosen.actions.tolist() == [np.flatnonzero(mask).min() for mask in solved.legal]
    assert (chosen.position_values == 0.25).all()


def test_player_errors_are_raised(solved):
    class Broken(Recorder):
        def choose(self, slots, states, keys):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        player_choices(agent(Broken), solved, 1)


def test_empty_dataset_has_no_accuracy():
    empty = collect_positions(GAME, ORACLE, DatasetSettings(), range(0)).positions
    report = accuracy_report("x", empty, player_choices(agent(Recorder), empty, 1))
    assert report.all_positions == report.non_trivial == (None, None, None)
    assert report.by_ply == {}
    assert report.by_ply_range == []


def test_plies_are_grouped_evenly():
    assert ply_ranges(np.array([3, 3, 5])) == [(3, 3), (5, 5)]
    plies = np.repeat(np.arange(40), 25)
    ranges = ply_ranges(plies)
    assert ranges == [(first, first + 4) for first in range(0, 40, 5)]
    assert ply_ranges(plies, max_ranges=3) == [(0, 12), (13, 26), (27, 39)]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.integers(1, 10))
def test_every_ply_is_in_one_range(plies, limit):
    ranges = ply_ranges(np.array(plies), limit)
    assert len(ranges) <= limit
    assert all(first <= last for first, last in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))
    assert all(any(first <= ply <= last for first, last in ranges) for ply in plies)


def test_ply_ranges_combine_their_plies(solved):
    report = random_move_accuracy_report(solved)
    for first, last, accuracy in report.by_ply_range:
        accuracies = [
            ply_accuracy for ply, ply_accuracy in report.by_ply.items() if first <= ply <= last
        ]
        assert accuracy.weak.sample_count == sum(
            ply_accuracy.weak.sample_count for ply_accuracy in accuracies
        )
        total = sum(
            ply_accuracy.weak.interval.value * ply_accuracy.weak.sample_count
            for ply_accuracy in accuracies
        )
        assert accuracy.weak.interval.value == pytest.approx(total / accuracy.weak.sample_count)


def test_figure_shows_plies_with_enough_positions(solved):
    figure = draw_accuracy("title", [random_move_accuracy_report(solved)])
    for axes in figure.axes:
        line = axes.lines[0]
        plies, counts = np.unique(solved.plies, return_counts=True)
        assert line.get_xdata().tolist() == plies[counts >= MIN_POSITIONS_PER_PLY].tolist() != []


def test_policy_that_samples_moves_has_a_report_of_its_own(solved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", game_name(solved.game), "--preset", "smoke", "--set", "iterations=1"]
    assert main([*arguments, "--set", "final_evaluation.games=0", "--run", "a", "--quiet"]) == 0

    def names(spec):
        return [each.name for each in agent_accuracy_reports(parse_agent(spec), solved, 1)]

    assert names("a?simulations=0") == ["network", "random, expected"]
    assert names("a?simulations=0&temperature_plies=9") == ["network", "player", "random, expected"]
    assert names("a") == ["network", "search", "random, expected"]
