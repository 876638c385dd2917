"""Parsing of agent specs.

A spec is ``random``, ``mcts:100``, ``rave:100``, ``rhea:100``, ``perfect``, ``gtp:"COMMAND"`` or a
run: ``runs/demo`` is the run's best network and ``runs/demo@12`` its network of iteration 12.
Options follow a question mark: ``runs/demo?simulations=400&selection.c=2`` changes the search,
``?temperature_plies=4`` samples the first moves in proportion to visits, and ``?simulations=0``
plays the policy without search. ``agent.zerolab`` is an agent in a file, and ``connect-four`` is an
agent shipped with this package; both accept the same options as a run. ``random #2`` is a second
``random`` agent.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from zerolab.agents.agent import AGENT_KINDS, Agent, AgentKind, split_options
from zerolab.agents.network_players import NetworkPlayerFactory
from zerolab.core.errors import UserError, did_you_mean, quoted
from zerolab.core.registry import load_plugins
from zerolab.rules.catalogue import game_name, parse_game
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator
from zerolab.store.run_folder import is_run

import_module("zerolab.agents.baselines")
import_module("zerolab.agents.file_agents")
import_module("zerolab.agents.run_agents")
load_plugins("agents")

_MAX_ORDINAL_DIGITS = 9
GAME_OPTION_EXAMPLE = "--game, as in --game othello:6x6"
_ORDINAL = " #"
_HEAD = re.compile(r"(\w+)(:|(?=\?)|$)")


class _Spec(NamedTuple):
    text: str
    kind: AgentKind
    argument: str
    ordinal: int | None
    """Number after #, if any."""


def spec_forms() -> str:
    """Return the forms of all specs other than runs, for help texts and error messages."""
    return ", ".join(kind.spec_form for name, kind in AGENT_KINDS.items() if name != "run")


def parse_agent(spec: str, game: Game | None = None) -> Agent:
    """Return the agent named by a spec; see `parse_agents`."""
    return parse_agents([spec], game)[0]


def parse_agents(
    specs: Sequence[str], game: Game | None = None, *, game_example: str = GAME_OPTION_EXAMPLE
) -> list[Agent]:
    """Return the agents named by specs, all for the same game, with unique names.

    A run or an agent file determines the game. If no agent does, `game` is required, and the error
    message suggests `game_example`. Repeated agents are named "NAME", "NAME #2" and so on. Raises
    UserError for invalid specs.
    """
    parsed = [_parse(spec.strip()) for spec in specs]
    common = _common_game(parsed, game, game_example)
    return with_unique_names([_new_agent(each, common) for each in parsed])


def fixed_game(spec: str) -> Game | None:
    """Return the game that a spec determines, or None if its agent can play any game."""
    parsed = _parse(spec.strip())
    return parsed.kind.fixed_game(parsed.argument)


def named_path(spec: str) -> str | None:
    """Return the file or folder named by a spec, whether or not it exists; None for other specs.

    Raises UserError for a spec that runs a program.
    """
    if is_program_spec(spec):
        raise UserError(f"{quoted(spec)} runs a program: expected a different kind of agent")
    kind, argument = _kind_by_name(spec)
    if kind is None and (parsed := _recognised(argument)):
        kind = parsed.kind
    is_path = kind is None or kind.external_access == "path"
    return split_options(argument)[0] if is_path else None


def is_program_spec(spec: str) -> bool:
    """Return whether the agent named by a spec runs a program with the user's permissions."""
    kind, _ = _kind_by_name(spec)
    return kind is not None and kind.external_access == "program"


def require_public_agent(spec: str) -> None:
    """Raise UserError for programs, runs and files, which are available only to their owner."""
    if is_program_spec(spec) or named_path(spec) is not None:
        raise UserError(
            f"{quoted(spec)}: expected an agent available to everyone, such as mcts:1000"
        )


def _kind_by_name(spec: str) -> tuple[AgentKind | None, str]:
    """Return the kind and argument in a spec; for a path, return None and the whole spec."""
    text, _ = _without_ordinal(spec.strip())
    head = _HEAD.match(text)
    if not head or head[1] not in AGENT_KINDS:
        return None, text
    return AGENT_KINDS[head[1]], text[head.end() :]


def with_option(spec: str, key: str, value: object) -> str:
    """Return a spec with an option added or replaced; its number after # stays at the end."""
    text, ordinal = _without_ordinal(spec.strip())
    head, options = split_options(text)
    others = [each for each in (options or "").split("&") if each and each.split("=")[0] != key]
    suffix = f"{_ORDINAL}{ordinal}" if ordinal else ""
    return f"{head}?{'&'.join([*others, f'{key}={value}'])}{suffix}"


def is_agent_spec(spec: str) -> bool:
    """Return whether a spec names an agent, even one that is damaged or has invalid options."""
    return _recognised(spec.strip()) is not None


