"""Self-play games that begin at positions of earlier games."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from search.naive import HashEvaluator
from zerolab.play.game_starts import NO_OPENINGS, ArchiveStart, InitialStart, unsearched_examples
from zerolab.play.selfplay import play_episodes
from zerolab.play.selfplay_modes import play_continuous
from zerolab.play.selfplay_settings import SelfPlaySettings
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.position import Position
from zerolab.search.search_settings import SearchSettings
from zerolab.store.examples import Examples

NAME = "connect_four:4x4"
GAME = parse_game(NAME)
SEARCH = SearchSettings.model_validate({"simulations": 6, "noise": {"fraction": 0.25}})
EVALUATOR = HashEvaluator(rules.action_count(GAME))


def episodes(openings=NO_OPENINGS, iteration=2, **settings):
    settings = SelfPlaySettings.model_validate({"episodes": 40, "temperature_plies": 4, **settings})
    return play_episodes(GAME, settings, SEARCH, EVALUATOR, 3, iteration, openings=openings)


@pytest.fixture(scope="module")
def earlier():
    return episodes(iteration=1)


@pytest.fixture(scope="module")
def openings(earlier):
    return ArchiveStart(share=0.6, size=150).new_openings(lambda _: earlier.examples, 1.0, 3, 2)


def game_rows(played, number):
    return played.examples.games == number


def searched_moves(values, outcomes, states=None):
    """Return examples of the moves of a game that only uses the first column."""
    count = len(values)
    position = compiled_rules.start(GAME)
    own_states = []
    for _ in range(count):
        own_states.append(position)
        position = compiled_rules.apply(GAME, position, 0)
    moves = unsearched_examples(
        np.array(own_states if states is None else states), np.zeros(count), np.arange(count),
        np.zeros(count, np.int64), rules.action_count(GAME),
    )  # fmt: skip
    moves.root_values[:], moves.outcomes[:], moves.full[:] = values, outcomes, True
    return moves


def drawn_lengths(start, *examples, games=3000, discount=1.0):
    """Return how often openings of each length were drawn, given the examples of iterations."""
    openings = start.new_openings(
        lambda iteration: examples[iteration - 1], discount, 5, len(examples) + 1
    )
    return Counter(len(openings.opening(number)) for number in range(games))


def test_positions_are_drawn_in_proportion_to_the_disagreement():
    moves = searched_moves([0.5, -0.5, 1.0, 0.0], [1, -1, 1, -1])  # |v - z|: 0.5, 0.5, 0, 1
    counts = drawn_lengths(ArchiveStart(share=1.0), moves)
    assert set(counts) == {0, 1, 3}
    for length, share in ((0, 0.25), (1, 0.25), (3, 0.5)):
        assert abs(counts[length] - 3000 * share) < 4 * np.sqrt(3000 * share * (1 - share))


def test_results_are_discounted_like_root_values():
    """Positions whose value is their discounted result are not drawn, others are."""
    moves = searched_moves([0.125, -0.125, 0.5], [1, -1, 1])
    moves.plies_left[:] = [3, 2, 1]  # discounted outcomes: 0.125, -0.25, 0.5
    assert set(drawn_lengths(ArchiveStart(share=1.0), moves, discount=0.5)) == {1}
    assert set(drawn_lengths(ArchiveStart(share=1.0), moves)) == {0, 1, 2}
    moves.root_values[:] = [0.97**3, -(0.97**2), 0.0]
    assert set(drawn_lengths(ArchiveStart(share=1.0), moves, discount=0.97)) == {2}


def test_equal_positions_have_their_mean_difference():
    """Two games from the start, won and lost at a value of 0, agree with it on average."""
    one, other = searched_moves([0.0, 0.5], [1, 1]), searched_moves([0.0, 0.5], [-1, 1])
    assert set(drawn_lengths(ArchiveStart(share=1.0), Examples.concatenate([one, other]))) == {1}
    counts = drawn_lengths(ArchiveStart(share=1.0, weighting="uniform"), one, other)
    assert abs(counts[0] - 1500) < 4 * np.sqrt(750)


def test_archive_has_the_latest_searched_positions_of_enough_iterations():
    read = []

    def load(iteration):
        read.append(iteration)
        moves = searched_moves([0.0] * 4, [1, -1, 1, -1])
        moves.full[0] = False
        return moves

    openings = ArchiveStart(share=1.0, size=4).new_openings(load, 1.0, 5, 8)
    assert read == [7, 6]
    assert {len(openings.opening(number)) for number in range(200)} == {1, 2, 3}
    assert ArchiveStart(size=1).new_openings(load, 1.0, 5, 1) == NO_OPENINGS


def test_no_disagreement_and_no_archive_mean_no_openings():
    agreeing = searched_moves([1.0, -1.0], [1, -1])
    assert ArchiveStart().new_openings(lambda _: agreeing, 1.0, 5, 2) == NO_OPENINGS
    assert InitialStart().new_openings(lambda _: agreeing, 1.0, 5, 2) == NO_OPENINGS


def test_share_of_games_has_openings_of_their_own_stream(openings):
    drawn = [openings.opening(number) for number in range(2000)]
    assert drawn == [openings.opening(number) for number in range(2000)]
    assert len(set(drawn)) > 40
    later = openings._replace(iteration=3)
    assert drawn != [later.opening(number) for number in range(2000)]
    none = sum(opening == () for opening in drawn)
    assert none >= 800 - 4 * np.sqrt(480)


def test_openings_lead_to_searched_positions_of_the_archive(earlier, openings):
    full = earlier.examples.full
    archive = {state.tobytes() for state in earlier.examples.states[full][-150:]}
    for number in range(60):
        position = Position.start(NAME)
        for action in openings.opening(number):
            position = position.play(action)
        assert position.outcome is None
        assert position.state.tobytes() in archive or not position.history


def check_games(played, given):
    """Check games with their examples; `given` returns a game's number of opening plies."""
    searched = played.examples.full
    for game in played.games:
        rows = game_rows(played, game.number)
        assert game.given_plies == given(game)
        assert tuple(played.examples.actions[rows]) == game.actions
        assert played.examples.plies[rows].tolist() == list(range(game.ply_count))
        assert searched[rows].tolist() == [ply >= game.given_plies for ply in range(game.ply_count)]
        position, outcomes = Position.start(NAME), played.examples.outcomes[rows]
        for state, action in zip(played.examples.states[rows], game.actions, strict=True):
            assert (position.state == state).all()
            position = position.play(action)
        assert position.first_player_outcome == game.result
        signs = np.where(np.arange(len(outcomes)) % 2 == 0, 1, -1)
        assert (outcomes * signs == game.result).all()


