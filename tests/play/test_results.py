"""Pair results, statistics and cross tables, compared with hand counts."""

from __future__ import annotations

import numpy as np

from zerolab.agents.agent import FORFEIT_ACTION
from zerolab.play.pair_results import count_games, cross_table, pair_results
from zerolab.play.tournament_report import draw_cross_table
from zerolab.ratings.results import EffectiveScore, MatchScore
from zerolab.report.figures import save_figure
from zerolab.store.games import GameRecord

GAMES = [
    GameRecord(0, "ann", "bob", (0, 1, 2), 1),
    GameRecord(1, "bob", "ann", (0, 1, 2), 1),
    GameRecord(2, "ann", "bob", (0, 1, 2), 1),
    GameRecord(3, "bob", "ann", (3, 4), 0),
    GameRecord(0, "ann", "cid", (5, FORFEIT_ACTION), 1),
    GameRecord(1, "cid", "ann", (FORFEIT_ACTION,), -1),
]


def test_pair_results_count_from_first_name():
    bob, cid = pair_results(GAMES)
    assert (bob.first, bob.second, bob.score) == ("ann", "bob", MatchScore(2, 1, 1))
    # Games 0 and 2 are identical; game 1 has reversed colours.
    assert (bob.effective_score, bob.moved_first_count) == (EffectiveScore(1, 1, 1), 2)
    assert bob.effective_games == 4**2 / (2**2 + 1 + 1)
    assert cid.score == cid.effective_score == (2, 0, 0)
    assert cid.moved_first_count == 1


def test_statistics_count_forfeits_by_player():
    counts = count_games(GAMES)
    assert (counts.game_count, counts.distinct_count) == (6, 5)
    assert counts.first_player_score == MatchScore(4, 1, 1)
    assert counts.effective_count == 6**2 / (2**2 + 4)
    assert counts.forfeit_counts == {"cid": 2}


def test_cross_table_is_zero_sum_and_empty_for_missing_pairs():
    table = cross_table(["ann", "bob", "cid"], pair_results(GAMES))
    assert table[0, 1] == 2.5 / 4
    assert table[1, 0] == 1.5 / 4
    assert table[0, 2] == 1
    assert np.isnan(table[1, 2])
    assert np.isnan(np.diag(table)).all()


def test_cross_table_figure_accepts_any_names(tmp_path):
    names = ["$a_b$", "x" * 200, "<&>"]
    figure = draw_cross_table(names, cross_table(names, []), "a $title$")
    for ending, head in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        save_figure(figure, tmp_path / f"table.{ending}")
        assert (tmp_path / f"table.{ending}").read_bytes().startswith(head)
