"""Players that pages may name: none that runs a program, none from outside the folders served."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from zerolab.agents.interface import Agent
from zerolab.agents.options import split_options
from zerolab.agents.specs import named_path, parse_agent
from zerolab.core.errors import UserError, quoted
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator, playouts
from zerolab.search.rhea import RheaSettings
from zerolab.search.settings import SearchSettings
from zerolab.web.folders import Folders

MOST_SIMULATIONS = 100_000
"""Per move or analysis; a simulation of a large game takes some kilobytes."""
_MOST_BYTES = 512 << 20
"""Of one search."""
_MOST_CACHE = 1 << 20
_MOST_LEAVES = 256
_MOST_PLAYOUTS_OF_LEAF = 1000
_MOST_PLAYOUTS = 20_000
"""Of one step, which takes a second then in a large game; others wait for it."""
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
    of the game or one that pages may not name, and for settings that pages may not ask for, whether
    the spec, a run or a file says them.
    """
    path = named_path(spec)
    if path is not None and not _is_misspelt(path):
        folders.confined_network(path)
    agent = parse_agent(spec, game)
    if simulations is not None and agent.slot_bytes:
        agent = parse_agent(with_simulations(spec, simulations), game)
    _require_modest(agent)
    if bytes_of(agent) > _MOST_BYTES:
        raise UserError(
            f"{agent.name} needs {bytes_of(agent) >> 20:,} MiB to search: expected fewer"
            f" simulations or a smaller cache, so that {_MOST_BYTES >> 20} suffice"
        )
    return agent


def bytes_of(agent: Agent) -> int:
    """Return about how much memory a search of one position by an agent takes."""
    return agent.slot_bytes + agent.kept_bytes


def _require_modest(agent: Agent) -> None:
    """Raise UserError for settings that make a search, or one step of it, long or large."""
    settings = agent.settings
    if isinstance(settings, RheaSettings):
        _require_most(agent, "playouts", settings.playouts, _MOST_PLAYOUTS)
    if not isinstance(settings, SearchSettings):
        return
    each = playouts(settings.leaf_evaluator.build())
    _require_most(agent, "simulations", settings.simulations, MOST_SIMULATIONS)
    _require_most(agent, "cache", settings.cache, _MOST_CACHE)
    _require_most(agent, "leaf_evaluator.playouts", each, _MOST_PLAYOUTS_OF_LEAF)
    most = min(_MOST_LEAVES, _MOST_PLAYOUTS // max(1, each))
    _require_most(agent, "leaves_per_step", settings.leaves_per_step, most)


def _require_most(agent: Agent, key: str, value: int, most: int) -> None:
    if value > most:
        raise UserError(f"{agent.name}: {key} = {value}: expected at most {most:,} on a page")


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
