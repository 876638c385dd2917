"""Agents by their specs, the texts that name them.

A spec is one of ``random``, ``mcts:100``, ``rave:100``, ``rhea:100``, ``perfect`` and
``gtp:"COMMAND"``, or a run: ``runs/demo`` is its best network, ``runs/demo@12`` that of an
iteration. Options follow a question mark: ``runs/demo?simulations=400&selection.c=2`` changes the
search, ``?temperature_plies=4`` draws the first moves in proportion to the visits, and
``?simulations=0`` lets the policy play alone. ``agent.zerolab`` is an agent in a file, with the
same options. ``random #2`` is a second ``random`` beside the first one.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.agent import AGENT_KINDS, Agent, AgentKind
from zerolab.agents.options import split_options
from zerolab.core.errors import UserError, nearest, quoted
from zerolab.core.registry import import_modules, load_plugins
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.store.listing import find_runs

import_modules("zerolab.agents.kinds")
load_plugins("agents")

_RUNS = Path("runs")
_MAX_ORDINAL_DIGITS = 9
GAME_EXAMPLE = "--game, as in --game othello:6x6"
_ORDINAL = " #"
_HEAD = re.compile(r"(\w+)(:|(?=\?)|$)")


class _Spec(NamedTuple):
    text: str
    kind: AgentKind
    argument: str
    ordinal: int | None
    """The number after #, if one is given."""


def agent_forms() -> str:
    """Return the forms of specs other than runs, for help texts and messages."""
    return ", ".join(kind.form for name, kind in AGENT_KINDS.items() if name != "run")


def parse_agent(spec: str, game: Game | None = None) -> Agent:
    """Return the agent that a spec names; see `parse_agents`."""
    return parse_agents([spec], game)[0]


def parse_agents(
    specs: Sequence[str], game: Game | None = None, *, game_example: str = GAME_EXAMPLE
) -> list[Agent]:
    """Return the agents that specs name, all of one game, with different names.

    A run brings its game; where no agent brings one, `game` is needed, and the error asks for it
    with `game_example`. An agent that is named twice takes part twice, as "NAME" and "NAME #2".
    Raises UserError for every mistake.
    """
    found = [_find(spec.strip()) for spec in specs]
    chosen = _common_game(found, game, game_example)
    return with_different_names([_agent(each, chosen) for each in found])


def own_game(spec: str) -> Game | None:
    """Return the game that the agent of a spec brings with it, as runs do; None if it plays any."""
    found = _find(spec.strip())
    return found.kind.game(found.argument)


def named_path(spec: str) -> str | None:
    """Return the file or folder that a spec names, existing or not; None if it names none.

    Raises UserError for a spec that runs a program.
    """
    if runs_program(spec):
        raise UserError(f"{quoted(spec)} runs a program: expected an agent of another kind")
    kind, argument = _kind_by_name(spec)
    is_path = kind is None or kind.access == "path"
    return split_options(argument)[0] if is_path else None


def runs_program(spec: str) -> bool:
    """Return whether the agent of a spec runs a program, with all rights of the user."""
    kind, _ = _kind_by_name(spec)
    return kind is not None and kind.access == "program"


def _kind_by_name(spec: str) -> tuple[AgentKind | None, str]:
    """Return the kind that a spec begins with and its argument; for a path, None and all of it."""
    text, _ = _without_ordinal(spec.strip())
    head = _HEAD.match(text)
    if not head or head[1] not in AGENT_KINDS:
        return None, text
    return AGENT_KINDS[head[1]], text[head.end() :]


def kind_and_argument(spec: str) -> tuple[AgentKind, str]:
    """Return the kind of the agent that a spec names, and its argument."""
    found = _find(spec.strip())
    return found.kind, found.argument


def agent_of_game(name: str, game: str) -> Agent:
    """Return the agent of a canonical name for the game of a name."""
    return parse_agent(name, parse_game(game))


# An agent travels to another process as two names.
copyreg.pickle(Agent, lambda agent: (agent_of_game, (agent.name, game_name(agent.game))))


def with_different_names(agents: Sequence[Agent]) -> list[Agent]:
    """Return the agents, repeated names numbered: "NAME", "NAME #2", "NAME #3", ..."""
    taken: set[str] = set()
    different = []
    for agent in agents:
        name, (plain, number) = agent.name, _without_ordinal(agent.name)
        while name in taken:
            number = (number or 1) + 1
            name = f"{plain}{_ORDINAL}{number}"
        taken.add(name)
        different.append(replace(agent, name=name))
    return different


def _find(text: str) -> _Spec:
    text, ordinal = _without_ordinal(text)
    head = _HEAD.match(text)
    if head and head[1] in AGENT_KINDS:
        return _Spec(text, AGENT_KINDS[head[1]], text[head.end() :], ordinal)
    for kind in AGENT_KINDS.values():
        if kind.claims(text):
            return _Spec(text, kind, text, ordinal)
    known = [*(name for name in AGENT_KINDS if name != "run"), *_known_runs()]
    hint = nearest(text.partition(":")[0], known) or nearest(text, known)
    raise UserError(
        f'"{text}" is neither a run nor one of {agent_forms()}{hint or "; see zerolab runs"}'
    )


def _without_ordinal(text: str) -> tuple[str, int | None]:
    """Split "random #2" into the spec and the number."""
    spec, mark, number = text.rpartition(_ORDINAL)
    if mark and number.isdecimal() and len(number) <= _MAX_ORDINAL_DIGITS and int(number) > 1:
        return spec, int(number)
    return text, None


def _known_runs() -> list[str]:
    return [path.as_posix() for path in find_runs([_RUNS])] if _RUNS.is_dir() else []


def _common_game(found: Sequence[_Spec], game: Game | None, game_example: str) -> Game:
    """Return the common game of all agents; raise UserError where there are two or none."""
    chosen, other = game, "the game asked for is"
    for each in found:
        own = each.kind.game(each.argument)
        if own is None:
            continue
        if chosen is not None and game_name(own) != game_name(chosen):
            raise UserError(
                f"{each.text} plays {game_name(own)}, but {other} {game_name(chosen)}:"
                " expected agents of one game"
            )
        if chosen is None:
            chosen, other = own, f"{each.text} plays"
    if chosen is None:
        one = found[0].text if found else "no agent"
        raise UserError(f"{one} plays any game: expected {game_example}")
    return chosen


def _agent(spec: _Spec, game: Game) -> Agent:
    try:
        agent = spec.kind.agent(spec.argument, game)
    except UserError as error:
        lines = str(error).splitlines()
        named = (line if spec.text in line else f"{spec.text}: {line}" for line in lines)
        raise UserError("\n".join(named)) from error
    if spec.ordinal is None:
        return agent
    return replace(agent, name=f"{agent.name}{_ORDINAL}{spec.ordinal}")
