"""Interfaces of agents and their players, and the options in their specs.

A spec such as ``mcts:100`` names an agent. An agent creates one player per thread, and each player
can play many games in parallel. To add a kind of agent, add a file to this package and import it in
`agents.specs`, or register a module from another package as a plug-in entry point (see
`core.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from zerolab.core.config import Settings, VariantSettings, validate
from zerolab.core.errors import UserError, quoted
from zerolab.core.nested_tables import assign, parse_assignments, selection_path
from zerolab.core.registry import Registry
from zerolab.networks.network_settings import NetworkSettings
from zerolab.networks.objectives import missing_output_message
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluation, Evaluator, ExtraOutput
from zerolab.search.search_settings import SearchSettings

FORFEIT_ACTION = -1
"""Value returned in place of an action to forfeit the game, for example if a program crashed."""

Slots = NDArray[np.int64]
"""int64[n]: game slots of a player, one per game."""
Actions = NDArray[np.int64]
"""int64[n]: one action per game slot."""


class Player(Protocol):
    """Player that chooses moves in a batch of games, each in a separate slot.

    Callers must report every move with `advance`, including opening moves, the player's own moves
    and the opponent's. Slots are independent, and their games can be at different plies.
    """

    name: str

    def start(self, games: int) -> None:
        """Drop all games and begin `games` new ones in slots 0 to `games` - 1."""
        ...

    def reset(self, slots: Slots) -> None:
        """Begin new games from the start position in the given slots."""
        ...

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """Return legal actions, or `FORFEIT_ACTION`, for ongoing states uint64[n, words].

        `keys` uint64[n] are random streams, unique to each game, ply and match.
        """
        ...

    def advance(self, slots: Slots, actions: Actions) -> None:
        """Apply the moves just played in the given slots."""
        ...


@runtime_checkable
class AsyncPlayer(Player, Protocol):
    """Player that accepts new positions while others are still being searched.

    This keeps network batches large and allows a thread to stop between batches. A submitted slot
    must not be submitted again before its move is decided.
    """

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """Begin searching for moves in the given slots; see `choose` for the arguments."""
        ...

    def step(self) -> tuple[Slots, Actions]:
        """Run one search step; return the slots with a decision and their actions."""
        ...


@runtime_checkable
class SharedBatchPlayer(AsyncPlayer, Protocol):
    """Asynchronous player whose leaves can be evaluated by the caller.

    This allows several players with the same evaluator to share batches: the caller collects the
    leaves of all players, evaluates them in one batch, and distributes the evaluations. `step`
    combines `select_leaves` and `expand_and_backup`, with an evaluation in between.
    """

    evaluator: Evaluator
    extra_outputs: frozenset[ExtraOutput]
    """Required outputs in addition to priors and values; see `search.evaluator.evaluate`."""

    def select_leaves(self) -> NDArray[np.uint64]:
        """Begin a step; return the states to evaluate, uint64[n, words], n >= 0."""
        ...

    def expand_and_backup(self, evaluation: Evaluation) -> tuple[Slots, Actions]:
        """End a step with the evaluations of the selected leaves; see `step` for the result."""
        ...


@runtime_checkable
class PerGamePlayer(Player, Protocol):
    """Player whose settings differ between games, such as a league player."""

    def assign_games(self, slots: Slots, game_numbers: NDArray[np.int64]) -> None:
        """Assign the games with the given numbers, int64[n], to slots; called before `reset`."""
        ...


@runtime_checkable
class CustomStartPlayer(Player, Protocol):
    """Player whose games can start from any position."""

    def reset_to_states(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """Begin new games from ongoing states uint64[n, words] in the given slots."""
        ...


@runtime_checkable
class ProgramPlayer(Protocol):
    """Player that runs an external program."""

    def interrupt(self) -> None:
        """Terminate the program and any call that waits for it; called from another thread."""
        ...

    def close(self) -> None:
        """Terminate the program; called when the player's games are finished."""
        ...


class StatelessPlayer:
    """Base class of players that use only the current position."""

    def start(self, games: int) -> None:
        """Do nothing, because no game data is stored."""

    def reset(self, slots: Slots) -> None:
        """Do nothing, because no game data is stored."""

    def reset_to_states(self, slots: Slots, states: NDArray[np.uint64]) -> None:
        """Do nothing, because no game data is stored."""

    def advance(self, slots: Slots, actions: Actions) -> None:
        """Do nothing, because no game data is stored."""


