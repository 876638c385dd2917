"""`zerolab tune` and `zerolab league`: search for good settings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from zerolab.cli.output import Console, print_json, say, table_console
from zerolab.cli.parse import Assignments
from zerolab.cli.process import resumable
from zerolab.cli.progress import PlainReporter, TerminalReporter, progress_bar

_And = Annotated[Literal["time"] | None, tyro.conf.arg(name="and", help_behavior_hint="")]


def tune(
    game: tyro.conf.Positional[str],
    *,
    set: Assignments = (),
    objective: Literal["accuracy", "elo", "loss"] = "accuracy",
    and_: _And = None,
    trials: int = 20,
    preset: str = "mini",
    positions: str = "",
    games: int = 200,
    opponent: str = "mcts:100?tie_break=random",
    seed: int = 0,
    workers: int = 1,
    folder: Path = Path("tuning"),
    allow_programs: bool = False,
    json: bool = False,
) -> None:
    """Search for good settings: every trial is a run, Optuna proposes what to try next.

    The folder gets the runs, a table, a figure (history or Pareto front, and which settings
    matter), and the best settings as best.toml, for zerolab train --preset. A command that was
    stopped is resumed by repeating it, also with more trials. Several commands may work in one
    folder at once. With the objective accuracy alone, trials that fall behind the median of the
    others are ended early; with --and time no trial is, as Optuna cannot compare unfinished trials
    by two objectives.

    Examples:
      zerolab tune connect_four:6x7 --positions positions.parquet --set search.selection.c=0.5..4
      zerolab tune othello:6x6 --objective elo --and time --set 'learn.loss=sum|product'
      zerolab train connect_four:6x7 --preset tuning/best.toml

    Args:
        game: What to learn.
        set: KEY=LOW..HIGH or KEY=log:LOW..HIGH searches a range, KEY=A|B alternatives, KEY=VALUE
            sets what all trials share; may be repeated.
        objective: accuracy: strong accuracy of the search on solved positions, when last measured;
            elo: of the best network against the opponent; loss: of all heads in the last iteration,
            which says little about strength.
        and_: Make hours of training an objective, too, and show what each costs the other.
        trials: Trials in all, those that the folder has included.
        preset: The settings to start from, or a file that ends in .toml.
        positions: Solved positions for the objective accuracy, as zerolab dataset writes them.
        games: Games against the opponent, for the objective elo.
        opponent: The agent against which Elo is measured; it must never change.
        seed: Seed of the proposals; each run has its own seed.
        workers: Processes that train at once and share the cores.
        folder: The folder of trials and results.
        allow_programs: Run the programs that a preset's file names among its baselines, where
            trials play them, not only those that --set names.
        json: Print everything as JSON instead of a table.
    """
    from zerolab.core.config import validate
    from zerolab.report.terminal import print_table
    from zerolab.tuning.plan import TuningSettings
    from zerolab.tuning.search import TrialDisplay
    from zerolab.tuning.search import tune as search

    given = {
        "game": game, "preset": preset, "assignments": set, "positions": positions,
        "objective": objective, "and_time": and_ is not None, "seed": seed, "games": games,
        "opponent": opponent, "allow_programs": allow_programs,
    }  # fmt: skip
    settings = validate(TuningSettings, given)
    console = Console(stderr=True)
    kind = TerminalReporter if console.is_terminal else PlainReporter
    display = TrialDisplay(
        lambda line: console.print(line, soft_wrap=True),
        lambda iterations: kind(console, iterations),
        progress_bar,
    )
    with resumable("finished trials and stages are saved", "the same command"):
        report = search(folder, settings, trials, workers, display)
    if json:
        print_json(report.as_dict())
        return
    print_table(table_console(), report.table())
    if report.best is not None:
        say("", f"written to {folder}: tuning.md, tuning.png, tuning.svg, best.toml")
        best = shlex.quote(str(folder / "best.toml"))
        say(f"train with it: zerolab train {game} --preset {best}")


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
    """Let search settings evolve: individuals play each other, and the best have mutants.

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
        out: The folder of games and results.
        json: Print everything as JSON.
    """
    from zerolab.core.errors import UserError, quoted
    from zerolab.league.league import League, LeagueState, league_network, resolve_settings
    from zerolab.league.league_report import LeagueReport
    from zerolab.rules.catalogue import parse_game

    if not 1 <= games <= _MOST_GAMES:
        raise UserError(f"games = {quoted(games)}: expected at least 1, at most {_MOST_GAMES:,}")
    chosen = parse_game(game)
    network = league_network(agent, chosen)
    settings = resolve_settings(chosen, network, seed, set)
    with (
        resumable("finished batches of games are saved", "the same command"),
        League.locked(out, settings) as held,
    ):
        with progress_bar(str(out), games, "games") as update:

            def progress(state: LeagueState, done: int, note: str) -> None:
                best = LeagueReport(held).best
                parts = f"generation {state.population.generation}", f"best player {best}", note
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
