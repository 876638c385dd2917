"""Game queries, compared with a filter in Python."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product
from random import Random

import pytest

from zerolab.core.errors import UserError
from zerolab.store.games import GameRecord, GameStore, network_name
from zerolab.store.listing import (
    GameFilter,
    count_matching_games,
    iterate_matching_games,
    list_matching_games,
    list_players,
    summarise_stages,
)

NAMES = ["random", "mcts:100", "perfect"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder with 240 games of two stages in three iterations, some of its own network."""
    folder = tmp_path_factory.mktemp("run")
    random, store = Random(3), GameStore(folder / "games.sqlite", folder)
    names = [*NAMES, network_name(folder, 2)]
    for iteration, stage in product((1, 2, 12), ("selfplay", "gate")):
        store.write_stage(iteration, stage, [_game(random, names, number) for number in range(40)])
    return folder


def _game(random, names, number):
    actions = [random.choice((1, 2, 11)) for _ in range(random.randrange(6))]
    forfeit = [-1] if random.random() < 0.2 else []
    first, second = random.choice(names), random.choice(names)
    return GameRecord(number, first, second, (*actions, *forfeit), random.choice((1, 0, -1)))


def _matches(game, iteration, stage, player, opponent, result, fewest, most, opening):
    """Return True if a game matches the filter, as a reference for the query."""
    plies = [action for action in game.actions if action >= 0]
    side = [1] * (game.first == player) + [-1] * (game.second == player)
    names = sorted([game.first, game.second])
    results = {"first": [1], "second": [-1], "draw": [0]}.get(result)
    return (
        (iteration is None or game_iteration(game) == iteration)
        and (not stage or game_stage(game) == stage)
        and (not player or bool(side))
        and (not opponent or names == sorted([player, opponent]))
        and (results is None or game.result in results)
        and (result not in ("won", "lost") or _has_own_result(result, game, side))
        and (fewest is None or len(plies) >= fewest)
        and (most is None or len(plies) <= most)
        and tuple(game.actions[: len(opening)]) == opening
    )


def _has_own_result(result, game, side):
    expected = 1 if result == "won" else -1
    return any(game.result * each == expected for each in side)


_stage_of = {}


def game_iteration(game):
    return _stage_of[id(game)][0]


def game_stage(game):
    return _stage_of[id(game)][1]


def test_queries_agree_with_filter_in_python(run):
    store, random = GameStore(run / "games.sqlite", run), Random(5)
    all_games = []
    for iteration, stage in store.stages():
        for game in store.stage_games(iteration, stage):
            _stage_of[id(game)] = iteration, stage
            all_games.append((iteration, stage, game))
    all_games.sort(key=lambda each: (each[0], each[1], each[2].number))
    names = [*NAMES, network_name(run, 2)]
    matching_queries = 0
    for _ in range(400):
        player = random.choice(["", *names])
        opponent = random.choice(["", "", *names]) if player else ""
        results = [None, None, "first", "second", "draw", *(["won", "lost"] if player else [])]
        criteria = (
            random.choice([None, None, 1, 2, 12]), random.choice(["", "gate"]), player, opponent,
            random.choice(results), random.choice([None, 0, 2, 4]),
            random.choice([None, None, 0, 3]),
            tuple(random.choice((1, 2, 11)) for _ in range(random.choice((0, 0, 1, 2)))),
        )  # fmt: skip
        iteration, stage, *rest = criteria
        player, opponent, result, fewest, most, opening = rest
        game_filter = GameFilter(
            iteration, stage, None, player, opponent, result, fewest, most, opening
        )
        expected = [each for each in all_games if _matches(each[2], *criteria)]
        found = list_matching_games(store, game_filter, limit=1000)
        assert [(f.iteration, f.stage, f.number) for f in found] == [
            (iteration, stage, game.number) for iteration, stage, game in expected
        ], game_filter
        assert count_matching_games(store, game_filter) == len(expected)
        for one, (_, _, game) in zip(found, expected, strict=True):
            assert (one.first, one.second, one.result) == (game.first, game.second, game.result)
            assert (*one.actions, *([-1] * one.is_forfeited)) == game.actions
        matching_queries += bool(expected)
    assert matching_queries > 100


def test_pages_are_consecutive(run):
    store = GameStore(run / "games.sqlite", run)
    pages = [list_matching_games(store, GameFilter(), offset, 50) for offset in range(0, 300, 50)]
    assert [len(page) for page in pages] == [50, 50, 50, 50, 40, 0]
    assert [game for page in pages for game in page] == list_matching_games(
        store, GameFilter(), limit=999
    )


class PlanRecorder(GameStore):
    """A store that records SQLite's plan for each query."""

    def __init__(self, path, run):
        super().__init__(path, run)
        self.plans = []

    def select_rows(self, query, kinds, arguments=()):
        plan = f"EXPLAIN QUERY PLAN {query}"
        steps = super().select_rows(plan, (int, int, int, str), arguments)
        self.plans.append([text for *_, text in steps])
        return super().select_rows(query, kinds, arguments)


@pytest.mark.parametrize("at_once", [1, 7, 80, 240, 1000])
@pytest.mark.parametrize(
    "game_filter",
    [
        GameFilter(),
        GameFilter(stage="gate"),
        GameFilter(iteration=2),
        GameFilter(player="random", result="won"),
        GameFilter(number=3, stage="selfplay", iteration=12),
        GameFilter(opening=(11, 2)),
    ],
)
def test_every_game_is_found_once_in_order_for_any_batch_size(run, game_filter, at_once):
    store = GameStore(run / "games.sqlite", run)
    assert list(iterate_matching_games(store, game_filter, at_once)) == list_matching_games(
        store, game_filter, limit=999
    )


def test_batches_of_games_continue_with_index_search(run):
    store = PlanRecorder(run / "games.sqlite", run)
    assert len(list(iterate_matching_games(store, GameFilter(), 50))) == 240
    first, *next_plans = store.plans
    assert len(first) == 1
    assert len(next_plans) == 5
    for (step,) in next_plans:
        assert step.startswith("SEARCH")
        assert "PRIMARY KEY ((iteration,stage,number)>" in step


def test_stages_and_players_are_listed(run):
    store = GameStore(run / "games.sqlite", run)
    assert [astuple(each) for each in summarise_stages(store)] == [
        ("selfplay", 1, 12, 120), ("gate", 1, 12, 120),
    ]  # fmt: skip
    assert list_players(store) == sorted([*NAMES, network_name(run, 2)])


def test_relative_result_without_player_is_refused(run):
    with pytest.raises(UserError, match="expected a player"):
        list_matching_games(GameStore(run / "games.sqlite", run), GameFilter(result="won"))


def test_empty_store_has_no_games(tmp_path):
    store = GameStore(tmp_path / "games.sqlite")
    assert list_matching_games(store, GameFilter()) == [] == summarise_stages(store)
    assert count_matching_games(store, GameFilter()) == 0
