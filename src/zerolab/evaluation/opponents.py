"""Games against perfect play and against baseline opponents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zerolab.agents.agent import FORFEIT, Agent
from zerolab.agents.kinds.baselines import perfect_agent
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.evaluation.estimates import Estimate, mean_estimate, proportion_estimate
from zerolab.evaluation.positions import solve_states
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.play.engine import Progress
from zerolab.play.match import play_match
from zerolab.play.pair_results import PairResult, pair_result
from zerolab.ratings.results import distinct_games
from zerolab.rules import python
from zerolab.rules.rules import Game
from zerolab.store.games import GameRecord

BASELINES = ("random", "mcts:100?tie_break=random")
"""Specs of the opponents. MCTS breaks ties at random; otherwise, with few simulations, it would
never try the last cells of a board, as in the papers' framework [AZG]."""


def play_baseline(
    agent: Agent,
    opponent: str,
    games: int,
    openings: int,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> PairResult:
    """Return the result of a match against the agent of a spec (`play_match`)."""
    other = parse_agent(opponent, agent.game)
    match = play_match(agent.game, agent, other, games, seed, progress=progress, openings=openings)
    return pair_result(match.a, match.b, match.games)


def score_dict(pair: PairResult) -> dict[str, Any]:
    """Return the score of `pair.first` over all games, and its interval, for JSON."""
    score_rate, low, high = pair.interval
    return {
        **pair.score._asdict(),
        "score_rate": score_rate,
        "distinct_games": pair.distinct.games,
        "low": low,
        "high": high,
    }


class JudgedMove(NamedTuple):
    """A move of the player and its exact value."""

    game: int
    ply: int
    best_value: int
    """The value of the position for the player: that of its best move."""
    value: int | None
    """The value of the move; None if the player gave up."""

    @property
    def is_blunder(self) -> bool:
        """True if the move worsens the result under perfect play."""
        result = -1 if self.value is None else np.sign(self.value)
        return bool(result < np.sign(self.best_value))


class PerfectPlayReport(NamedTuple):
    """A player's games against perfect play; estimates count repeated games once."""

    pair: PairResult
    """The scores, from the player's view."""
    blundered: Estimate | None
    """Share of games with a blunder, among those not lost from the beginning."""
    blundered_first: Estimate | None
    """The same in games in which the player moved first."""
    blundered_second: Estimate | None
    """The same in games in which the player moved second."""
    blunders_by_ply: dict[int, int]
    """Blunders of all games at each ply; a win lost by way of a draw has two."""
    regret: Estimate | None
    """Value of the best move minus value of the move: discs in Othello; elsewhere slower wins and
    faster losses count."""


def play_against_perfect(
    game: Game,
    player: Agent,
    oracle: Oracle,
    games: int,
    openings: int,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> tuple[list[GameRecord], list[JudgedMove]]:
    """Play against perfect play, moving first in games with even numbers, and judge every move.

    Games begin with `openings` random plies, the same in games 2j and 2j + 1. `progress` counts
    finished games. Raises UserError for positions that are too hard for the oracle's budget.
    """
    perfect = perfect_agent(game, oracle)
    try:
        match = play_match(game, player, perfect, games, seed, progress=progress, openings=openings)
        return match.games, judge_moves(game, match.games, oracle, openings)
    except NotSolvedError as error:
        raise UserError(
            f"perfect play from ply {openings} on is too hard ({error}): expected a larger --nodes,"
            f" or games that begin later, as in --openings {openings + 10}"
        ) from None


def judge_moves(
    game: Game, games: Sequence[GameRecord], oracle: Oracle, openings: int = 0
) -> list[JudgedMove]:
    """Compare the moves of player A in a match, after the opening, with perfect play."""
    found, states = [], []
    for played in games:
        state = python.start(game)
        for ply, action in enumerate(played.actions):
            if ply >= openings and (ply + played.number) % 2 == 0:
                found.append((played.number, ply, action))
                states.append(state)
            if action != FORFEIT:
                state = python.apply(game, state, action)
    if not states:
        return []
    values, solved = solve_states(game, oracle, np.array(states))
    if not solved.all():
        raise NotSolvedError("a position of the games is not solved within the budget")
    return [
        JudgedMove(number, ply, int(row.max()), None if action == FORFEIT else int(row[action]))
        for (number, ply, action), row in zip(found, values, strict=True)
    ]


def perfect_play_report(
    games: Sequence[GameRecord], moves: Sequence[JudgedMove]
) -> PerfectPlayReport:
    """Summarise the games, numbered from 0, and moves of `play_against_perfect`."""
    distinct = {played.number for played in distinct_games(games)}
    counted = [move for move in moves if move.game in distinct]
    regrets = [(m.best_value - m.value, m.game) for m in counted if m.value is not None]
    return PerfectPlayReport(
        pair_result(games[0].first, games[0].second, games),
        _blundered(counted),
        _blundered([move for move in counted if move.game % 2 == 0]),
        _blundered([move for move in counted if move.game % 2 == 1]),
        dict(sorted(Counter(move.ply for move in moves if move.is_blunder).items())),
        mean_estimate(
            np.array([regret for regret, _ in regrets], np.float64),
            np.array([number for _, number in regrets], np.int64),
        ),
    )


def _blundered(moves: Sequence[JudgedMove]) -> Estimate | None:
    """Return the share of games with a blunder, among those with something to lose."""
    games = {move.game for move in moves if move.best_value >= 0}
    blundered = {move.game for move in moves if move.is_blunder}
    numbers = np.array(sorted(games), np.int64)
    return proportion_estimate(np.isin(numbers, sorted(blundered)), numbers)