@dataclass(frozen=True)
class Agent:
    """An agent as named by a spec; `new_player` creates a player for one thread.

    Players of the same agent play alike and can share read-only data, such as a network. Agents are
    equal if their names, games and identities are equal. Pickling stores only the names of the
    agent and the game (see `specs`), and unpickling parses them again. The name must therefore be a
    valid spec, and relative paths in it must refer to the same folder in the other process. Agents
    from `specs.portable_agent` carry their network instead.
    """

    name: str
    """Canonical spec, from which `specs.parse_agent` creates an equal agent."""
    new_player: Callable[[], Player] = field(compare=False, repr=False)
    bytes_per_game: int = field(default=0, compare=False)
    """Approximate memory in bytes that a player uses per game slot."""
    bytes_per_player: int = field(default=0, compare=False)
    """Memory per player in bytes, not counting game slots, such as cached evaluations."""
    search_settings: Settings | None = field(default=None, compare=False, repr=False)
    """Resolved search settings, or None if the agent does not search. The web server checks them
    against its limits."""
    max_games_per_player: int = field(default=1 << 30, compare=False)
    """Maximum number of games in progress per player."""
    game: Game = None
    identity: str = ""
    """Identifier that is equal for equal agents and differs between networks with the same name but
    different weights."""
    load_evaluator: Callable[[], Evaluator] | None = field(default=None, compare=False, repr=False)
    """Function that loads the network, or None if there is none."""
    network_settings: NetworkSettings | None = field(default=None, compare=False, repr=False)
    """Network settings, or None if there is no network."""
    is_stochastic: bool = field(default=True, compare=False)
    """False if at most ties between best moves are random, so that most games without openings
    repeat. True if more is random, such as sampled moves, playouts or ties within a search."""
    rebuild: Callable[[], Agent] | None = field(default=None, compare=False, repr=False)
    """Picklable function that creates the agent in another process, if its name is not enough."""


ExternalAccess = Literal["nothing", "path", "program"]


class AgentKind:
    """A kind of agent, registered under the first word of its specs.

    `argument` is the part of a spec after the name and colon, or the whole spec if `recognises`
    accepts it.
    """

    spec_form: str
    """Form of specs of this kind for help texts, such as ``mcts:N``."""
    external_access: ExternalAccess = "nothing"
    """External resource that the agents use: nothing, the file or folder named by the argument, or
    a program. Requests from web pages must not name programs, and can name only paths that the
    server offers."""

    def recognises(self, spec: str) -> bool:
        """Return whether a spec that names no kind, such as a path, is of this kind."""
        return False

    def known_specs(self) -> Sequence[str]:
        """Return specs of existing agents, without options, as suggestions for misspelt specs."""
        return ()

    def fixed_game(self, argument: str) -> Game | None:
        """Return the only game that the agent can play, or None if it can play any game.

        Raises UserError if the run or file that `argument` names is missing or damaged.
        """
        return None

    def new_agent(self, argument: str, game: Game) -> Agent:
        """Return the agent; raise UserError for any error in `argument`."""
        raise NotImplementedError


AGENT_KINDS: Registry[AgentKind] = Registry("kind of agent")


class SearchOptions(SearchSettings):
    """Options of an agent that searches."""

    temperature_plies: int = Field(default=0, ge=0)
    """Number of initial plies whose moves are sampled, for variety, in proportion to visit counts,
    or to the root rule's own weights if it defines any; afterwards, the move with the highest
    weight is played. Proven losses are avoided, and the quickest known win is chosen."""

    @property
    def search_settings(self) -> SearchSettings:
        """Search settings, without the other options of the agent."""
        return SearchSettings.model_validate(self.model_dump(exclude={"temperature_plies"}))


class NetworkOptions(SearchOptions):
    """Options of an agent with a network; with 0 simulations, it plays by the policy alone."""

    simulations: int = Field(default=100, ge=0, le=1_000_000)


_Settings = TypeVar("_Settings", bound=Settings)
_Options = TypeVar("_Options", bound=SearchOptions)


def split_options(argument: str) -> tuple[str, str | None]:
    """Split ``100?a=1`` at the question mark; without a question mark, the options are None."""
    head, mark, options = argument.partition("?")
    return head, options if mark else None


def reject_options(argument: str, name: str) -> None:
    """Raise UserError if the spec of an agent without options has an argument."""
    if argument:
        raise UserError(f"expected {name} alone: it has no options")


