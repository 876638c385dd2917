"""`zerolab match`: two players, as many games as asked for or as a sequential test needs."""

from __future__ import annotations

import json as json_format
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import tyro

from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agents
from zerolab.cli.output import Console, table_console
from zerolab.cli.parse import call
from zerolab.cli.progress_bar import Update, progress_bar
from zerolab.core.config import validate
from zerolab.play.match import play_match
from zerolab.play.report import Overview, overview, pair_results
from zerolab.play.tournament import TournamentSettings
from zerolab.ratings.bayes import Difference, rate
from zerolab.ratings.score import Score
from zerolab.ratings.sprt import Sprt, Verdict
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.games import GameRecord

_TEST_EVERY = 64  # games that a sequential test plays at once
_TEST_OPENINGS = 4


def match(
    a: tyro.conf.Positional[str],
    b: tyro.conf.Positional[str],
    *,
    games: int = 100,
    sprt: tuple[float, float] | None = None,
    openings: int | None = None,
    seed: int = 0,
    game: str | None = None,
    json: bool = False,
) -> None:
    """Let two players play a match: score, Elo difference, and how sure it is.

    With --sprt the match ends as soon as the games show which of two Elo differences is the
    likelier one, with 5 % risk of either error.

    Examples:
      zerolab match runs/demo mcts:100 --games 200 --openings 4
      zerolab match runs/new runs/old --games 2000 --sprt 0 50 --openings 4
      zerolab match mcts:50 mcts:100 --game othello:6x6

    Args:
        a: A run such as runs/demo or runs/demo@12, or random, mcts:N, rave:N, rhea:N,
            perfect, gtp:"COMMAND".
        b: The opponent.
        games: Games, half with each colour; with --sprt, at most so many.
        sprt: Two Elo differences: A is stronger by the first one, or by the second one.
        openings: Random plies at the start of a game, the same for both colours; 0 by default, and
            4 with --sprt, which would take repeated games for evidence.
        seed: What all draws derive from.
        game: What to play, where no run brings its game.
        json: Print JSON.
    """
    import torch

    agents = parse_agents([a, b], parse_game(game) if game is not None else None)
    if openings is None:
        openings = 0 if sprt is None else _TEST_OPENINGS
    settings = validate(
        TournamentSettings,
        {"game": game_name(agents[0].game), "games": games, "openings": openings, "seed": seed},
    )
    test = Sprt(*sprt).check() if sprt is not None else None
    torch.set_num_threads(1)  # each thread that plays has a core of its own
    with progress_bar(f"{agents[0].name} against {agents[1].name}", games, "games") as update:
        played, verdict = _play(agents, settings, test, update)
    outcome = _Outcome.of([agent.name for agent in agents], played, verdict)
    if json:
        json_format.dump(outcome.as_dict(), sys.stdout, indent=1)
        print()
    else:
        outcome.show(table_console())


def _play(
    agents: Sequence[Agent], settings: TournamentSettings, test: Sprt | None, update: Update
) -> tuple[list[GameRecord], Verdict | None]:
    """Play all games, or those up to the one at which the test has ended."""
    played: list[GameRecord] = []
    verdict = None
    step = settings.games if test is None else _TEST_EVERY
    while len(played) < settings.games and (verdict is None or verdict.state == "continue"):
        begin = len(played)
        more = play_match(
            agents[0].game, agents[0], agents[1], min(step, settings.games - begin), settings.seed,
            report=lambda done, begin=begin: update(begin + done, ""),  # type: ignore[misc]
            openings=settings.openings, begin=begin,
        )  # fmt: skip
        played += more.games
        if test is not None:
            count, verdict = test.judge(agents[0].name, played)
            played = played[:count]
            update(len(played), f"log-likelihood ratio {verdict.llr:.2f}")
    return played, verdict


class _Outcome(NamedTuple):
    """What a match has shown, from the view of player A."""

    names: Sequence[str]
    score: Score
    overview: Overview
    difference: Difference
    verdict: Verdict | None

    @classmethod
    def of(
        cls, names: Sequence[str], played: Sequence[GameRecord], verdict: Verdict | None
    ) -> _Outcome:
        games = list(played)
        (pair,) = pair_results(games)
        score = pair.score if pair.first == names[0] else Score(*reversed(pair.score))
        difference = rate(games).difference(names[0], names[1])
        return cls(names, score, overview(games), difference, verdict)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        low, high = self.score.interval()
        return {
            "players": list(self.names),
            "games": self.overview.games,
            "distinct_games": self.overview.distinct,
            **self.score._asdict(),
            "score_rate": self.score.score_rate,
            "low": low,
            "high": high,
            "elo": self.difference.elo,
            "elo_low": self.difference.low,
            "elo_high": self.difference.high,
            "los": self.difference.los,
            "forfeits": self.overview.forfeits,
            "sprt": self.verdict._asdict() if self.verdict else None,
        }

    def show(self, console: Console) -> None:
        """Print the result."""
        score, elo = self.score, self.difference
        low, high = score.interval()
        a, b = self.names
        lines = [
            f"{a} against {b}: {score.wins} won, {score.draws} drawn, {score.losses} lost",
            f"score rate {score.score_rate:.1%} (95 % interval {low:.1%} to {high:.1%})",
            f"Elo difference {elo.elo:+.0f} (95 % interval {elo.low:+.0f} to {elo.high:+.0f});"
            f" {a} is stronger with a probability of {elo.los:.1%}",
            f"{self.overview.games} games, {self.overview.distinct} of them distinct"
            + self._repetition,
        ]
        lines += [f"{name} forfeited {count}" for name, count in self.overview.forfeits.items()]
        if self.verdict is not None:
            lines.append(_describe(self.verdict))
        for line in lines:
            console.print(line, highlight=False)

    @property
    def _repetition(self) -> str:
        repeats = self.overview.distinct < self.overview.games
        return ": repeated games make the intervals too narrow; try --openings 4" * repeats


def _describe(verdict: Verdict) -> str:
    ends = {
        "accept H0": "sequential test ended: the smaller difference is the likelier one",
        "accept H1": "sequential test ended: the larger difference is the likelier one",
        "continue": "sequential test undecided: play more games",
    }
    return (
        f"{ends[verdict.state]} (log-likelihood ratio {verdict.llr:.2f},"
        f" bounds {verdict.lower:.2f} and {verdict.upper:.2f})"
    )


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and play."""
    call(match, "match", arguments)
