"""`zerolab match`, `tournament` and `rate`: games between agents, and ratings."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from zerolab.agents.agent import Agent
from zerolab.agents.specs import parse_agents
from zerolab.cli.output import Console, print_csv, print_json, print_lines
from zerolab.cli.process import advise_resuming
from zerolab.cli.progress import progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.game_files import ImportedResults, read_game_results
from zerolab.play.match import play_match, play_sprt
from zerolab.play.pairings import check_opening_length
from zerolab.play.tournament import (
    Tournament,
    TournamentSettings,
    needs_only_report,
    parse_tournament_agents,
    resume_command,
    tournament_settings,
)
from zerolab.play.tournament_report import MatchReport, TournamentReport
from zerolab.ratings.bayes import rate
from zerolab.ratings.ratings import ratings_csv, ratings_json, ratings_table
from zerolab.ratings.sprt import Sprt
from zerolab.report.figures import check_figure_path
from zerolab.report.text import print_table
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.checks import hex_digest

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
    """Play a match between two agents and report the score and Elo difference with intervals.

    With --sprt, a sequential probability ratio test ends the match as soon as the games decide
    between two Elo differences, with error probabilities of 5 %.

    Examples:
      zerolab match runs/demo mcts:100 --games 200 --openings 4
      zerolab match runs/new runs/old --games 2000 --sprt 0 50 --openings 4
      zerolab match mcts:50 mcts:100 --game othello:6x6

    Args:
        a: Run such as runs/demo or runs/demo@12, or one of {agents}.
        b: Opponent of A.
        games: Number of games, half with each colour; with --sprt, the maximum number.
        sprt: Two hypothetical Elo advantages of A over B; the test decides between them.
        openings: Number of random opening plies; each opening is played with both colours. The
            default is 0, or 4 with --sprt, because repeated games provide no new evidence.
        seed: Seed of all random streams.
        game: Game to play; not needed if an agent determines it, as runs do.
        json: Print JSON.
    """
    agent, opponent = parse_agents([a, b], parse_game(game) if game is not None else None)
    if openings is None:
        openings = 0 if sprt is None else _TEST_OPENINGS
    settings = {"game": game_name(agent.game), "games": games, "openings": openings, "seed": seed}
    validate(TournamentSettings, settings)
    check_opening_length(agent.game, openings)
    verdict = None
    with progress_bar(f"{agent.name} against {opponent.name}", games, "games") as update:
        if sprt is None:
            played = play_match(
                agent.game, agent, opponent, games, seed, 0, update, openings=openings
            )
        else:
            played, verdict = play_sprt(
                agent.game, agent, opponent, Sprt(*sprt), games, seed, update, openings=openings
            )
    report = MatchReport.from_match(played, verdict)
    if json:
        print_json(report.as_dict())
    else:
        Console().print("\n".join(report.lines()))


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
    """Play a round robin of agents and report ratings, a cross table and transitivity tests.

    Games are saved in blocks of up to 20 games between two agents. To resume a tournament, repeat
    the command, or pass only its folder and the agents that run programs, which must be named
    again. You can add agents when you resume it.

    Examples:
      zerolab tournament runs/demo@0 runs/demo random mcts:100 --openings 4
      zerolab tournament random mcts:25 mcts:100 mcts:400 --game connect_four:6x7 --games 40
      zerolab tournament --folder tournaments/first runs/other

    Args:
        players: Runs such as runs/demo or runs/demo@12, and any of {agents}.
        game: Game to play; not needed if an agent determines it, as runs do.
        games: Number of games per pair, half with each colour; 20 by default.
        openings: Number of random opening plies; each opening is played with both colours. The
            default is 0.
        seed: Seed of all random streams; 0 by default.
        folder: Folder for games and results; named after the agents and settings by default.
        json: Print everything as JSON.
    """
    saved = Tournament.load(folder) if folder is not None and folder.is_dir() else None
    if folder is not None and saved is None and not players:
        raise UserError(
            f"{folder} contains no tournament to resume: expected agents, as in"
            f" zerolab tournament random mcts:100 --game othello:6x6"
            f" --folder {shlex.quote(str(folder))}"
        )
    options = {"games": games, "openings": openings, "seed": seed}
    if saved is not None and needs_only_report(saved, players, (game, *options.values())):
        report = _play(saved.path, saved.settings, [])
    else:
        settings, agents = _requested(saved, players, game, options)
        if folder is None:
            folder = _default_folder(settings)
            saved = Tournament.load(folder)
            if saved is not None and saved.remaining_blocks():  # perhaps of players added later
                settings, agents = _requested(saved, players, game, options)
        report = _play(folder, settings, agents)
    if json:
        print_json(report.as_dict())
        return
    console = Console()
    report.show(console)
    console.print(f"tables and figures: {report.tournament.path}", highlight=False)


def _requested(
    saved: Tournament | None,
    players: Sequence[str],
    game: str | None,
    options: Mapping[str, int | None],
) -> tuple[TournamentSettings, list[Agent]]:
    """Return the settings and all agents of a new or resumed tournament."""
    requested_game = None if game is None else parse_game(game)
    agents = parse_tournament_agents(saved, players, requested_game)
    return tournament_settings(saved, agents, options), agents


def _default_folder(settings: TournamentSettings) -> Path:
    """Return a folder whose name depends only on the agents and settings."""
    fields: dict[str, Any] = settings.model_dump()
    fields["players"] = sorted(fields["players"].items())
    suffix = hex_digest(json_format.dumps(fields, sort_keys=True).encode())[:8]
    return _FOLDERS / f"{settings.game.replace(':', '-')}-{suffix}"


def _play(folder: Path, settings: TournamentSettings, agents: Sequence[Agent]) -> TournamentReport:
    """Play the remaining games and write the results."""
    with (
        advise_resuming("finished blocks of games are saved", resume_command(folder, settings)),
        Tournament.open_locked(folder, settings) as tournament,
    ):
        if total := tournament.remaining_game_count():
            tournament.require_agents(agents)
            with progress_bar(str(folder), total, "games") as update:
                tournament.play(agents[0].game, agents, update)
        report = TournamentReport.from_tournament(tournament)
        report.save()
    return report


def rate_files(
    files: tyro.conf.Positional[tuple[Path, ...]] = (),
    *,
    json: bool = False,
    csv: bool = False,
    figure: Path | None = None,
    advantage: float | None = None,
    draw_elo: float | None = None,
) -> None:
    """Rate players based on their games, with Bayesian Elo and 95 % intervals.

    Games are read from PGN files (tags White, Black and Result; White moves first), or from the
    games.sqlite files of runs and tournaments. The mean rating is 0.

    Examples:
      zerolab rate games.pgn
      zerolab rate runs/demo --figure ratings.png
      zerolab rate one.pgn two.pgn --json
      zerolab rate games.pgn --advantage 0 --draw-elo 97.3

    Args:
        files: PGN files, games.sqlite files, or folders that contain games.sqlite.
        json: Print {"first_move_advantage": a, "model": {...}, "players": [{"player": name, ...}]}.
        csv: Print comma-separated values.
        figure: File for a plot of the ratings, such as ratings.png or ratings.svg.
        advantage: First-move advantage in Elo; fitted by default.
        draw_elo: Draw parameter in Elo, called drawelo in BayesElo; fitted by default.
    """
    if not files:
        raise UserError(
            "no files: expected PGN or games.sqlite files, as in zerolab rate games.pgn"
        )
    if json and csv:
        raise UserError("--json and --csv: expected only one of them")
    if figure is not None:
        check_figure_path(figure)
    records = read_game_results(files)
    ratings = rate(records.results, advantage=advantage, draw_elo=draw_elo)
    if figure is not None:
        from zerolab.ratings.ratings import save_ratings

        save_ratings(ratings, figure)
    if json:
        print(json_format.dumps(ratings_json(ratings)))
    elif csv:
        print_csv(ratings_csv(ratings))
    else:
        print_table(Console(), ratings_table(ratings))
    _report_excluded(records)


def _report_excluded(records: ImportedResults) -> None:
    """Print the number of excluded games to standard error."""
    for count, kind in (
        (records.unfinished_count, "unfinished"),
        (records.self_play_count, "self-play"),
    ):
        if count:
            games = "game" if count == 1 else "games"
            print_lines(f"zerolab: left out {count} {kind} {games}", error=True)