def parse_options(model: type[_Settings], text: str | None, base: Settings) -> _Settings:
    """Return `base` with the changes ``a.b=c&d=e``; raise UserError for invalid options.

    `model` must have all fields of `base` and can have more. `base` itself is not validated.
    """
    return _updated(model, base, _assignments(model, text))


def parse_search_options(model: type[_Options], text: str | None, base: SearchSettings) -> _Options:
    """Return search settings changed by options; see `parse_options`."""
    assignments = _assignments(model, text)
    for path, _ in assignments:
        if path[0] == "noise":
            raise UserError(f"{'.'.join(path)}: noise is for self-play, not for agents")
    options = _updated(model, base, assignments)
    if options.simulations == 0:
        _check_without_search(options, base)
    return options


def require_network_outputs(search: SearchSettings, network: NetworkSettings) -> None:
    """Raise UserError if a search needs an output that no head of the network provides."""
    reasons = {
        "draws": f"draw_value = {search.draw_value}",
        "action_values": f"fpu = {quoted(search.fpu.name)}",
    }
    for output in sorted(search.extra_outputs):
        if not any(output in head.evaluator_outputs for head in network.heads):
            raise UserError(f"{reasons[output]}: {missing_output_message(output, network.heads)}")


def _assignments(model: type[Settings], text: str | None) -> list[tuple[list[str], Any]]:
    if text is None:
        return []
    parts = text.split("&")
    if invalid := [part for part in parts if "=" not in part]:
        name, field = next(iter(model.model_fields.items()))
        example = f"?{name}={field.default}"
        raise UserError(f'"{invalid[0]}": expected KEY=VALUE after ?, as in {example}')
    assignments = parse_assignments(parts)
    keys = [".".join(selection_path(path)) for path, _ in assignments]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        raise UserError(f"{repeated[0]} is given twice: expected one value")
    return assignments


def _updated(
    model: type[_Settings], base: Settings, assignments: Sequence[tuple[list[str], Any]]
) -> _Settings:
    data = base.model_dump()
    for path, value in assignments:
        assign(data, path, value)
    return validate(model, data)


def _check_without_search(options: SearchOptions, base: SearchSettings) -> None:
    ineffective = [
        key
        for key in _changed_options(options, base)
        if key not in ("simulations", "temperature_plies")
    ]
    if ineffective:
        raise UserError(f"{ineffective[0]} has no effect without a search: simulations is 0")


def options_text(options: Settings, base: Settings) -> str:
    """Return the options that differ from `base` as ``?a=1&b=2``, sorted by key; "" if none do."""
    texts = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in _changed_options(options, base).items()
    ]
    return "?" + "&".join(texts) if texts else ""


def _changed_options(options: Settings, base: Settings) -> dict[str, Any]:
    """Return the options whose assignment to `base` gives `options`, sorted by key."""
    return dict(sorted(_changes(options, base)))


def _changes(options: Settings, base: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the options that differ from `base`; options that it lacks differ from their defaults.

    Selecting a variant resets its other keys, so they are compared with the variant's defaults.
    """
    values = options.model_dump()
    for name, option in type(options).model_fields.items():
        value, former = getattr(options, name), getattr(base, name, option.default)
        key = prefix + name
        if not isinstance(value, Settings):
            if value is not None and value != former:
                yield key, values[name]
            continue
        if isinstance(value, VariantSettings) and _must_select(value, former):
            # Assigning the same name to KEY.name would keep the variant's keys.
            is_same = value.name == getattr(former, "name", "")
            yield (key if is_same else f"{key}.name"), value.name
            former = None
        yield from _changes(value, former, f"{key}.")


def _must_select(variant: VariantSettings, former: object) -> bool:
    """Return whether only selecting `variant` can change `former` into it.

    This also holds for the same variant with a key that is no longer set.
    """
    return variant.name != getattr(former, "name", "") or any(
        getattr(variant, key) is None and getattr(former, key, None) is not None
        for key in type(variant).model_fields
    )


def check_program_starts(agent: Agent) -> None:
    """Start and stop the program of an agent; raise UserError if it cannot play the game."""
    player = agent.new_player()
    try:
        player.start(1)
    finally:
        close_player(player)


def close_player(player: Player) -> None:
    """Terminate the external program of a player, if it runs one."""
    if isinstance(player, ProgramPlayer):
        player.close()
