"""Matches against baseline opponents, which every player can be compared with."""

from __future__ import annotations

from typing import Any

from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agent
from zerolab.play.engine import Progress
from zerolab.play.match import play_match
from zerolab.play.results import PairResult, pair_result

BASELINES = ("random", "mcts:100?tie_break=random")
"""Opponents by their specs. MCTS breaks ties at random: with few simulations it would otherwise
never look at the last cells of a board, as in the papers' framework [AZG]."""


def play_baseline(
    agent: Agent,
    opponent: str,
    games: int,
    openings: int,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> PairResult:
    """Return the result of a match against the agent that a spec names; see `play_match`."""
    other = parse_agent(opponent, agent.game)
    match = play_match(agent.game, agent, other, games, seed, progress=progress, openings=openings)
    return pair_result(match.a, match.b, match.games)


def score_dict(pair: PairResult) -> dict[str, Any]:
    """Return the score of `pair.first` over all games, and its interval, for JSON."""
    low, high = pair.interval
    return {
        **pair.score._asdict(),
        "score_rate": pair.score.score_rate,
        "distinct_games": pair.distinct.games,
        "low": low,
        "high": high,
    }
