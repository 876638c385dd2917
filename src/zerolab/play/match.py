"""Matches between two agents, of fixed length or with a sequential test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from zerolab.agents.agent import Agent
from zerolab.agents.specs import with_unique_names
from zerolab.core.errors import UserError
from zerolab.core.processes import available_cores
from zerolab.play.engine import (
    EngineSetup,
    ProgressCallback,
    any_has_network,
    slots_per_thread_in_memory,
    useful_thread_count,
)
from zerolab.play.executors import (
    THREAD_EXECUTOR,
    EngineJob,
    Executor,
    executor_for,
    play_games,
    play_progress_callback,
)
from zerolab.play.pair_results import pair_result
from zerolab.play.pairings import Pairing, alternating_pairings, with_random_openings
from zerolab.ratings.bayes import rate
from zerolab.ratings.ratings import EloDifference
from zerolab.ratings.results import MatchScore, distinct_games, score_of
from zerolab.ratings.sprt import Sprt, SprtVerdict, verdict_text
from zerolab.report.document import Block, Paragraph
from zerolab.report.figures import shorten_name
from zerolab.report.html import NotebookView, html_fragment
from zerolab.report.table import Cell, Column, Table, data_frame
from zerolab.rules.rules import Game
from zerolab.store.games import GameRecord

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Match(NotebookView):
    """A finished match between agents A and B."""

    a: str
    b: str
    games: list[GameRecord]
    """Games ordered by number; A moves first in even-numbered games."""

    @property
    def score(self) -> MatchScore:
        """Score of A over all games."""
        return score_of(self.a, self.games)

    @property
    def distinct_count(self) -> int:
        """Number of distinct games; deterministic agents can repeat games."""
        return len(distinct_games(self.games))

    def elo_difference(self) -> EloDifference:
        """Return the Elo difference between A and B; repeated games widen its interval."""
        return rate(self.games).elo_difference(self.a, self.b)

    def to_pandas(self) -> DataFrame:
        """Return one row per game: players, result for the first player, and number of plies.

        Raises MissingExtraError if pandas is not installed.
        """
        return data_frame(
            [
                {
                    "number": game.number, "first": game.first, "second": game.second,
                    "result": game.result, "plies": game.ply_count,
                }
                for game in self.games
            ]
        )  # fmt: skip

    def _blocks(self) -> Iterable[Block]:
        score, result = self.score, pair_result(self.a, self.b, self.games)
        elo = self.elo_difference()
        columns: list[str | Column] = [
            "agent", "opponent", "won", "drawn", "lost", Column("effective games", ".0f"),
            Column("score rate (95 % interval)", ".1%"), Column("Elo (95 % interval)", "+.0f"),
            Column("likelihood of superiority", ".1%"),
        ]  # fmt: skip
        row: list[Cell] = [
            self.a, self.b, *score, result.effective_games, result.interval, elo.interval, elo.los
        ]  # fmt: skip
        yield Table("match", "", columns, [row])

    def __repr__(self) -> str:
        score = self.score
        return (
            f"<Match {shorten_name(self.a)} against {shorten_name(self.b)}:"
            f" {score.game_count} games, score rate {score.score_rate:.3f}>"
        )


def play_match(
    game: Game,
    a: Agent,
    b: Agent,
    games: int,
    seed: int,
    iteration: int = 0,
    progress: ProgressCallback = lambda done, note: None,
    *,
    openings: int = 0,
    first_number: int = 0,
    threads: int | None = None,
    executor: Executor = THREAD_EXECUTOR,
    chunks: int | None = None,
) -> Match:
    """Play `games` games of a match, the first of which has the number `first_number`.

    A moves first in even-numbered games. Games 2j and 2j + 1 begin with the same `openings` random
    plies. Random streams depend only on (seed, iteration, game number, ply). By default, a suitable
    number of threads is used, with one batch of games per thread. `executor` plays the games in
    `chunks` batches unless an agent depends on programs or files on this machine. If both agents
    have the same name, B is called "NAME #2". Raises UserError if games are too short for the
    openings.
    """
    agents = with_unique_names([a, b])
    threads = threads or useful_thread_count(available_cores(), games, any_has_network(agents))
    first, second = (agent.name for agent in agents)
    pairings = alternating_pairings(first, second, range(first_number, first_number + games))
    pairings = with_random_openings(game, pairings, openings, seed, iteration)
    setup = EngineSetup(
        game, agents, seed, iteration, threads, slots_per_thread_in_memory(agents, threads)
    )
    chosen, report = executor_for(agents, executor), play_progress_callback(progress)
    batches = _batches(pairings, chunks if chunks and chosen is executor else threads)
    parts = chosen.run(play_games, EngineJob(setup), batches, report)
    return Match(first, second, sorted(record for part in parts for record in part))


def _batches(pairings: list[Pairing], count: int) -> list[list[Pairing]]:
    """Divide games into at most `count` batches, with games 2j and 2j + 1 in the same batch."""
    batches = [
        [game for game in pairings if game.number // 2 % count == batch] for batch in range(count)
    ]
    return [batch for batch in batches if batch]


_GAMES_PER_ROUND = 64


class TestedMatch(NamedTuple):
    """A match up to the game pair that ended its sequential test, and the verdict."""

    match: Match
    verdict: SprtVerdict

    def __repr__(self) -> str:
        players = f"{shorten_name(self.match.a)} against {shorten_name(self.match.b)}"
        count = len(self.match.games)
        return f"<TestedMatch {players}: {self.verdict.decision} after {count} games>"

    def _repr_html_(self) -> str:
        """Return the score and the verdict as HTML for notebooks."""
        return html_fragment([*self.match._blocks(), Paragraph(verdict_text(self.verdict))])


def _require_variety(a: Agent, b: Agent, openings: int) -> None:
    """Raise UserError if a match would mostly repeat the same two games."""
    if not openings and not a.is_stochastic and not b.is_stochastic:
        raise UserError(
            f"openings = 0: {a.name} and {b.name} play almost without randomness, so most games"
            " would repeat; expected at least 1, as in --openings 4"
        )


def play_sprt(
    game: Game,
    a: Agent,
    b: Agent,
    test: Sprt,
    games: int,
    seed: int,
    progress: ProgressCallback = lambda done, note: None,
    *,
    openings: int,
) -> TestedMatch:
    """Play until the test ends, but at most `games` games.

    Game pairs are evaluated one at a time, so the verdict does not depend on how many games are
    played in parallel. Repeated games add no evidence (see `ratings.sprt`). Raises UserError for
    invalid bounds and, without openings, for agents that play almost without randomness.
    """
    test = test.validated()
    _require_variety(a, b, openings)
    match, verdict = None, test.judge_games(a.name, [])[1]
    while match is None or (verdict.decision == "continue" and len(match.games) < games):
        first_number = len(match.games) if match else 0
        note = f"log-likelihood ratio {verdict.llr:.2f}" if match else ""
        more = play_match(
            game, a, b, min(_GAMES_PER_ROUND, games - first_number), seed,
            progress=lambda done, waiting, first_number=first_number, note=note: progress(  # type: ignore[misc]
                first_number + done, waiting or note
            ),
            openings=openings, first_number=first_number,
        )  # fmt: skip
        played = [*(match.games if match else []), *more.games]
        needed, verdict = test.judge_games(more.a, played, first_number)
        match = Match(more.a, more.b, played[:needed])
    return TestedMatch(match, verdict)
