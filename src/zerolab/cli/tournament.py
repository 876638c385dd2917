"""`zerolab match`, `tournament` and `rate`: games between agents, and ratings."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from zerolab.agents.agent import Agent
from zerolab.agents.specs import parse_agents, runs_program
from zerolab.cli.output import print_data, print_json, say, table_console
from zerolab.cli.process import resumable
from zerolab.cli.progress import progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.game_files import Records, read_records
from zerolab.play.match import play_match, play_sprt
from zerolab.play.tournament import Tournament, TournamentSettings, gather_agents
from zerolab.play.tournament_report import MatchReport, TournamentReport
from zerolab.ratings.bayes import rate
from zerolab.ratings.rating_report import ratings_csv, ratings_json, ratings_table
from zerolab.ratings.sprt import Sprt
from zerolab.report.terminal import print_table
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.checks import digest

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
    """Play a match between two agents: score, Elo difference, and their intervals.

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
        sprt: The two Elo differences of A over B to decide between.
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


_FOLDERS = Path("tournaments")
_Agents = tyro.conf.Positional[
    Annotated[tuple[str, ...], tyro.conf.arg(metavar="[AGENT ...]", help_behavior_hint="")]
]


def tournament(
    players: _Agents = (),
    *,
    game: str | None = None,
    games: int | None = None,
    openings: int | None = None,
    seed: int | None = None,
    folder: Path | None = None,
    json: bool = False,
) -> None:
    """Play a round robin of agents: ratings, cross table, and tests of transitivity.

    Games are stored as pairs of agents finish them. A tournament that was stopped or killed is
    resumed by the same command, or by its folder alone; agents may be added to one.

    Examples:
      zerolab tournament runs/demo@0 runs/demo random mcts:100 --openings 4
      zerolab tournament random mcts:25 mcts:100 mcts:400 --game connect_four:6x7 --games 40
      zerolab tournament --folder tournaments/first runs/other

    Args:
        players: Runs such as runs/demo or runs/demo@12, and any of {agents}.
        game: What to play, where no run brings its game.
        games: Games per pair, half with each colour; 20 by default.
        openings: Random plies at the start, the same for both colours of a pair; 0 by default.
        seed: Seed of all random streams; 0 by default.
        folder: Where games and results are kept; named after agents and settings by default.
        json: Print everything as JSON.
    """
    options = {"games": games, "openings": openings, "seed": seed}
    given = {key: value for key, value in options.items() if value is not None}
    saved = Tournament.saved(folder) if folder is not None and folder.is_dir() else None
    if folder is not None and saved is None and not players:
        raise UserError(
            f"{folder} holds no tournament to resume: expected agents, as in"
            f" zerolab tournament random mcts:100 --game othello:6x6"
            f" --folder {shlex.quote(str(folder))}"
        )
    former = saved.settings.model_dump() if saved else {}
    chosen = game or former.get("game")
    agents = gather_agents(
        list(former.pop("players", {})), players, parse_game(chosen) if chosen else None
    )
    identities = {agent.name: agent.identity for agent in agents}
    named = {"game": game_name(agents[0].game), "players": identities}
    settings = validate(TournamentSettings, {**former, **named, **given})
    report = _play(folder or _default_folder(settings), settings, agents)
    if json:
        print_json(report.as_dict())
        return
    console = table_console()
    report.show(console)
    console.print(f"tables and figures: {report.tournament.path}", highlight=False)


def _default_folder(settings: TournamentSettings) -> Path:
    """Return a folder that depends only on agents and settings."""
    fields: dict[str, Any] = settings.model_dump()
    fields["players"] = sorted(fields["players"].items())
    mark = digest(json_format.dumps(fields, sort_keys=True).encode())[:8]
    return _FOLDERS / f"{settings.game.replace(':', '-')}-{mark}"


def _play(folder: Path, settings: TournamentSettings, agents: Sequence[Agent]) -> TournamentReport:
    """Play the remaining games, and write the results."""
    again = resuming(folder, settings)
    with resumable("finished games are stored", again), Tournament.locked(folder, settings) as held:
        if total := held.games_left():
            with progress_bar(str(folder), total, "games") as update:
                held.play(agents[0].game, agents, update)
        report = TournamentReport.of(held)
        report.save()
    return report


def resuming(folder: Path, settings: TournamentSettings) -> str:
    """Return the command that resumes a tournament; it names the programs among the agents."""
    named = [name for name in settings.players if runs_program(name)]
    return shlex.join(["zerolab", "tournament", *named, "--folder", str(folder)])


def rate_files(
    files: tyro.conf.Positional[tuple[Path, ...]] = (),
    *,
    json: bool = False,
    csv: bool = False,
    figure: Path | None = None,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> None:
    """Rate players by the games they played: Bayesian Elo with 95 % intervals.

    Games come from PGN files (tags White, Black and Result; White moves first), from the
    games.sqlite of runs and tournaments, or from folders that hold one. The mean of all players
    is 0.

    Examples:
      zerolab rate games.pgn
      zerolab rate runs/demo --figure ratings.png
      zerolab rate one.pgn two.pgn --json
      zerolab rate games.pgn --advantage 0 --draw-elo 97.3

    Args:
        files: PGN files, games.sqlite files, or folders that hold one.
        json: Print {"advantage": a, "draw_elo": d, "players": [{"player": name, "elo": e, ...}]}.
        csv: Print comma-separated values.
        figure: Also draw the ratings to this file, such as ratings.png or ratings.svg.
        advantage: What moving first is worth, in Elo; fitted by default.
        draw_elo: How likely draws are, in Elo as BayesElo's drawelo; fitted by default.
    """
    if not files:
        raise UserError(
            "no files: expected PGN files or games.sqlite, as in zerolab rate games.pgn"
        )
    if json and csv:
        raise UserError("--json and --csv: expected one of them")
    records = read_records(files)
    ratings = rate(records.results, advantage=advantage, draw_elo=draw_elo)
    if figure is not None:
        from zerolab.ratings.rating_report import save_ratings

        save_ratings(ratings, figure)
    if json:
        print(json_format.dumps(ratings_json(ratings)))
    elif csv:
        print_data(ratings_csv(ratings))
    else:
        print_table(table_console(), ratings_table(ratings))
    _report_excluded(records)


def _report_excluded(records: Records) -> None:
    """Print the number of excluded games to standard error."""
    for count, kind in ((records.unfinished, "unfinished"), (records.against_itself, "self-play")):
        if count:
            games = "game" if count == 1 else "games"
            say(f"zerolab: left out {count} {kind} {games}", error=True)