def test_episodes_begin_with_copied_moves_that_are_not_learnt(earlier, openings):
    played = episodes(openings)
    for game in played.games:
        opening = openings.opening(game.number)
        assert game.actions[: len(opening)] == opening
    check_games(played, lambda game: len(openings.opening(game.number)))
    assert 0 < sum(game.given_plies > 0 for game in played.games) < 40
    copied = ~played.examples.full
    assert played.searched_move_count == (~copied).sum()
    assert np.isnan(played.examples.root_values[copied]).all()
    chosen = played.examples.policies[copied, played.examples.actions[copied]]
    assert (chosen == 1).all()
    assert (played.examples.policies[copied].sum(axis=1) == 1).all()


@pytest.mark.parametrize("mode", ["episodic", "continuous"])
def test_games_do_not_depend_on_layout(openings, mode):
    layouts = {"threads": 1, "chunks": 1}, {"threads": 3, "chunks": 4}
    if mode == "episodic":
        one, other = (episodes(openings, random_opening_plies=3, **layout) for layout in layouts)
    else:
        one, other = (continuous([openings] * 2, **layout)[-1] for layout in layouts)
    assert one.games == other.games
    assert one.unfinished_games == other.unfinished_games or mode == "continuous"
    columns = (each.examples.columns().values() for each in (one, other))
    for a, b in zip(*columns, strict=True):
        np.testing.assert_array_equal(a, b)


def test_random_plies_follow_shorter_openings(openings):
    played = episodes(openings, random_opening_plies=6)
    lengths = {game.number: len(openings.opening(game.number)) for game in played.games}
    given = {game.number: (~played.examples.full[game_rows(played, game.number)]).sum()
             for game in played.games}  # fmt: skip
    assert all(given[number] >= length for number, length in lengths.items())
    assert any(given[number] > length > 0 for number, length in lengths.items())
    check_games(played, lambda game: given[game.number])


def test_copied_plies_count_towards_the_maximum():
    short = episodes(iteration=1, max_plies=9).examples
    openings = ArchiveStart(share=0.9).new_openings(lambda _: short, 1.0, 3, 2)
    played = episodes(openings, max_plies=9)
    assert {game.ply_count for game in played.games if game.given_plies > 5} >= {9}
    assert max(game.ply_count for game in played.games) == 9
    assert all(game.given_plies < game.ply_count for game in played.games)


def continuous(sources, plies=7, lanes=6, **settings):
    """Play an iteration with each of the openings; return all results."""
    played, unfinished = [], None
    mode = {"name": "continuous", "plies": plies}
    settings = SelfPlaySettings(parallel_games=lanes, mode=mode, **settings)
    for openings in sources:
        played.append(
            play_continuous(GAME, settings, SEARCH, EVALUATOR, 3, unfinished, openings=openings)
        )
        unfinished = played[-1].unfinished_games
    return played


def test_continuous_games_keep_their_openings_across_iterations(openings):
    later = openings._replace(iteration=3)
    played = continuous([openings, later, NO_OPENINGS])
    begun, spanning = {}, 0
    for each, source in zip(played, (openings, later, NO_OPENINGS), strict=True):
        assert each.searched_move_count == 6 * 7  # copied plies use none of a lane's plies
        for game in (*each.games, *each.unfinished_games.games):
            if game.actions:
                spanning += game.number in begun
                begun.setdefault(game.number, source.opening(game.number))
                assert game.actions[: len(begun[game.number])] == begun[game.number]
        check_games(each, lambda game: len(begun[game.number]))
        moves = each.unfinished_games.examples
        for game in each.unfinished_games.games:
            assert tuple(moves.actions[moves.games == game.number]) == game.actions
    assert spanning > 5
    assert sum(map(bool, begun.values())) > 5


@pytest.mark.parametrize("mode", ["service", "retry", "big_tree"])
def test_modes_with_a_service_refuse_an_archive(mode):
    with pytest.raises(ValueError, match='start = "archive"'):
        SelfPlaySettings.model_validate(
            {"mode": mode, "start": "archive", "late_policy_target": "visits"}
        )
