"""Which moves of a game were mistakes, by exact values and by what an agent expects.

Exact values come first to the end of the game, where positions are solved soonest; an agent's
values cover the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Literal

from pydantic import BaseModel

from zerolab.core.errors import UserError
from zerolab.oracles.interface import NotSolvedError
from zerolab.rules.position import Position
from zerolab.web.clients import Client
from zerolab.web.searches.live import Wanted
from zerolab.web.searches.searches import Searches
from zerolab.web.searches.solving import Solvers

Verdict = Literal["good", "slip", "mistake"]
"""Of a move: a mistake turns a win into a draw or a loss, or a draw into a loss; a slip keeps the
result and gives away some of the exact score, which is discs, or time in most games. By an agent's
values, a mistake gives away `MISTAKE` of expected outcome, a slip `SLIP`."""

MISTAKE = 0.5
SLIP = 0.25
_MOST_UNSOLVED = 2
"""Positions in a row that are not solved in time before earlier ones are left alone."""


class JudgedMove(BaseModel):
    """A move of a game, and what it was worth."""

    ply: int
    """Which move: 0 is the first one."""
    move: str
    judge: Literal["exact", "agent"]
    value: float
    """Of the position before it, for the player to move: an exact score, or what an agent expects,
    in [-1, 1]."""
    after: float
    """Of the move, on the same scale and for the same player."""
    best: list[str]
    """The best moves, or what the agent would have played."""
    verdict: Verdict


class Unsolved(BaseModel):
    """A position whose exact values were not found."""

    ply: int
    reason: str


async def judge_exactly(
    solvers: Solvers, client: Client, end: Position, seconds: float
) -> AsyncIterator[JudgedMove | Unsolved]:
    """Yield exact verdicts on the moves that led to a position, the last move first.

    Each position is given a number of seconds. Once some in a row are not solved within it, those
    before them, which take longer, are left out.
    """
    unsolved = 0
    for ply, at, move in _moves_backwards(end):
        try:
            scores = await solvers.solve(client, at, seconds)
        except NotSolvedError as error:
            yield Unsolved(ply=ply, reason=str(error))
            unsolved += 1
            if unsolved == _MOST_UNSOLVED:
                return
            continue
        unsolved = 0
        most, after = max(scores.values()), scores[move]
        best = [name for name, score in scores.items() if score == most]
        yield JudgedMove(
            ply=ply, move=move, judge="exact", value=most, after=after, best=best,
            verdict=exact_verdict(most, after),
        )  # fmt: skip


def exact_verdict(best: int, played: int) -> Verdict:
    """Return what to think of a move by the exact scores of the best one and of itself."""
    if _sign(played) < _sign(best):
        return "mistake"
    return "slip" if played < best else "good"


async def judge_by_agent(
    searches: Searches, client: Client, wanted: Wanted
) -> AsyncIterator[JudgedMove]:
    """Yield an agent's verdicts on the moves that led to the position wanted, the last move first.

    What a move was worth is what the agent expects after it. Raises UserError where it does not
    expect anything.
    """
    end = wanted.position
    result = end.outcome
    after = None if result is None else float(result)
    if after is None:
        after = (await _expected(searches, client, wanted))[0]
    for ply, at, move in _moves_backwards(end):
        value, choice = await _expected(searches, client, wanted._replace(position=at))
        played = -after  # the other player's, who was to move then
        yield JudgedMove(
            ply=ply, move=move, judge="agent", value=value, after=played, best=[choice],
            verdict="good" if choice == move else _expected_verdict(value - played),
        )  # fmt: skip
        after = value


async def _expected(searches: Searches, client: Client, wanted: Wanted) -> tuple[float, str]:
    found = await searches.last(client, wanted, can_wait=True)
    if found.value is None or not -1.0 <= found.value <= 1.0:
        raise UserError(
            f"{found.agent} does not say what it expects: expected a run, or MCTS such as mcts:1000"
        )
    return found.value, found.best.name


def _expected_verdict(loss: float) -> Verdict:
    return "mistake" if loss >= MISTAKE else "slip" if loss >= SLIP else "good"


def _moves_backwards(end: Position) -> Iterator[tuple[int, Position, str]]:
    """Yield each ply with the position before it and the name of its move, the last one first."""
    line = end.line()
    for ply in reversed(range(len(end.history))):
        yield ply, line[ply], line[ply].name(end.history[ply])


def _sign(score: int) -> int:
    return (score > 0) - (score < 0)
