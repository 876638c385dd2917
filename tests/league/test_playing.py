"""League games: agreement with games played alone, clocks and ratings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as trying
from hypothesis import strategies as st

from league.evolving import OPTIMUM, distance
from search.naive import DetailedHashEvaluator
from zerolab.core import streams
from zerolab.league.league import LeagueState
from zerolab.league.league_settings import ClockSettings, LeagueSettings
from zerolab.league.playing import (
    GameParameters,
    LeaguePlayer,
    play_league_games,
    random_move_probability,
)
from zerolab.league.population import draw_pairs, first_generation
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.rules import ONGOING
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.search import Search
from zerolab.search.search_settings import PerTreeSettings, SearchSettings, mcts_settings

GAME = parse_game("connect_four:4x4")
EVALUATOR = DetailedHashEvaluator(rules.action_count(GAME))
NOISE = {"fraction": 0.25, "concentration": 10.0}
SEARCH = {"simulations": 20, "fpu": "fixed", "noise": NOISE}
PLAIN = ("c", "fpu", "draw_value")
CLOCK = {"every": 4, "least": 4, "most": 30, "start": 40, "increment": 5}


def settings(parameters, **changes):
    data = {"game": "connect_four:4x4", "seed": 5, "parameters": parameters, "search": SEARCH,
             "clock": CLOCK, "temperature_plies": 4, **changes}  # fmt: skip
    return LeagueSettings.model_validate(data)


def play(chosen, numbers):
    players = first_generation(chosen)
    pairs = draw_pairs(players, chosen, numbers)
    return play_league_games(GAME, chosen, EVALUATOR, players, pairs, numbers.start), pairs, players


def played_alone(values, number):
    """Play one game with a separate search for each player; return actions and policies."""
    searches = []
    for c, fpu, draw_value in values.tolist():
        per_tree = PerTreeSettings(*(np.array([value]) for value in (c, fpu, draw_value)))
        search = Search(
            GAME, SearchSettings.model_validate(SEARCH), EVALUATOR, 1, per_tree=per_tree
        )
        search.set_root(np.array([0]), compiled_rules.start(GAME)[None])
        searches.append(search)
    slot, moves = np.array([0]), []
    while searches[0].root_outcomes(slot)[0] == ONGOING:
        mover = searches[len(moves) % 2]
        keys = (
            streams.stream_keys(5, 0, np.array([number]), np.array([len(moves)]), purpose)
            for purpose in (streams.SELF_PLAY_MOVE, streams.PLAYOUT, streams.ROOT_NOISE)
        )
        move, playout, noise = keys
        mover.start_search(slot, playout, noise)
        mover.run()
        chosen = mover.choose(slot, move, np.array([len(moves) < 4]))
        moves.append((int(chosen[0]), mover.policies(slot)[0].astype(np.float16).tolist()))
        for search in searches:
            search.advance(slot, chosen)
    return moves


def test_games_agree_with_separate_searches():
    chosen = settings(PLAIN)
    episodes, pairs, players = play(chosen, range(6, 12))
    moves = episodes.examples
    for game, pair in zip(episodes.games, pairs, strict=True):
        alone = played_alone(players.values[pair], game.number)
        assert game.actions == tuple(action for action, _ in alone)
        batched = moves.policies[moves.games == game.number]
        assert batched.tolist() == [policy for _, policy in alone]
        assert (game.first, game.second) == tuple(f"player {number}" for number in pair)
    assert (moves.plies_left > 0).all()
    assert moves.full.all()


def test_games_do_not_depend_on_batching():
    parameters = ("draw_value", "check", "threshold", "c", "fpu")
    sequential, _, players = play(settings(parameters, threads=1, parallel_games=64), range(12))
    parallel, _, _ = play(settings(parameters, threads=2, parallel_games=4), range(12))
    late, pairs, _ = play(settings(parameters), range(7, 12))
    assert sequential.games == parallel.games
    assert late.games == sequential.games[7:]
    sides = (episodes.examples.columns().values() for episodes in (sequential, parallel))
    for expected, actual in zip(*sides, strict=True):
        assert expected.tobytes() == actual.tobytes()
    is_random = ~late.examples.full
    players_of_moves = late.examples.games - 7, late.examples.plies % 2
    check = players.values[pairs[players_of_moves], 1]
    assert 0 < is_random.mean() < 1
    probability = random_move_probability(check, OPTIMUM)
    assert probability[is_random].mean() > probability[~is_random].mean()


def test_random_moves_take_one_simulation_off_the_clock():
    opposite = (OPTIMUM + 0.5) % 1.0
    chosen = settings(("threshold", "check", *PLAIN), optimum=OPTIMUM)
    # A player that searches to the limit, but always moves at random.
    values = np.full((1, 2, 5), [-14.0, opposite, 1.0, 0.0, 0.5])
    self_play = SelfPlaySettings(budget=chosen.clock)
    player = LeaguePlayer(GAME, chosen, self_play, EVALUATOR, 1, GameParameters(0, values))
    player.start(1)
    slot, key = np.array([0]), np.array([[1, 2, 3, 4, 5]], np.uint64)
    player.assign_games(slot, slot)
    player.reset(slot)
    state = compiled_rules.start(GAME)
    for ply in range(6):
        action = player.choose(slot, state[None], key + np.uint64(ply))
        player.advance(slot, action)
        state = compiled_rules.apply(GAME, state, int(action[0]))
        assert player.budget.spent_simulations[ply % 2] == 1
        remaining = CLOCK["start"] + (ply // 2 + 1) * CLOCK["increment"] - ply // 2
        assert player.budget.simulations_left[ply % 2] == remaining


class RandomPolicies:
    """Search stub with random policies."""

    def __init__(self, seed):
        self._random = np.random.default_rng(seed)

    def policies(self, slots):
        return self._random.dirichlet([1, 1, 1], len(slots)).astype(np.float32)

    root_priors = policies


@given(
    clock=st.builds(
        dict,
        start=st.integers(0, 300), increment=st.integers(1, 60), every=st.integers(1, 40),
        least=st.integers(1, 40), most=st.integers(40, 200),
    ),
    thresholds=st.lists(st.floats(-14, 1), min_size=1, max_size=4),
    turns=st.integers(1, 30),
    seed=st.integers(0, 1000),
)  # fmt: skip
@trying(max_examples=40)
def test_clock_is_never_overdrawn_and_every_move_gets_simulations(clock, thresholds, turns, seed):
    chosen = ClockSettings(**clock)
    slots = np.arange(len(thresholds))
    budget = chosen.new_budget(SearchSettings(), len(slots), 3)
    budget.thresholds[:] = thresholds
    search = RandomPolicies(seed)
    for game in range(2):
        budget.reset(slots)
        total = np.zeros(len(slots), np.int64)
        for turn in range(turns):
            spent = budget.initial_allowance(slots, None).simulations.astype(np.int64)
            assert (spent >= 1).all()
            active = slots
            while active.size:
                more = budget.grant_more(active, search)
                spent[active] += more
                active = active[more > 0]
            total += spent
            stock = chosen.start + chosen.increment * (turn + 1)
            assert (total <= stock).all(), game
            available = stock - (total - spent)
            assert (spent <= np.minimum(available, chosen.most)).all()
            assert (spent >= np.minimum(available, chosen.least)).all()
            assert (budget.simulations_left == available).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evolution_finds_the_check_parameter_in_real_games(seed):
    """Plain MCTS with 16 playouts, for which random moves are only slightly worse.

    Without selection, a population can converge anywhere: a mean distance below 0.08 has
    probability 0.16, and 0.004 for all three seeds.
    """
    mcts = mcts_settings(16).model_copy(update={"tie_break": "random"})
    chosen = LeagueSettings.model_validate(
        {
            "game": "connect_four:4x4:3", "parameters": ("check",), "seed": seed,
            "generation": 500, "search": mcts, "temperature_plies": 0,
        }
    )  # fmt: skip
    game, state = parse_game(chosen.game), LeagueState(first_generation(chosen))
    while numbers := state.next_game_numbers(chosen, 6000):
        pairs = draw_pairs(state.population, chosen, numbers)
        episodes = play_league_games(
            game, chosen, UniformEvaluator(4), state.population, pairs, numbers.start
        )
        state.rate_records(game, chosen, pairs, episodes.games)
    assert distance(state, 0) > distance(state, 4) > distance(state)
    assert distance(state) < 0.08


@pytest.mark.parametrize("fitness", ["novelty", "novelty_of_winner"])
def test_novelty_ratings_agree_with_a_naive_twin(fitness):
    chosen = settings(PLAIN, fitness=fitness)
    state = LeagueState(first_generation(chosen))
    episodes, pairs, _ = play(chosen, range(6))
    results = np.array([game.result for game in episodes.games], np.int8)
    state.rate_records(GAME, chosen, pairs, episodes.games)
    reached_before, expected = set(), LeagueState(first_generation(chosen)).population.ratings
    for game in range(0, 6, 2):
        reached = [
            {
                state.tobytes()
                for state in episodes.examples.states[episodes.examples.games == number]
            }
            for number in (game, game + 1)
        ]
        for side, wins in enumerate((1, -1)):
            one, other = (
                len(reached[i] - reached_before)
                * (fitness == "novelty" or results[game + i] == wins)
                for i in range(2)
            )
            first, second = pairs[game, side], pairs[game + 1, side]
            score = 0.5 + 0.5 * np.sign(one - other)
            expected_score = 1 / (1 + 10 ** ((expected[second] - expected[first]) / 400))
            expected[first] += 32 * (score - expected_score) * (first != second)
            expected[second] -= 32 * (score - expected_score) * (first != second)
        reached_before |= reached[0] | reached[1]
    assert state.population.ratings == pytest.approx(expected)
    assert len(state.seen_hashes) == len(reached_before)
