"""Games against perfect play and against baseline opponents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zerolab.agents.agent import FORFEIT, Agent
from zerolab.agents.kinds.baselines import perfect_agent
from zerolab.agents.specs import parse_agent
from zerolab.core.errors import UserError
from zerolab.evaluation.estimates import MeanEstimate, mean_estimate, proportion_estimate
from zerolab.evaluation.positions import solve_states
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.play.engine import ProgressCallback
from zerolab.play.match import play_match
from zerolab.play.pair_results import PairResult, pair_result
from zerolab.ratings.results import distinct_games
from zerolab.rules import compiled_rules
from zerolab.rules.rules import Game
from zerolab.store.games import GameRecord

BASELINES = ("random", "mcts:100?tie_break=random")
"""Specs of the baseline opponents. MCTS breaks ties at random; otherwise, with few simulations, it
would never try the last cells of a board, as happens in the papers' framework [AZG]."""


def play_baseline(
    agent: Agent,
    opponent: str,
    games: int,
    openings: int,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
) -> PairResult:
    """Return the result of a match against an opponent given by a spec (`play_match`)."""
    other = parse_agent(opponent, agent.game)
    match = play_match(agent.game, agent, other, games, seed, progress=progress, openings=openings)
    return pair_result(match.a, match.b, match.games)


class SolvedMove(NamedTuple):
    """Move of the player in a game, with exact values for the player."""

    game_number: int
    ply: int
    best_value: int
    """Value of the best move."""
    value: int | None
    """Value of the move; None if the player forfeited."""

    @property
    def is_blunder(self) -> bool:
        """True if the move worsens the result under perfect play."""
        result = -1 if self.value is None else np.sign(self.value)
        return bool(result < np.sign(self.best_value))


class PerfectPlayReport(NamedTuple):
    """Summary of a player's games against perfect play; estimates count repeated games once."""

    pair_result: PairResult
    """Scores from the player's point of view."""
    blundered: MeanEstimate | None
    """Share of games with a blunder; games that are lost from the start are not counted."""
    blundered_first: MeanEstimate | None
    """Share of games with a blunder, among games where the player moved first."""
    blundered_second: MeanEstimate | None
    """Share of games with a blunder, among games where the player moved second."""
    blunders_by_ply: dict[int, int]
    """Number of blunders at each ply, over all games. Two moves that turn a win into a draw and the
    draw into a loss are two blunders."""
    regret: MeanEstimate | None
    """Value of the best move minus value of the move; in Othello, in discs. In other games, the
    value also depends on the speed of a win or loss."""


def play_against_perfect(
    game: Game,
    player: Agent,
    oracle: Oracle,
    games: int,
    openings: int,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
) -> tuple[list[GameRecord], list[SolvedMove]]:
    """Play games against perfect play, and solve every position where the player moved.

    The player moves first in even-numbered games. Games begin with `openings` random plies, which
    are equal in games 2j and 2j + 1. `progress` counts finished games. Raises UserError if a
    position is too hard for the oracle's budget.
    """
    perfect = perfect_agent(game, oracle)
    try:
        match = play_match(game, player, perfect, games, seed, progress=progress, openings=openings)
        return match.games, solve_moves_of_player_a(game, match.games, oracle, openings)
    except NotSolvedError as error:
        raise UserError(
            f"perfect play from ply {openings} is too hard ({error}): expected a larger --nodes or"
            f" longer openings, such as --openings {openings + 10}"
        ) from None


def solve_moves_of_player_a(
    game: Game, games: Sequence[GameRecord], oracle: Oracle, openings: int = 0
) -> list[SolvedMove]:
    """Return the moves of player A in a match, after the opening, with their exact values."""
    moves, states = [], []
    for record in games:
        state = compiled_rules.start(game)
        for ply, action in enumerate(record.actions):
            if ply >= openings and (ply + record.number) % 2 == 0:
                moves.append((record.number, ply, action))
                states.append(state)
            if action != FORFEIT:
                state = compiled_rules.apply(game, state, action)
    if not states:
        return []
    values, solved = solve_states(game, oracle, np.array(states))
    if not solved.all():
        raise NotSolvedError("a position of the games cannot be solved within the budget")
    return [
        SolvedMove(number, ply, int(row.max()), None if action == FORFEIT else int(row[action]))
        for (number, ply, action), row in zip(moves, values, strict=True)
    ]


def perfect_play_report(
    games: Sequence[GameRecord], moves: Sequence[SolvedMove]
) -> PerfectPlayReport:
    """Summarise the games and moves returned by `play_against_perfect`."""
    distinct = {record.number for record in distinct_games(games)}
    counted = [move for move in moves if move.game_number in distinct]
    regrets = [(m.best_value - m.value, m.game_number) for m in counted if m.value is not None]
    return PerfectPlayReport(
        pair_result(games[0].first, games[0].second, games),
        _blunder_rate(counted),
        _blunder_rate([move for move in counted if move.game_number % 2 == 0]),
        _blunder_rate([move for move in counted if move.game_number % 2 == 1]),
        dict(sorted(Counter(move.ply for move in moves if move.is_blunder).items())),
        mean_estimate(
            np.array([regret for regret, _ in regrets], np.float64),
            np.array([number for _, number in regrets], np.int64),
        ),
    )


def _blunder_rate(moves: Sequence[SolvedMove]) -> MeanEstimate | None:
    """Return the share of games with a blunder, among games not lost from the start."""
    games = {move.game_number for move in moves if move.best_value >= 0}
    games_with_blunder = {move.game_number for move in moves if move.is_blunder}
    game_numbers = np.array(sorted(games), np.int64)
    return proportion_estimate(np.isin(game_numbers, sorted(games_with_blunder)), game_numbers)
