"""Games against perfect play: where a player gives the value of the game away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from zerolab.agents.interface import FORFEIT, Agent, Player
from zerolab.agents.kinds.perfect import PerfectPlayer
from zerolab.core.errors import UserError
from zerolab.evaluation.collecting import solve
from zerolab.evaluation.scoring import Estimate, average, share
from zerolab.oracles.interface import NotSolvedError, Oracle
from zerolab.play.match import play_match
from zerolab.ratings.score import Score
from zerolab.rules import host
from zerolab.rules.interface import Game
from zerolab.store.games import GameRecord


class Move(NamedTuple):
    """A move of the player, compared with perfect play."""

    game: int
    ply: int
    before: int
    """The value of the position for the player: that of its best move."""
    after: int | None
    """The value of the move; None where the player gave up."""

    @property
    def gives_away(self) -> bool:
        """Whether the result that perfect play reaches from here is worse than before."""
        after = -1 if self.after is None else np.sign(self.after)
        return bool(after < np.sign(self.before))


class Report(NamedTuple):
    """A player's games against perfect play."""

    score: Score
    """From the player's view."""
    distinct_games: int
    gave_away: Estimate | None
    """Share of the games not lost from the beginning in which the player gave the value away."""
    gave_away_first: Estimate | None
    """The same, of the games in which the player moved first."""
    gave_away_second: Estimate | None
    by_ply: dict[int, int]
    """How often the value was given away at each ply; twice in a game from a win to a loss."""
    lost: Estimate | None
    """The value lost a move: discs in Othello; elsewhere slower wins and faster losses count."""


def challenge(
    game: Game,
    player: Agent | Player,
    oracle: Oracle,
    games: int,
    openings: int,
    seed: int,
    report: Callable[[int], None] = lambda _: None,
) -> tuple[list[GameRecord], list[Move]]:
    """Play against perfect play, first in the games of even number, and compare every move.

    Games begin with `openings` random plies, the same ones in games 2j and 2j + 1. `report` is told
    how many games are over. Raises UserError where positions are too hard for the oracle's budget.
    """
    perfect = PerfectPlayer(oracle)
    try:
        match = play_match(game, player, perfect, games, seed, report=report, openings=openings)
        return match.games, examine(game, match.games, oracle, openings)
    except NotSolvedError as error:
        raise UserError(
            f"perfect play from ply {openings} on is too hard ({error}): expected a larger --nodes,"
            f" or games that begin later, as in --openings {openings + 10}"
        ) from None


def examine(
    game: Game, games: Sequence[GameRecord], oracle: Oracle, openings: int = 0
) -> list[Move]:
    """Compare the moves of player A of a match, those after the opening, with perfect play."""
    found, states = [], []
    for played in games:
        state = host.start(game)
        for ply, action in enumerate(played.actions):
            if ply >= openings and (ply + played.number) % 2 == 0:
                found.append((played.number, ply, action))
                states.append(state)
            if action != FORFEIT:
                state = host.apply(game, state, action)
    if not states:
        return []
    values, solved = solve(game, oracle, np.array(states))
    if not solved.all():
        raise NotSolvedError("a position of the games is not solved within the budget")
    return [
        Move(number, ply, int(row.max()), None if action == FORFEIT else int(row[action]))
        for (number, ply, action), row in zip(found, values, strict=True)
    ]


def summarise(games: Sequence[GameRecord], moves: Sequence[Move]) -> Report:
    """Count what `challenge` returned."""
    results = [played.result if played.number % 2 == 0 else -played.result for played in games]
    score = Score(results.count(1), results.count(0), results.count(-1))
    hopeful: dict[int, bool] = {}  # games with something to lose, and whether it was lost
    for move in moves:
        if move.game in hopeful or move.before >= 0:
            hopeful[move.game] = hopeful.get(move.game, False) or move.gives_away
    losses = [move.before - move.after for move in moves if move.after is not None]

    def part(colours: Sequence[int]) -> Estimate | None:
        return share(np.array([lost for n, lost in hopeful.items() if n % 2 in colours], np.bool_))

    return Report(
        score,
        len({played.actions for played in games}),
        part((0, 1)),
        part((0,)),
        part((1,)),
        dict(sorted(Counter(move.ply for move in moves if move.gives_away).items())),
        average(np.array(losses, np.float64)),
    )
