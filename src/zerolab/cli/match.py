"""`zerolab match`: two agents, as many games as asked for or as a sequential test needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import tyro

from zerolab.agents.specs import parse_agents
from zerolab.cli.output import print_json, table_console
from zerolab.cli.parse import call
from zerolab.cli.progress_bar import progress_bar
from zerolab.core.config import validate
from zerolab.play.match import play_match
from zerolab.play.report import MatchReport
from zerolab.play.sequential import play_sprt
from zerolab.play.tournament import TournamentSettings
from zerolab.ratings.sprt import Sprt
from zerolab.rules.catalogue import game_name, parse_game

_TEST_OPENINGS = 4
_EloBounds = Annotated[
    tuple[float, float] | None, tyro.conf.arg(metavar="ELO0 ELO1", help_behavior_hint="")
]


def match(
    a: tyro.conf.Positional[str],
    b: tyro.conf.Positional[str],
    *,
    games: int = 100,
    sprt: _EloBounds = None,
    openings: int | None = None,
    seed: int = 0,
    game: str | None = None,
    json: bool = False,
) -> None:
    """Let two agents play a match: score, Elo difference, and how sure it is.

    With --sprt the match ends as soon as the games show which of two Elo differences is the
    likelier one, with 5 % risk of either error.

    Examples:
      zerolab match runs/demo mcts:100 --games 200 --openings 4
      zerolab match runs/new runs/old --games 2000 --sprt 0 50 --openings 4
      zerolab match mcts:50 mcts:100 --game othello:6x6

    Args:
        a: A run such as runs/demo or runs/demo@12, or one of {agents}.
        b: The opponent.
        games: Games, half with each colour; with --sprt, at most this many.
        sprt: Two Elo differences: A is stronger by the first one, or by the second one.
        openings: Random plies at the start of a game, the same for both colours; 0 by default, and
            4 with --sprt, for which repeated games are no evidence.
        seed: Seed of all random streams.
        game: What to play, where no run brings its game.
        json: Print JSON.
    """
    one, other = parse_agents([a, b], parse_game(game) if game is not None else None)
    if openings is None:
        openings = 0 if sprt is None else _TEST_OPENINGS
    settings = {"game": game_name(one.game), "games": games, "openings": openings, "seed": seed}
    validate(TournamentSettings, settings)
    verdict = None
    with progress_bar(f"{one.name} against {other.name}", games, "games") as update:
        if sprt is None:
            played = play_match(one.game, one, other, games, seed, 0, update, openings=openings)
        else:
            played, verdict = play_sprt(
                one.game, one, other, Sprt(*sprt), games, seed, update, openings=openings
            )
    report = MatchReport.of(played, verdict)
    if json:
        print_json(report.as_dict())
    else:
        table_console().print("\n".join(report.lines()))


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and play."""
    call(match, "match", arguments)
