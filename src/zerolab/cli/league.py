"""`zerolab league`: search settings evolve by playing each other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import tyro

from zerolab.cli.output import print_json, say, table_console
from zerolab.cli.parse import Assignments, call
from zerolab.cli.process import resumable
from zerolab.cli.progress_bar import progress_bar

_MOST_GAMES = 1_000_000_000


def league(
    game: tyro.conf.Positional[str],
    *,
    agent: str | None = None,
    games: int = 15_000,
    set: Assignments = (),
    seed: int = 0,
    out: Path = Path("league"),
    json: bool = False,
) -> None:
    """Let settings of the search evolve: players differ in them, and the best ones have mutants.

    All players search with one network, or with equal priors and random playouts. They are rated
    by their games, and after every generation the best are parents of the next one. The folder gets
    the games, the players, a figure of the parameters by generation, and the best player's settings
    as best.toml, for zerolab train --preset. A league that was stopped is resumed by repeating the
    command, also with more games.

    Examples:
      zerolab league connect_four:6x7 --agent runs/demo --games 30000
      zerolab league gobang:6x6:4 --set 'parameters=["c","fpu","check"]' --set search.simulations=50
      zerolab league othello:6x6 --agent runs/demo@12 --set fitness=novelty --out leagues/novelty

    Args:
        game: What to play.
        agent: The run whose network all players search with, such as runs/demo or runs/demo@12;
            none by default.
        games: Games in all, those that the folder has included.
        set: A setting of the league to change, such as active=20 or ranges.c=[1,4]; may be
            repeated.
        seed: Seed of all random streams.
        out: The folder where everything is kept.
        json: Print everything as JSON.
    """
    from zerolab.core.errors import UserError, quoted
    from zerolab.league.league import League, LeagueState
    from zerolab.league.report import LeagueReport
    from zerolab.league.resolve import find_network, resolve
    from zerolab.rules.catalogue import parse_game

    if not 1 <= games <= _MOST_GAMES:
        raise UserError(f"games = {quoted(games)}: expected at least 1, at most {_MOST_GAMES:,}")
    chosen = parse_game(game)
    network = find_network(agent, chosen)
    settings = resolve(chosen, network, seed, set)
    with (
        resumable("finished batches of games are saved", "the same command"),
        League.locked(out, settings) as held,
    ):
        with progress_bar(str(out), games, "games") as update:

            def progress(state: LeagueState, done: int, note: str) -> None:
                best = LeagueReport(held).best
                parts = f"generation {state.players.generation}", f"best player {best}", note
                update(done, ", ".join(parts))

            held.play(chosen, network.evaluator(), games, progress)
        report = LeagueReport(held, network.settings)
        report.save()
    if json:
        print_json(report.as_dict())
        return
    report.show(table_console())
    say("", f"written to {out}: league.png, league.svg, best.toml")
    best = shlex.quote(str(out / "best.toml"))
    say(f"train with it: zerolab train {game} --preset {best}")


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and play."""
    call(league, "league", arguments)
