"""Published counts of games and positions, with sources in docs/papers.md, "Counts"."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zerolab.rules import compiled_rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.compiled_rules import perft
from zerolab.rules.rules import ONGOING, Game

OTHELLO_8X8 = [4, 12, 56, 244, 1396, 8200, 55092, 390216, 3005288]
CONNECT_FOUR_6X7 = [7, 49, 343, 2401, 16807, 117649, 823536, 5673234]
CONNECT_FOUR_6X7_POSITIONS = [1, 7, 49, 238, 1120, 4263, 16422]
TIC_TAC_TOE_ENDS = {5: 1440, 6: 5328, 7: 47952, 8: 72576, 9: 127872}


def _distinct_positions(game: Game, plies: int) -> Iterator[int]:
    """Yield the number of distinct positions at each ply, including finished games."""
    level = {compiled_rules.start(game).tobytes()}
    yield 1
    for _ in range(plies):
        states = [np.frombuffer(key, np.uint64).copy() for key in level]
        level = {
            compiled_rules.apply(game, state, action).tobytes()
            for state in states
            if compiled_rules.outcome(game, state) == ONGOING
            for action in np.flatnonzero(compiled_rules.legal(game, state)).tolist()
        }
        yield len(level)


def test_othello_8x8_matches_published_counts() -> None:
    counts = list(perft(parse_game("othello:8x8"), 9))
    assert [count.leaf_count for count in counts] == OTHELLO_8X8
    assert counts[8].ended_leaf_count == 228, "the published counts of depths 9 and 10 imply it"


def test_connect_four_6x7_matches_published_counts() -> None:
    counts = list(perft(parse_game("connect_four:6x7"), 8))
    assert [count.leaf_count for count in counts] == CONNECT_FOUR_6X7


def test_connect_four_6x7_positions_match_published_counts() -> None:
    counts = list(_distinct_positions(parse_game("connect_four:6x7"), 6))
    assert counts == CONNECT_FOUR_6X7_POSITIONS


def test_tic_tac_toe_games_match_published_counts() -> None:
    counts = list(perft(parse_game("gobang:3x3:3"), 10))
    assert {
        count.depth: count.ended_leaf_count for count in counts if count.ended_leaf_count
    } == TIC_TAC_TOE_ENDS
    assert sum(count.ended_leaf_count for count in counts) == 255168
    assert counts[-1].leaf_count == 0, "no game has ten plies"


def test_tic_tac_toe_positions_match_published_count() -> None:
    assert sum(_distinct_positions(parse_game("gobang:3x3:3"), 9)) == 5478
