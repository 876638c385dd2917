"""Agents without a network: ``random``, ``mcts:N``, ``rave:N``, ``rhea:N`` and ``perfect``."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import (
    AGENT_KINDS,
    Actions,
    Agent,
    AgentKind,
    SearchOptions,
    Slots,
    StatelessPlayer,
    options_text,
    parse_options,
    parse_search_options,
    reject_options,
    split_options,
)
from zerolab.agents.network_players import SearchPlayer, tree_bytes
from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.core.errors import UserError
from zerolab.oracles.oracle import NotSolvedError, Oracle
from zerolab.oracles.solver import SolverBudget, oracle_for
from zerolab.rules import rules
from zerolab.rules.catalogue import game_name
from zerolab.rules.rules import Game
from zerolab.search.evaluator import UniformEvaluator
from zerolab.search.rhea import RheaSettings, rhea_actions
from zerolab.search.roots import choose_actions
from zerolab.search.search_settings import SearchSettings, mcts_settings, rave_settings


@kernel
def _random_actions(game, states, keys, chosen):
    for i in range(states.shape[0]):
        chosen[i] = rules.random_action(game, states[i], streams.random_bits(keys[i], 0))


class RandomPlayer(StatelessPlayer):
    """Player that chooses uniformly random legal actions."""

    def __init__(self, game: Game, name: str = "random") -> None:
        self.name = name
        self._game = game

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        chosen = np.empty(len(slots), np.int64)
        _random_actions(self._game, states, keys, chosen)
        return chosen


class _Random(AgentKind):
    """Uniformly random moves."""

    spec_form = "random"

    def new_agent(self, argument: str, game: Game) -> Agent:
        reject_options(argument, "random")
        return Agent("random", lambda: RandomPlayer(game), game=game, identity="random")


AGENT_KINDS.add("random", _Random())

_MAX_PLAYOUTS = 1_000_000


class PlayoutSearchKind(AgentKind):
    """Tree search with N random playouts per move, without a network.

    `settings` returns the search settings for N.
    """

    def __init__(self, name: str, settings: Callable[[int], SearchSettings]) -> None:
        self.spec_form = f"{name}:N"
        self._name = name
        self._settings = settings

    def new_agent(self, argument: str, game: Game) -> Agent:
        count_text, text = split_options(argument)
        base = self._settings(parse_playout_count(self._name, count_text))
        options = parse_search_options(SearchOptions, text, base)
        if options.leaf_evaluator.name == "network":
            raise UserError(
                f'leaf_evaluator = "network": {self._name} has no network;'
                " expected leaf_evaluator=playout"
            )
        if options.extra_outputs:
            raise UserError(
                f'fpu = "{options.fpu.name}": {self._name} has no network with action values;'
                " expected another rule, such as fpu=zero"
            )
        # ?simulations=N is an alternative form with the same canonical name.
        plain = self._settings(options.simulations)
        name = f"{self._name}:{options.simulations}{options_text(options, plain)}"

        def new_player() -> SearchPlayer:
            uniform = UniformEvaluator(rules.action_count(game))
            return SearchPlayer(
                game, name, options.search_settings, uniform, options.temperature_plies
            )

        memory = tree_bytes(game, options.search_settings)
        return Agent(name, new_player, memory, search_settings=options, game=game, identity=name)


def parse_playout_count(name: str, count_text: str) -> int:
    """Return N in ``NAME:N``; raise UserError for any other text."""
    playouts = (
        int(count_text)
        if count_text.isdecimal() and len(count_text) <= len(str(_MAX_PLAYOUTS))
        else 0
    )
    if not 1 <= playouts <= _MAX_PLAYOUTS:
        raise UserError(
            f'"{name}:{count_text}": expected a number of playouts from 1 to {_MAX_PLAYOUTS},'
            f" as in {name}:100"
        )
    return playouts


AGENT_KINDS.add("mcts", PlayoutSearchKind("mcts", mcts_settings))
AGENT_KINDS.add("rave", PlayoutSearchKind("rave", rave_settings))

_PLAYOUTS_PER_STEP = 50_000


class RheaPlayer(StatelessPlayer):
    """Player that replans at every move and plays the best plan's first action [Wang2021b, Ch. 5].

    The player is an `AsyncPlayer` so that it can be stopped between moves; the kernel that evolves
    plans cannot be interrupted.
    """

    def __init__(self, game: Game, name: str, settings: RheaSettings) -> None:
        self.name = name
        self._game = game
        self._settings = settings
        self.start(0)

    def start(self, games: int) -> None:
        self._slots = np.empty(0, np.int64)
        self._states = np.empty((0, rules.word_count(self._game)), np.uint64)
        self._keys = np.empty(0, np.uint64)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        return rhea_actions(self._game, self._settings, states, keys)

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        self._slots = np.concatenate([self._slots, slots])
        self._states = np.concatenate([self._states, states])
        self._keys = np.concatenate([self._keys, keys])

    def step(self) -> tuple[Slots, Actions]:
        """Decide a few moves, within a fraction of a second."""
        count = max(1, _PLAYOUTS_PER_STEP // self._settings.playouts)
        slots, self._slots = self._slots[:count], self._slots[count:]
        states, self._states = self._states[:count], self._states[count:]
        keys, self._keys = self._keys[:count], self._keys[count:]
        return slots, self.choose(slots, states, keys)


class _Rhea(AgentKind):
    """Rolling horizon evolution with N random playouts per move."""

    spec_form = "rhea:N"

    def new_agent(self, argument: str, game: Game) -> Agent:
        count_text, text = split_options(argument)
        base = _unchecked(parse_playout_count("rhea", count_text))
        options = parse_options(RheaSettings, text, base)
        # ?playouts=N is an alternative form with the same canonical name.
        name = f"rhea:{options.playouts}{options_text(options, _unchecked(options.playouts))}"
        return Agent(
            name,
            lambda: RheaPlayer(game, name, options),
            search_settings=options,
            game=game,
            identity=name,
        )


def _unchecked(playouts: int) -> RheaSettings:
    """Return default settings, even with too few playouts for the default population."""
    return RheaSettings.model_construct(playouts=playouts)


AGENT_KINDS.add("rhea", _Rhea())

PERFECT_IDENTITY = "perfect"
"""Identity of all agents of the kind ``perfect``, including ``perfect #2``."""

