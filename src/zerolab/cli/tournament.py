"""`zerolab tournament`: everyone plays everyone."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from zerolab.agents.interface import Agent
from zerolab.agents.specs import runs_program
from zerolab.cli.output import print_json, table_console
from zerolab.cli.parse import call
from zerolab.cli.process import resumable
from zerolab.cli.progress_bar import progress_bar
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.report import TournamentReport
from zerolab.play.tournament import Tournament, TournamentSettings, gather_agents
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.checks import digest

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
    """Let everyone play everyone: ratings, cross table, and whether strength is one number.

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
    asked = {"games": games, "openings": openings, "seed": seed}
    given = {key: value for key, value in asked.items() if value is not None}
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
    """Return a folder that the same command finds again."""
    fields: dict[str, Any] = settings.model_dump()
    fields["players"] = sorted(fields["players"].items())
    mark = digest(json_format.dumps(fields, sort_keys=True).encode())[:8]
    return _FOLDERS / f"{settings.game.replace(':', '-')}-{mark}"


def _play(folder: Path, settings: TournamentSettings, agents: Sequence[Agent]) -> TournamentReport:
    """Play what is left, and write the results."""
    again = resuming(folder, settings)
    with resumable("finished games are stored", again), Tournament.locked(folder, settings) as held:
        if total := held.games_left():
            with progress_bar(str(folder), total, "games") as update:
                held.play(agents[0].game, agents, update)
        report = TournamentReport.of(held)
        report.save()
    return report


def resuming(folder: Path, settings: TournamentSettings) -> str:
    """Return the command that resumes a tournament, which must name the programs that play."""
    named = [name for name in settings.players if runs_program(name)]
    return shlex.join(["zerolab", "tournament", *named, "--folder", str(folder)])


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and play."""
    call(tournament, "tournament", arguments)
