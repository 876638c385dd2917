"""From what a user asks for to the settings of a league, and the network that it plays with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from zerolab.agents.specs import parse_agent
from zerolab.core.config import assign, parse_assignments, validate
from zerolab.core.errors import UserError, quoted
from zerolab.league.settings import LeagueSettings
from zerolab.rules import interface as rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.interface import Game
from zerolab.search.interface import Evaluator, UniformEvaluator

_OPTIONS = {
    "game": "GAME", "seed": "--seed", "network": "--agent", "identity": "--agent"
}  # fmt: skip
"""Settings that are given otherwise than by --set."""


class LeagueNetwork(NamedTuple):
    """What all players of a league search with."""

    evaluator: Callable[[], Evaluator]
    """Loads the network."""
    name: str = ""
    """``runs/demo@12``; empty without a network."""
    identity: str = ""
    """That of the weights."""
    settings: dict[str, Any] | None = None
    """Those of the network."""
    says_draws: bool = False
    """Whether one of its heads says how likely draws are."""


def find_network(spec: str | None, game: Game) -> LeagueNetwork:
    """Return the network of a run that `spec` names, or equal priors where it is None.

    Raises UserError for agents without a network, for search options, which are the league's, and
    for networks of other games.
    """
    if spec is None:
        return LeagueNetwork(lambda: UniformEvaluator(rules.actions(game)))
    agent = parse_agent(spec, game)
    if agent.evaluator is None or agent.network is None:
        raise UserError(f"{agent.name} has no network: expected a run such as runs/demo@12")
    if "?" in agent.name:
        raise UserError(
            f"{agent.name}: the searches of a league are its own; expected a run such as"
            " runs/demo@12, and --set search.KEY=VALUE"
        )
    says_draws = any("draws" in head.answers for head in agent.network.heads)
    return LeagueNetwork(
        agent.evaluator, agent.name, agent.identity, agent.network.model_dump(), says_draws
    )


def resolve(
    game: Game, network: LeagueNetwork, seed: int, assignments: Sequence[str]
) -> LeagueSettings:
    """Return the settings of a league; raise UserError for every mistake.

    Without a network, leaves are played out unless assignments say otherwise. The draw value is
    among the parameters where the network says how likely draws are.
    """
    default = LeagueSettings(game=game_name(game))
    data = default.model_dump(include={"search", "clock", "ranges"})
    data |= {"game": game_name(game), "seed": seed}
    data |= {"network": network.name, "identity": network.identity}
    if network.says_draws:
        data["parameters"] = [*default.parameters, "draw_value"]
    if not network.name:
        data["search"]["leaf_evaluator"] = {"name": "playout"}
    for path, value in parse_assignments(assignments):
        if path[0] in _OPTIONS:
            raise UserError(f"{path[0]} has an option of its own: expected {_OPTIONS[path[0]]}")
        assign(data, path, value)
    settings = validate(LeagueSettings, data)
    if "draws" in settings.wanted and not network.says_draws:
        owner = network.name or "a search without a network"
        asked = quoted("draw_value")
        raise UserError(
            f"parameters = {asked}: {owner} does not know how likely draws are; expected a network"
            ' with the head "outcome"'
        )
    return settings
