"""Players that pages may name: none that runs a program, none from outside the folders served."""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path
from typing import Any

from zerolab.agents.interface import Agent
from zerolab.agents.options import split_options
from zerolab.agents.specs import named_path, parse_agent
from zerolab.core.config import parse_assignments
from zerolab.core.errors import UserError, quoted
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator
from zerolab.web.folders import Folders

MOST_SIMULATIONS = 100_000
"""Per move or analysis; a simulation of a large game takes some kilobytes."""
_MOST_BYTES = 512 << 20
"""Of the tree of one search."""
_MOST_OF = {"cache": 1 << 20, "leaf_evaluator.playouts": 1000, "playouts": 20_000, "rhea": 20_000}
"""Options, and playouts of a kind of agent, with the most that pages may ask for."""
_MOST_NETWORKS = 8


class Players:
    """Finds players; the networks of those found last stay loaded between two requests.

    Agents share an evaluator as long as somebody holds it, and load it again otherwise.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[str, Evaluator] = OrderedDict()

    def find(
        self, spec: str, game: Game, folders: Folders, simulations: int | None = None
    ) -> Agent:
        """Return the agent that a page names, with its network loaded; see `find_player`."""
        agent = find_player(spec, game, folders, simulations)
        if agent.evaluator is not None:
            self._held[agent.identity] = agent.evaluator()
            self._held.move_to_end(agent.identity)
            if len(self._held) > _MOST_NETWORKS:
                self._held.popitem(last=False)
        return agent


def find_player(spec: str, game: Game, folders: Folders, simulations: int | None = None) -> Agent:
    """Return the agent that a page names, of a game.

    With `simulations`, an agent that searches gets so many. Raises UserError for what is no agent
    of the game or one that pages may not name.
    """
    path = named_path(spec)
    if path is not None and not _is_misspelt(path):
        folders.confined_network(path)
    _require_modest(spec)
    agent = parse_agent(spec, game)
    if simulations is not None and agent.slot_bytes:
        agent = parse_agent(with_simulations(spec, simulations), game)
    if agent.slot_bytes > _MOST_BYTES:
        raise UserError(
            f"{agent.name} needs {agent.slot_bytes >> 20:,} MiB to search: expected fewer"
            f" simulations, so that {_MOST_BYTES >> 20} suffice"
        )
    return agent


def _require_modest(spec: str) -> None:
    """Raise UserError for options that would make one step of a search very long."""
    head, options = split_options(spec)
    asked = {".".join(path): value for path, value in _assignments(options)}
    kind, _, number = head.strip().partition(":")
    if digits := re.match(r"\d{1,30}", number):
        asked[kind] = int(digits[0])
    for key, value in asked.items():
        most = _MOST_OF.get(key)
        if most is not None and _number(value) > most:
            raise UserError(f"{key} = {quoted(value)}: expected at most {most:,} on a page")


def _number(value: Any) -> float:
    """Return a number as settings would read it; 0 for what they refuse."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _assignments(options: str | None) -> list[tuple[list[str], Any]]:
    """Return options as they are read; none where they cannot be, which others say better."""
    try:
        return parse_assignments(options.split("&")) if options else []
    except UserError:
        return []


def _is_misspelt(path: str) -> bool:
    """Return whether a text is no path but meant to be the name of an agent, such as mtcs:100."""
    if "/" in path:
        return False
    try:
        return not Path(path).exists()
    except OSError:  # no file can have such a name
        return True


def with_simulations(spec: str, simulations: int) -> str:
    """Return a spec with another number of simulations; raise UserError for too many of them."""
    if not 1 <= simulations <= MOST_SIMULATIONS:
        raise UserError(
            f"simulations = {quoted(simulations)}: expected from 1 to {MOST_SIMULATIONS:,}"
        )
    head, options = split_options(spec)
    given = options.split("&") if options else []
    kept = [each for each in given if not each.startswith("simulations=")]
    return f"{head}?{'&'.join([*kept, f'simulations={simulations}'])}"
