"""Matches: colours, openings, scores, reproducibility and sequential tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from play.scripted import Scripted, agent_of, highest, lowest, quitter, scripted
from search.naive import HashEvaluator
from zerolab.agents.agent import FORFEIT_ACTION, Agent
from zerolab.agents.network_players import SearchPlayer
from zerolab.agents.specs import parse_agent, parse_agents
from zerolab.core.errors import UserError
from zerolab.play.match import Match, play_match, play_sprt
from zerolab.play.pairings import random_openings
from zerolab.play.tournament_report import MatchReport
from zerolab.ratings.sprt import Sprt
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings
from zerolab.store.games import GameRecord


def test_colours_alternate_and_results_agree_with_games():
    game = parse_game("gobang:3x3:3")
    match = play_match(
        game, scripted(game, "low", lowest), scripted(game, "high", highest), 5, seed=1
    )
    assert [g.first for g in match.games] == ["low", "high", "low", "high", "low"]
    for played in match.games:
        position = Position.start(game)
        for action in played.actions:
            position = position.play(action)
        assert position.first_player_outcome == played.result
    # 0 8 1 7 2 completes the top row for the first player; 8 0 7 1 6 the bottom row.
    assert match.games[0].actions == (0, 8, 1, 7, 2)
    assert match.games[1].actions == (8, 0, 7, 1, 6)
    assert match.score == (3, 0, 2)
    assert match.distinct_count == 2


def test_both_players_get_every_move():
    game = parse_game("gobang:3x3:3")
    a, b = Scripted(game, "low", lowest), Scripted(game, "high", highest)
    match = play_match(game, agent_of(a), agent_of(b), 2, seed=1, threads=1)
    assert sorted(a.reported) == sorted(b.reported)
    assert len(a.reported) == sum(len(played.actions) for played in match.games)


def test_match_is_reproducible_from_seed():
    game = parse_game("connect_four:5x5")
    one, same, other = (
        play_match(game, *parse_agents(["mcts:30", "random"], game), 10, seed) for seed in (4, 4, 5)
    )
    assert one == same
    assert one.games != other.games


def test_equal_players_score_half():
    game = parse_game("connect_four:5x5")
    match = play_match(game, *parse_agents(["random", "random"], game), 2000, seed=1)
    _, low, high = match.score.interval(match.distinct_count)
    assert low < 0.5 < high
    first = np.mean([(1 + played.result) / 2 for played in match.games])
    assert first > 0.5  # moving first is an advantage


def test_more_playouts_play_stronger():
    game = parse_game("connect_four:6x7")
    match = play_match(game, *parse_agents(["mcts:200", "mcts:10"], game), 60, seed=1)
    assert match.score.interval(match.distinct_count).low > 0.6


def test_players_of_match_do_not_share_trees():
    """A player chooses the same moves against any opponent that plays the same moves."""
    game = parse_game("connect_four:5x5")
    evaluator = HashEvaluator(5)

    def agent(simulations):
        settings, name = SearchSettings(simulations=simulations), f"search {simulations}"
        return Agent(name, lambda: SearchPlayer(game, name, settings, evaluator))

    match = play_match(game, agent(40), agent(15), 2, seed=9)
    twice = play_match(game, agent(40), agent(15), 2, seed=9)
    assert match == twice
    again = agent(40).new_player()
    again.start(1)
    position = Position.start(game)
    for ply, action in enumerate(match.games[0].actions):
        if ply % 2 == 0:
            keys = np.zeros(1, np.uint64)
            chosen = again.choose(np.zeros(1, int), position.state[None], keys)[0]
            visits = again.search.root_visits(np.zeros(1, int))[0]
            assert visits[action] == visits[chosen]
        again.advance(np.zeros(1, int), np.array([action]))
        position = position.play(action)


def test_temperature_plies_make_games_differ():
    game = parse_game("connect_four:6x7")

    settings, evaluator = SearchSettings(simulations=20), HashEvaluator(7)

    def agent(plies):
        return Agent("search", lambda: SearchPlayer(game, "search", settings, evaluator, plies))

    repeated, varied = (play_match(game, agent(n), agent(n), 10, seed=1) for n in (0, 6))
    assert len({played.actions for played in repeated.games}) <= 5
    assert len({played.actions for played in varied.games}) >= 9


@pytest.mark.parametrize("games", [0, 1])
def test_small_matches_can_be_played(games):
    game = parse_game("gobang:3x3:3")
    match = play_match(game, *parse_agents(["random", "random"], game), games, seed=1)
    assert match.score.game_count == games


def test_forfeiting_player_loses():
    game = parse_game("gobang:3x3:3")
    match = play_match(
        game, scripted(game, "quitter", quitter(3)), scripted(game, "low", lowest), 4, seed=1
    )
    # The quitter moves at plies 0, 2 and 4 as first player, and at plies 1 and 3 as second.
    assert [played.actions for played in match.games] == [
        (0, 1, 2, 3, FORFEIT_ACTION),
        (0, 1, 2, FORFEIT_ACTION),
    ] * 2
    assert [played.result for played in match.games] == [-1, 1, -1, 1]
    assert match.score == (0, 0, 4)


def test_both_colours_share_opening():
    game = parse_game("connect_four:6x7")
    match = play_match(game, *parse_agents(["random", "random"], game), 40, seed=1, openings=5)
    openings = [played.actions[:5] for played in match.games]
    assert openings[::2] == openings[1::2]
    assert {played.given_plies for played in match.games} == {5}
    assert len(set(openings)) > 15
    assert all(len(played.actions) > 5 for played in match.games)
    continuations = [played.actions[5:] for played in match.games]
    assert all(
        one != other for one, other in zip(continuations[::2], continuations[1::2], strict=True)
    )


def test_players_get_opening_moves():
    game = parse_game("gobang:3x3:3")
    low, high = Scripted(game, "low", lowest), Scripted(game, "high", highest)
    match = play_match(game, agent_of(low), agent_of(high), 6, seed=3, openings=2, threads=1)
    assert len(low.reported) == sum(len(played.actions) for played in match.games)


def test_openings_longer_than_games_are_refused():
    game = parse_game("gobang:3x3:3")
    with pytest.raises(UserError, match="openings of 9 plies"):
        play_match(game, *parse_agents(["random", "random"], game), 2, seed=1, openings=9)


def test_openings_do_not_end_games():
    """Many 3x3 games end after 6 or 7 plies."""
    game = parse_game("gobang:3x3:3")
    keys = np.arange(500, dtype=np.uint64)
    for opening in random_openings(game, 7, keys):
        position = Position.start(game)
        for action in opening:
            position = position.play(int(action))
        assert position.outcome is None


def test_games_do_not_depend_on_threads():
    game = parse_game("connect_four:5x5")
    agents = parse_agents(["mcts:20", "random"], game)
    one, many = (play_match(game, *agents, 12, seed=2, threads=threads) for threads in (1, 5))
    assert one == many


def test_two_parts_make_the_whole_match():
    game = parse_game("connect_four:5x5")
    a, b = parse_agent("mcts:10", game), parse_agent("mcts:20", game)
    whole = play_match(game, a, b, 12, seed=2, openings=2)
    parts = [play_match(game, a, b, 6, seed=2, openings=2, first_number=n) for n in (0, 6)]
    assert parts[0].games + parts[1].games == whole.games


def test_agent_scores_half_against_itself():
    """The two sides must not share trees or random numbers."""
    game = parse_game("connect_four:5x5")
    agent = parse_agent("mcts:15", game)
    match = play_match(game, agent, agent, 1200, seed=7)
    assert (match.a, match.b) == ("mcts:15", "mcts:15 #2")
    _, low, high = match.score.interval(match.distinct_count)
    assert low < 0.5 < high
    difference = match.elo_difference()
    assert difference.interval.low < 0 < difference.interval.high
    assert match.distinct_count > 1100


def match_of(games):
    """Return a match of A against B from pairs (actions, result for A)."""
    records = [
        GameRecord(n, *("AB" if n % 2 == 0 else "BA"), actions, result if n % 2 == 0 else -result)
        for n, (actions, result) in enumerate(games)
    ]
    return Match("A", "B", records)


def test_repeated_games_add_no_evidence():
    distinct = [((n,), 1 if n < 7 else -1) for n in range(10)]
    once, repeated = match_of(distinct), match_of(distinct * 4)
    assert repeated.elo_difference() == once.elo_difference()
    assert (
        MatchReport.from_match(repeated).pair_result.interval
        == MatchReport.from_match(once).pair_result.interval
    )
    assert (repeated.score.game_count, repeated.distinct_count) == (40, 10)
    test = Sprt(0, 50)
    assert test.judge_games("A", repeated.games)[1] == test.judge_games("A", once.games)[1]


def test_repeated_games_do_not_raise_error_rate():
    """With 40 games treated as independent, about a quarter of these matches would pass 0.95."""
    random = np.random.default_rng(3)
    passed = 0
    for _ in range(400):
        distinct = [((n,), int(result)) for n, result in enumerate(random.choice([1, -1], 10))]
        passed += match_of(distinct * 4).elo_difference().los > 0.95
    assert passed / 400 < 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_report_uses_elo_scale_of_sequential_test():
    """30-350-20 is +8.7 Elo on the logistic scale, and four times that on the model's scale."""
    games = [((n,), result) for n, result in enumerate([1] * 30 + [0] * 350 + [-1] * 20)]
    report = MatchReport.from_match(match_of(games))
    assert report.elo_difference.elo == pytest.approx(8.6, abs=0.5)
    assert report.model_elo_difference.elo > 30
    summary = report.as_dict()
    assert (summary["elo"], summary["elo_model"]) == (
        report.elo_difference.elo,
        report.model_elo_difference.elo,
    )
    assert any("Elo difference +8." in line for line in report.lines())


def test_sequential_test_of_deterministic_agents_needs_openings():
    game = parse_game("connect_four:5x5")
    fixed = scripted(game, "low", lowest)
    fixed, other = (replace(fixed, name=name, is_stochastic=False) for name in ("low", "other"))
    message = "openings = 0: low and other play almost without randomness, so most games would"
    with pytest.raises(UserError, match=message):
        play_sprt(game, fixed, other, Sprt(0, 50), 100, 1, openings=0)
    random = parse_agent("random", game)
    assert play_sprt(game, fixed, random, Sprt(0, 50), 64, 1, openings=0).match.games


def test_sequential_test_does_not_depend_on_games_per_round(monkeypatch):
    game = parse_game("connect_four:4x4")
    agents = parse_agents(["mcts:40", "random"], game)
    results = []
    for count in (8, 64):
        monkeypatch.setattr("zerolab.play.match._GAMES_PER_ROUND", count)
        results.append(play_sprt(game, *agents, Sprt(0, 100), 400, 3, openings=2))
    assert results[0] == results[1]
    assert results[0].verdict.decision == "accept H1"
    assert len(results[0].match.games) < 200
