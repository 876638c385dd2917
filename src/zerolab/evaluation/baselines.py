"""Matches against baseline opponents, which every player can be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agent
from zerolab.play.engine import Progress
from zerolab.play.match import play_match
from zerolab.ratings.results import distinct_games
from zerolab.ratings.score import Score
from zerolab.store.games import GameRecord

BASELINES = ("random", "mcts:100")


class BaselineMatch(NamedTuple):
    """A player's match against a baseline opponent."""

    opponent: str
    score: Score
    """From the player's view, over all games."""
    distinct: Score
    """The same with repeated games counted once, for the interval."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"opponent": self.opponent, **score_dict(self.score, self.distinct)}


def play_baseline(
    agent: Agent,
    opponent: str,
    games: int,
    openings: int,
    seed: int,
    progress: Progress = lambda done, note: None,
) -> BaselineMatch:
    """Play against the agent that a spec names; see `play_match`."""
    other = parse_agent(opponent, agent.game)
    match = play_match(agent.game, agent, other, games, seed, progress=progress, openings=openings)
    return BaselineMatch(opponent, match.score, own_score(distinct_games(match.games)))


def own_score(games: Sequence[GameRecord]) -> Score:
    """Return the score of the player who moved first in the games of even number.

    Names may be the same on both sides, as where `random` plays against itself.
    """
    own = [game.result if game.number % 2 == 0 else -game.result for game in games]
    return Score(own.count(1), own.count(0), own.count(-1))


def score_dict(score: Score, distinct: Score) -> dict[str, Any]:
    """Return a score over all games, and Wilson's interval from the distinct ones, for JSON."""
    low, high = distinct.interval()
    return {
        **score._asdict(),
        "score_rate": score.score_rate,
        "distinct_games": distinct.games,
        "low": low,
        "high": high,
    }