_SOLVER_BUDGET = SolverBudget(nodes=50_000_000)
"""Solver budget of about 20 seconds per position."""


class PerfectPlayer(StatelessPlayer):
    """Player that chooses a move with the highest exact value, breaking ties at random.

    `choose` raises NotSolvedError if the oracle exceeds its budget.
    """

    def __init__(self, oracle: Oracle, name: str = "perfect") -> None:
        self.name = name
        self.oracle = oracle

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        return self.choose_by_values(self.oracle.action_values(states), keys)

    def choose_by_values(self, values: NDArray[np.int32], keys: NDArray[np.uint64]) -> Actions:
        """Choose actions by the oracle's values, int32[n, actions]."""
        best = (values == values.max(axis=1, keepdims=True)).astype(np.int32)
        return choose_actions(best, keys, np.zeros(len(keys), np.bool_))


class _Perfect(AgentKind):
    """Best moves of the exact solver, with random tie-breaking."""

    spec_form = "perfect"

    def new_agent(self, argument: str, game: Game) -> Agent:
        reject_options(argument, "perfect")
        return perfect_agent(game, oracle_for(game, _SOLVER_BUDGET))


def perfect_agent(game: Game, oracle: Oracle) -> Agent:
    """Return an agent that plays an oracle's best moves; all its players share the oracle."""
    shared = _SharedOracle(game, oracle)
    return Agent("perfect", lambda: PerfectPlayer(shared), game=game, identity=PERFECT_IDENTITY)


class _SharedOracle(Oracle):
    """Oracle shared by the players of several threads, with a lock."""

    def __init__(self, game: Game, oracle: Oracle) -> None:
        self._game = game
        self._oracle = oracle
        self._lock = threading.Lock()

    def action_values(self, states: NDArray[np.uint64]) -> NDArray[np.int32]:
        try:
            with self._lock:
                return self._oracle.action_values(states)
        except NotSolvedError as error:
            raise NotSolvedError(
                f"{game_name(self._game)} is too hard for perfect play from this position"
                f" ({error}): expected a smaller board, or a later position, as after longer"
                " openings"
            ) from error


AGENT_KINDS.add("perfect", _Perfect())
