"""`zerolab tournament`: everybody plays everybody."""

from __future__ import annotations

import json as json_format
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tyro

from zerolab.agents.interface import Agent
from zerolab.agents.specs import parse_agents
from zerolab.cli.output import Console
from zerolab.cli.parse import call
from zerolab.cli.process import resumable
from zerolab.cli.progress_bar import progress_bar
from zerolab.cli.standings import TournamentReport
from zerolab.core.config import validate
from zerolab.core.errors import UserError
from zerolab.play.tournament import Tournament, TournamentSettings
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.store.checks import digest

_FOLDERS = Path("tournaments")
_WIDTH = 160


def tournament(
    players: tyro.conf.Positional[tuple[str, ...]] = (),
    *,
    game: str | None = None,
    games: int | None = None,
    openings: int | None = None,
    seed: int | None = None,
    folder: Path | None = None,
    json: bool = False,
) -> None:
    """Let everybody play everybody: ratings, cross table, and whether strength is one number.

    Games are stored as pairs of players finish them. A tournament that was stopped or killed goes
    on when the same command is given again, or its folder alone; players may be added to one.

    Examples:
      zerolab tournament runs/demo@0 runs/demo random mcts:100 --openings 4
      zerolab tournament random mcts:25 mcts:100 mcts:400 --game connect_four:6x7 --games 40
      zerolab tournament --folder tournaments/first runs/other

    Args:
        players: Runs such as runs/demo or runs/demo@12, random, mcts:N, rave:N, rhea:N,
            perfect, gtp:"COMMAND".
        game: What to play, where no run brings its game.
        games: Games of every pair, half with each colour; 20 by default.
        openings: Random plies at the start, the same for both colours of a pair; 0 by default.
        seed: What all draws derive from; 0 by default.
        folder: Where games and results are kept; named after players and settings by default.
        json: Print everything as JSON.
    """
    asked = {"games": games, "openings": openings, "seed": seed}
    given = {key: value for key, value in asked.items() if value is not None}
    saved = Tournament.saved(folder) if folder is not None and folder.is_dir() else None
    if folder is not None and saved is None and not players:
        raise UserError(
            f"{folder} holds no tournament to go on with: expected players, as in"
            f" zerolab tournament random mcts:100 --game othello:6x6 --folder {folder}"
        )
    former = saved.settings.model_dump() if saved else {}
    agents = _gather(players, former.pop("players", {}), game or former.get("game"))
    identities = {agent.name: agent.identity for agent in agents}
    named = {"game": game_name(agents[0].game), "players": identities}
    settings = validate(TournamentSettings, {**former, **named, **given})
    standings = _play(folder or _default_folder(settings), settings, agents)
    if json:
        json_format.dump(standings.as_dict(), sys.stdout, indent=1)
        print()
        return
    console = Console(width=_WIDTH, soft_wrap=True)
    standings.show(console)
    console.print(f"tables and figures: {standings.tournament.path}", highlight=False)


def _gather(specs: Sequence[str], former: Mapping[str, str], game: str | None) -> list[Agent]:
    """Return the players of the folder and those named now; raise UserError for fewer than two."""
    chosen = parse_game(game) if game is not None else None
    # Names are specs, but for the numbers of those that take part twice.
    kept = [re.sub(r" #\d+$", "", name) for name in former]
    _require_programs_named(kept, specs)
    agents: dict[str, Agent] = {}
    for some in (kept, specs):
        agents |= {agent.name: agent for agent in parse_agents(some, chosen)} if some else {}
        chosen = next(iter(agents.values())).game if agents else chosen
    if len(agents) < 2:
        raise UserError(
            f"{len(agents)} of at least two players: expected more,"
            " as in zerolab tournament runs/demo random mcts:100"
        )
    return list(agents.values())


def _require_programs_named(kept: Sequence[str], specs: Sequence[str]) -> None:
    """Refuse to run a program only because a folder, perhaps a stranger's, names it."""
    for name in kept:
        if name.startswith("gtp:") and name not in specs:
            raise UserError(
                f"the folder names the program {name}: expected it on the command line, too, before"
                f" it is run, as in zerolab tournament '{name}' --folder FOLDER"
            )


def _default_folder(settings: TournamentSettings) -> Path:
    """Return a folder that the same command finds again."""
    fields: dict[str, Any] = settings.model_dump()
    fields["players"] = sorted(fields["players"].items())
    mark = digest(json_format.dumps(fields, sort_keys=True).encode())[:8]
    return _FOLDERS / f"{settings.game.replace(':', '-')}-{mark}"


def _play(folder: Path, settings: TournamentSettings, agents: Sequence[Agent]) -> TournamentReport:
    """Play what is left, and write the results."""
    import torch

    torch.set_num_threads(1)  # each thread that plays has a core of its own
    again = f"zerolab tournament --folder {folder}"
    with resumable("finished games are stored", again), Tournament.locked(folder, settings) as held:
        if total := held.games_left():
            with progress_bar(str(folder), total, "games") as update:
                held.play(agents[0].game, agents, lambda done: update(done, ""))
        standings = TournamentReport.of(held)
        standings.save()
    return standings


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments and play."""
    call(tournament, "tournament", arguments)
