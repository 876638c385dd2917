"""A match that ends as soon as a sequential test has an answer."""

from __future__ import annotations

from typing import NamedTuple

from zerolab.agents.interface import Agent
from zerolab.core.errors import UserError
from zerolab.play.engine import Progress
from zerolab.play.match import Match, play_match
from zerolab.ratings.sprt import Sprt, Verdict
from zerolab.rules.interface import Game

_GAMES_AT_ONCE = 64


class TestedMatch(NamedTuple):
    """A match up to the pair of games that ended the test."""

    match: Match
    verdict: Verdict


def require_variety(a: Agent, b: Agent, openings: int) -> None:
    """Raise UserError where a match would be the same two games again and again."""
    if not openings and not a.varies and not b.varies:
        raise UserError(
            f"openings = 0: {a.name} and {b.name} play without randomness, so they would repeat"
            " their games; expected at least 1, as in --openings 4"
        )


def play_sprt(
    game: Game,
    a: Agent,
    b: Agent,
    test: Sprt,
    games: int,
    seed: int,
    progress: Progress = lambda done, note: None,
    *,
    openings: int,
) -> TestedMatch:
    """Play until the test ends, at most `games` games.

    Pairs are judged one by one, so that the verdict does not depend on how many games are played
    at once; pairs with a repeated game are no evidence (see `ratings.sprt`). Raises UserError for
    bounds that no test can have, and for agents without randomness from no openings.
    """
    test.check()
    require_variety(a, b, openings)
    match, verdict = None, test.judge(a.name, [])[1]
    while match is None or (verdict.state == "continue" and len(match.games) < games):
        begin = len(match.games) if match else 0
        note = f"log-likelihood ratio {verdict.llr:.2f}" if match else ""
        more = play_match(
            game, a, b, min(_GAMES_AT_ONCE, games - begin), seed,
            progress=lambda done, waiting, begin=begin, note=note: progress(  # type: ignore[misc]
                begin + done, waiting or note
            ),
            openings=openings, begin=begin,
        )  # fmt: skip
        played = [*(match.games if match else []), *more.games]
        needed, verdict = test.judge(more.a, played)
        match = Match(more.a, more.b, played[:needed])
    return TestedMatch(match, verdict)