def agent_kind_and_argument(spec: str) -> tuple[AgentKind, str]:
    """Return the kind of agent and the argument in a spec."""
    parsed = _parse(spec.strip())
    return parsed.kind, parsed.argument


def agent_by_name(name: str, game: str) -> Agent:
    """Return the agent with the canonical name `name`, for the game named `game`."""
    return parse_agent(name, parse_game(game))


def _pickled(agent: Agent) -> tuple[Callable[..., Agent], tuple[str, ...]]:
    """Return the function that rebuilds an agent, and its arguments."""
    if agent.rebuild is not None:
        return agent.rebuild, ()
    return agent_by_name, (agent.name, game_name(agent.game))


copyreg.pickle(Agent, _pickled)


def is_portable(agent: Agent) -> bool:
    """Return whether an agent can play on machines that lack its files and programs."""
    if agent.load_evaluator is not None:
        return isinstance(agent.new_player, NetworkPlayerFactory)
    return agent_kind_and_argument(agent.name)[0].external_access == "nothing"


def portable_agent(
    agent: Agent, make_portable: Callable[[Evaluator], Callable[[], Evaluator]]
) -> Agent:
    """Return the agent in a form that can be pickled together with its network, if it has one.

    `make_portable` makes the network picklable. `is_portable` must be true for the agent.
    """
    players = agent.new_player
    if not isinstance(players, NetworkPlayerFactory):
        return agent
    players = replace(players, load_evaluator=make_portable(players.load_evaluator()))
    return replace(agent, rebuild=partial(_agent_of_players, agent.name, players))


def _agent_of_players(name: str, players: NetworkPlayerFactory) -> Agent:
    return Agent(name, players, game=players.game, load_evaluator=players.load_evaluator)


def with_unique_names(agents: Sequence[Agent]) -> list[Agent]:
    """Return the agents, with repeated names numbered: "NAME", "NAME #2", "NAME #3" and so on."""
    used_names: set[str] = set()
    renamed = []
    for agent in agents:
        name, (plain, number) = agent.name, _without_ordinal(agent.name)
        while name in used_names or (number and not _without_ordinal(name)[1]):
            number = (number or 1) + 1
            name = f"{plain}{_ORDINAL}{number}"
        used_names.add(name)
        renamed.append(replace(agent, name=name))
    return renamed


def _recognised(text: str) -> _Spec | None:
    """Return the parts of a spec, or None if no kind matches."""
    text, ordinal = _without_ordinal(text)
    head = _HEAD.match(text)
    if head and head[1] in AGENT_KINDS:
        return _Spec(text, AGENT_KINDS[head[1]], text[head.end() :], ordinal)
    return next(
        (
            _Spec(text, kind, text, ordinal)
            for kind in AGENT_KINDS.values()
            if kind.recognises(text)
        ),
        None,
    )


def _parse(text: str) -> _Spec:
    if parsed := _recognised(text):
        return parsed
    text, _ = _without_ordinal(text)
    known = [name for name in AGENT_KINDS if name != "run"]
    known += [spec for kind in AGENT_KINDS.values() for spec in kind.known_specs()]
    head = split_options(text)[0]
    hint = did_you_mean(head.partition(":")[0], known) or did_you_mean(head, known)
    raise UserError(
        f'"{text}" is neither a run nor one of {spec_forms()}{hint or "; see zerolab runs"}'
    )


def _without_ordinal(text: str) -> tuple[str, int | None]:
    """Split "random #2" into its spec and its number; the name of a run's folder is not split."""
    spec, mark, number = text.rpartition(_ORDINAL)
    if not (mark and number.isdecimal() and len(number) <= _MAX_ORDINAL_DIGITS and int(number) > 1):
        return text, None
    with suppress(UserError):  # not a possible folder name
        if is_run(Path(text)):
            return text, None
    return spec, int(number)


def _common_game(specs: Sequence[_Spec], game: Game | None, game_example: str) -> Game:
    """Return the common game of all agents; raise UserError if games differ or none is known."""
    common, source = game, "the requested game is"
    for each in specs:
        own = each.kind.fixed_game(each.argument)
        if own is None:
            continue
        if common is not None and game_name(own) != game_name(common):
            raise UserError(
                f"{each.text} plays {game_name(own)}, but {source} {game_name(common)}:"
                " expected agents for the same game"
            )
        if common is None:
            common, source = own, f"{each.text} plays"
    if common is None:
        problem = f"{specs[0].text} can play any game" if specs else "no agent determines the game"
        raise UserError(f"{problem}: expected {game_example}")
    return common


def _new_agent(spec: _Spec, game: Game) -> Agent:
    try:
        agent = spec.kind.new_agent(spec.argument, game)
    except UserError as error:
        lines = str(error).splitlines()
        prefixed = (line if spec.text in line else f"{spec.text}: {line}" for line in lines)
        raise UserError("\n".join(prefixed)) from error
    if spec.ordinal is None:
        return agent
    return replace(agent, name=f"{agent.name}{_ORDINAL}{spec.ordinal}")
