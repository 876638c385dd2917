"""A match between two agents: colours in turn, games in parallel."""

from __future__ import annotations

from dataclasses import dataclass

from zerolab.agents.interface import Agent
from zerolab.agents.specs import with_different_names
from zerolab.core.threads import available_cores
from zerolab.play.engine import Progress, play_schedule, slots_within_memory
from zerolab.play.observers import Recorder
from zerolab.play.openings import with_openings
from zerolab.play.schedule import ScheduledGame, colours_in_turn
from zerolab.play.worker import Setup
from zerolab.ratings.bayes import Difference, rate
from zerolab.ratings.results import distinct_games, score_of
from zerolab.ratings.score import Score
from zerolab.rules.interface import Game
from zerolab.store.games import GameRecord


@dataclass(frozen=True)
class Match:
    """A finished match between agents A and B."""

    a: str
    b: str
    games: list[GameRecord]
    """By number; A moves first in those of even number."""

    @property
    def score(self) -> Score:
        """The result of all games for A."""
        return score_of(self.a, self.games)

    @property
    def distinct(self) -> int:
        """How many different games were played: deterministic agents repeat themselves."""
        return len(distinct_games(self.games))

    def difference(self) -> Difference:
        """Return how much stronger A is, in Elo; repeated games count once."""
        return rate(self.games).difference(self.a, self.b)


def play_match(
    game: Game,
    a: Agent,
    b: Agent,
    games: int,
    seed: int,
    iteration: int = 0,
    progress: Progress = lambda done, note: None,
    *,
    openings: int = 0,
    begin: int = 0,
    threads: int | None = None,
) -> Match:
    """Play the games `begin` to `begin + games - 1` of a match, A first in those of even number.

    Games 2j and 2j + 1 begin with the same `openings` random plies. The random streams depend on
    (seed, iteration, game number, ply) alone. All cores take part unless `threads` says how many.
    An agent that plays itself is "NAME #2" as B. Raises UserError where openings are longer than
    games.
    """
    agents = with_different_names([a, b])
    threads = threads or available_cores()
    first, second = (agent.name for agent in agents)
    schedule = colours_in_turn(first, second, range(begin, begin + games))
    schedule = with_openings(game, schedule, openings, seed, iteration)
    recorder = Recorder()
    setup = Setup(game, agents, seed, iteration, threads, slots_within_memory(agents, threads))
    play_schedule(setup, _batches(schedule, threads), games=[recorder], progress=progress)
    return Match(first, second, recorder.games)


def _batches(schedule: list[ScheduledGame], threads: int) -> list[list[ScheduledGame]]:
    """Deal games to threads, games 2j and 2j + 1 to the same one."""
    batches = [
        [game for game in schedule if game.number // 2 % threads == thread]
        for thread in range(threads)
    ]
    return [batch for batch in batches if batch]
