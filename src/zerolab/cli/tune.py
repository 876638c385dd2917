"""`zerolab tune` and `zerolab league`: search for good settings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from zerolab.cli.output import Console, print_json, print_lines
from zerolab.cli.parse import Assignments
from zerolab.cli.process import advise_resuming
from zerolab.cli.progress import PlainReporter, TerminalReporter, progress_bar
from zerolab.core.errors import MissingExtraError

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
    games: int | None = None,
    opponent: str | None = None,
    seed: int = 0,
    workers: int = 1,
    folder: Path = Path("tuning"),
    allow_programs: bool = False,
    json: bool = False,
) -> None:
    """Search for good settings; each trial is a training run with settings proposed by Optuna.

    The folder will contain the runs, a table, a figure (history or Pareto front, and the importance
    of each setting), and the best settings as best.toml for zerolab train --preset. Repeat the
    command to resume it, with more trials if you like. Several commands can work in the same folder
    at the same time. With accuracy as the only objective, trials below the median of the other
    trials end early. With --and time, every trial finishes, because Optuna cannot compare
    unfinished trials on two objectives.

    Examples:
      zerolab tune connect_four:6x7 --positions positions.parquet --set search.selection.c=0.5..4
      zerolab tune othello:6x6 --objective elo --and time --set 'learn.loss=sum|product'
      zerolab train connect_four:6x7 --preset tuning/best.toml

    Args:
        game: Game to learn.
        set: KEY=LOW..HIGH or KEY=log:LOW..HIGH searches a range, KEY=A|B searches alternatives,
            and KEY=VALUE fixes a setting for all trials; can be repeated.
        objective: Quantity to optimise. accuracy is the latest strong accuracy with search: the
            share of solved positions in which a best move is chosen. elo is the best network's
            rating against the opponent. loss is the total loss in the last iteration, which is a
            poor measure of strength.
        and_: Optimise training time as a second objective, and show the trade-off.
        trials: Total number of trials, including those already in the folder.
        preset: Preset name or .toml file to start from.
        positions: File of solved positions for the accuracy objective, from zerolab dataset.
        games: Number of games against the opponent for the elo objective; 200 by default.
        opponent: Agent against which Elo is measured, the same for all trials;
            mcts:100?tie_break=random by default.
        seed: Seed of the search; trial N trains with seed SEED + N.
        workers: Number of parallel training processes, which share the cores.
        folder: Folder for trials and results.
        allow_programs: Allow running programs listed as baselines in a preset file, in addition to
            those named in --set.
        json: Print everything as JSON instead of a table.
    """
    from zerolab.core.config import validate
    from zerolab.report.text import print_table

    try:
        from zerolab.tuning.plan import TuningSettings
        from zerolab.tuning.search import TrialDisplay
        from zerolab.tuning.search import tune as search
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_package("zerolab tune", error.name, "tune") from error

    options = {
        "game": game, "preset": preset, "assignments": set, "positions": positions,
        "objective": objective, "and_time": and_ is not None, "seed": seed, "games": games,
        "opponent": opponent, "allow_programs": allow_programs,
    }  # fmt: skip
    settings = validate(TuningSettings, options)
    console = Console(stderr=True)
    reporter = TerminalReporter if console.is_terminal else PlainReporter
    display = TrialDisplay(
        console.print,
        lambda clock: reporter(console, clock),
        progress_bar,
    )
    with advise_resuming("finished trials and stages are saved", "the same command"):
        report = search(folder, settings, trials, workers, display)
    if json:
        print_json(report.as_dict())
        return
    print_table(Console(), report.table())
    if report.best_result is not None:
        print_lines("", f"written to {folder}: tuning.md, tuning.png, tuning.svg, best.toml")
        best = shlex.quote(str(folder / "best.toml"))
        print_lines(f"train with it: zerolab train {game} --preset {best}")


_MAX_GAMES = 1_000_000_000


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
    """Evolve search settings in a league of players that differ only in these settings.

    All players search with the same network, or with uniform priors and random playouts. Games
    determine their ratings, and mutants of the best players form the next generation. The folder
    will contain the games, the players, a figure of the parameters by generation, and the settings
    of the best player as best.toml for zerolab train --preset. Repeat the command to resume a
    league, with more games if you like.

    Examples:
      zerolab league connect_four:6x7 --agent runs/demo --games 30000
      zerolab league gobang:6x6:4 --set 'parameters=["c","fpu","check"]' --set search.simulations=50
      zerolab league othello:6x6 --agent runs/othello --set fitness=novelty --out leagues/novelty

    Args:
        game: Game to play.
        agent: Run or .zerolab file whose network all players use, such as runs/demo@12; no network
            by default.
        games: Total number of games, including those already in the folder.
        set: League setting to change, such as active=60 or ranges.c=[1,4]; can be repeated.
        seed: Seed of all random streams.
        out: Folder for games and results.
        json: Print everything as JSON.
    """
    from zerolab.core.errors import UserError, quoted
    from zerolab.league.league import (
        League,
        LeagueState,
        check_game_count,
        league_network,
        resolve_settings,
    )
    from zerolab.league.league_report import LeagueReport
    from zerolab.rules.catalogue import parse_game

    if not 1 <= games <= _MAX_GAMES:
        raise UserError(f"games = {quoted(games)}: expected at least 1 and at most {_MAX_GAMES:,}")
    parsed_game = parse_game(game)
    network = league_network(agent, parsed_game)
    settings = resolve_settings(parsed_game, network, seed, set)
    check_game_count(settings, games)
    with (
        advise_resuming("finished batches of games are saved", "the same command"),
        League.open_locked(out, settings) as league_folder,
    ):
        with progress_bar(str(out), games, "games") as update:

            def progress(state: LeagueState, done: int, note: str) -> None:
                best = LeagueReport(league_folder).best_player
                parts = f"generation {state.population.generation}", f"best player {best}", note
                update(done, ", ".join(parts))

            league_folder.play(parsed_game, network.load_evaluator(), games, progress)
        report = LeagueReport(league_folder, network.network_settings)
        report.save()
    if json:
        print_json(report.as_dict())
        return
    report.show(Console())
    print_lines("", f"written to {out}: league.png, league.svg, best.toml")
    best = shlex.quote(str(out / "best.toml"))
    print_lines(f"train with it: zerolab train {game} --preset {best}")
