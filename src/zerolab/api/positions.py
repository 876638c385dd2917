"""Positions: exact values, network evaluations, analyses by agents, and files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import Agent, close_player
from zerolab.agents.analysis import Analysis, MoveAnalysis, replay_and_analyse, require_analysable
from zerolab.agents.network_players import prepare_for_one_game
from zerolab.agents.specs import fixed_game, parse_agent, parse_agents
from zerolab.core.errors import UserError, checked_whole_number, quoted, require_type
from zerolab.core.files import check_valid_path
from zerolab.oracles.solver import UNLIMITED_BUDGET, SolverBudget, oracle_for
from zerolab.play.engine import slots_per_thread_in_memory
from zerolab.rules import compiled_rules, rules
from zerolab.rules.catalogue import game_name, is_game, parse_game, registered_games
from zerolab.rules.position import Position
from zerolab.rules.rules import Game
from zerolab.search.evaluator import Evaluator

if TYPE_CHECKING:
    from zerolab.evaluation.positions import SolvedPositions

__all__ = [
    "Analysis", "LoadedAgent", "MoveAnalysis", "Network", "analyse", "encode_batch", "list_games",
    "load_agent", "load_network", "read_positions", "solve",
]  # fmt: skip

GAME_OPTION_EXAMPLE = 'game=..., as in game="othello:6x6"'
AGENT_EXAMPLE = 'an agent, such as "mcts:100" or "runs/demo"'


def require_callable(name: str, value: object) -> None:
    """Raise UserError unless the value is callable."""
    require_type(name, value, Callable, "a function")


def require_path(name: str, value: object) -> None:
    """Raise UserError unless the value is a valid path; the path need not exist."""
    require_type(name, value, (str, Path), "a path")
    check_valid_path(Path(str(value)))


def require_position(value: object) -> None:
    """Raise UserError unless the value is a position."""
    require_type("position", value, Position, "a zerolab.Position")


def agents_from_specs(specs: Iterable[object], game: str | None) -> list[Agent]:
    """Return the agents with these specs, all for one game; raise UserError for invalid specs."""
    return parse_agents(
        require_spec_strings(specs), game_from_name(game), game_example=GAME_OPTION_EXAMPLE
    )


def require_spec_strings(values: Iterable[object]) -> list[str]:
    """Return the values as a list of strings; raise UserError if any is not a string."""
    specs = list(values)
    for spec in specs:
        require_type("agent", spec, str, AGENT_EXAMPLE)
    return [str(spec) for spec in specs]


def game_from_name(name: str | None) -> Game | None:
    """Return the game called `name`, or None if `name` is None; raise UserError if invalid."""
    return None if name is None else parse_game(name)


def solve(position: Position, *, nodes: int | None = None) -> dict[str, int]:
    """Return the exact value of every legal move for the side to move, best move first.

    In Othello, values are disc differences. In other games they are positive for a win, 0 for a
    draw and negative for a loss; faster wins and slower losses have higher values. Raises
    NotSolvedError, which is a UserError, if searching `nodes` positions is not enough, and
    UserError for a finished game.
    """
    require_position(position)
    if position.outcome is not None:
        raise UserError("the game is over: expected a position with legal moves")
    budget = (
        UNLIMITED_BUDGET
        if nodes is None
        else SolverBudget(nodes=checked_whole_number("nodes", nodes, 1))
    )
    values = oracle_for(position.game, budget).action_values(position.state[None])[0]
    ranked = sorted(position.legal_actions, key=lambda action: -values[action])
    return {position.action_name(action): int(values[action]) for action in ranked}


def list_games() -> list[str]:
    """Return the names of all games, plug-ins included, without board sizes, such as "othello"."""
    return sorted(registered_games())


def read_positions(path: Path | str, game: str | None = None) -> SolvedPositions:
    """Return the solved positions in a file written by `zerolab dataset`.

    The result has the attributes `states`, uint64[n, words]; `action_values`, int32[n, actions],
    the exact values of all moves, `ILLEGAL_VALUE` for illegal ones; and `moves` and `offsets`, the
    moves that lead to each position. Every position is replayed and checked. Raises UserError if
    the file is missing or damaged, was written by a newer version, or is for a game other than
    `game`.
    """
    from zerolab.evaluation.positions import read_positions as read  # noqa: PLC0415  pyarrow is slow

    require_path("path", path)
    positions, _ = read(Path(path), None if game is None else parse_game(game))
    return positions


def encode_batch(
    game: Game | str, states: NDArray[np.uint64], padded: int | None = None
) -> NDArray[np.float32]:
    """Return float32[N, planes, rows, columns]: the planes of states, uint64[N, words].

    The game is given by name or value. If `padded` is given, the batch is padded to that length, at
    least N, with zeros. Raises UserError for an unknown game, for states of another type or shape,
    and for a shorter length.
    """
    game_value = game if is_game(game) else parse_game(game)
    length = None if padded is None else checked_whole_number("padded", padded)
    return compiled_rules.encode_batch(game_value, states, length)


class Network:
    """A network from a run or an agent file.

    `name` is its canonical spec, and `game` is the game that it plays.
    """

    def __init__(self, name: str, game: Game, evaluator: Evaluator) -> None:
        self.name = name
        self.game = game
        self._evaluator = evaluator

    def evaluate(
        self, positions: Sequence[Position]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors float32[N, actions] and values float32[N] of N positions.

        Priors are the network's policy over all actions, including illegal actions. Values are the
        expected outcomes for the side to move, in [-1, 1]. Raises UserError for a position of
        another game.
        """
        require_type("positions", positions, Sequence, "a list of positions")
        for position in positions:
            require_position(position)
            if game_name(position.game) != game_name(self.game):
                raise UserError(
                    f"{self.name} plays {game_name(self.game)}: expected positions of that game,"
                    f" not of {game_name(position.game)}"
                )
        states = np.array([position.state for position in positions], np.uint64)
        return self.evaluate_states(states.reshape(len(positions), rules.word_count(self.game)))

    def evaluate_states(
        self, states: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return priors and values of states uint64[N, words], such as those of `read_positions`.

        See `evaluate` for the result. Raises UserError for an array of the wrong type or shape.
        """
        compiled_rules.require_states(self.game, states)
        if not len(states):
            return np.empty((0, rules.action_count(self.game)), np.float32), np.empty(0, np.float32)
        return self._evaluator.evaluate(states)

    def __repr__(self) -> str:
        return f"<Network {self.name} for {game_name(self.game)}>"


def load_network(spec: str) -> Network:
    """Return a network by spec: ``runs/demo`` (its best), ``runs/demo@12`` or ``agent.zerolab``.

    Raises UserError if the run, the network or the file is missing or damaged.
    """
    if not isinstance(spec, str) or fixed_game(spec) is None:
        raise _no_network_error(spec)
    if "?" in spec:
        raise UserError(f"{quoted(spec)}: expected no options, since a network does not search")
    return network_of_agent(parse_agent(spec))


def network_of_agent(agent: Agent) -> Network:
    """Return the network of an agent; raise UserError if it has none."""
    if agent.load_evaluator is None:
        raise _no_network_error(agent.name)
    return Network(agent.name, agent.game, agent.load_evaluator())


def _no_network_error(spec: object) -> UserError:
    return UserError(f"{quoted(spec)} has no network: expected a run, such as runs/demo@12")


class LoadedAgent:
    """An agent that stays loaded, with its network and its compiled search.

    `name` is its canonical spec, and `game` is the name of the game that it plays. Several threads
    can use it; they take turns. At the end of a ``with`` statement, its external program, if any,
    is terminated.
    """

    def __init__(self, agent: Agent) -> None:
        self.name = agent.name
        self.game = game_name(agent.game)
        self._agent = agent
        self._lock = threading.Lock()
        self._player = prepare_for_one_game(agent.new_player())

    @overload
    def analyse(self, positions: Position, *, seed: int = 0) -> Analysis: ...

    @overload
    def analyse(self, positions: Sequence[Position], *, seed: int = 0) -> list[Analysis]: ...

    def analyse(
        self, positions: Position | Sequence[Position], *, seed: int = 0
    ) -> Analysis | list[Analysis]:
        """Return the analysis of a position, or a list of the analyses of several positions.

        Positions in a list are searched together, which is faster with a network. Each analysis is
        the same as that of `zerolab.analyse` with the same seed. Raises UserError for finished
        games, for positions of other games, and if the agent forfeits.
        """
        number = checked_whole_number("seed", seed, 0)
        if isinstance(positions, Position):
            return self._analyse([positions], number)[0]
        require_type("positions", positions, Sequence, "a zerolab.Position or a list of them")
        return self._analyse(list(positions), number)

    def move(self, position: Position, *, seed: int = 0) -> str:
        """Return the name of the move that the agent plays; raise the same errors as `analyse`."""
        require_position(position)
        return self.analyse(position, seed=seed).chosen_move.name

    def close(self) -> None:
        """Terminate the agent's external program, if any; the next analysis starts it again."""
        with self._lock:
            close_player(self._player)

    def _analyse(self, positions: list[Position], seed: int) -> list[Analysis]:
        for number, position in enumerate(positions):
            if not isinstance(position, Position):
                raise UserError(
                    f"positions[{number}] = {quoted(position)}: expected a zerolab.Position"
                )
            try:
                require_analysable(self._agent, position)
            except UserError as error:
                where = f"positions[{number}]: " if len(positions) > 1 else ""
                raise UserError(f"{where}{error}") from None
        size = min(slots_per_thread_in_memory([self._agent], 1), self._agent.max_games_per_player)
        with self._lock, self._one_core():
            return [
                analysis
                for first in range(0, len(positions), size)
                for analysis in replay_and_analyse(
                    self._player, positions[first : first + size], seed
                )
            ]

    def _one_core(self) -> AbstractContextManager[None]:
        """Limit a network to one core, as in games; small batches are no faster on more cores."""
        if self._agent.load_evaluator is None:
            return nullcontext()
        from zerolab.networks.inference import limit_torch_threads  # noqa: PLC0415  imports torch

        return limit_torch_threads(1)

    def __enter__(self) -> LoadedAgent:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<LoadedAgent {self.name} for {self.game}>"


def load_agent(spec: str, game: str | None = None) -> LoadedAgent:
    """Load an agent, such as ``"runs/demo?simulations=800"``, for many analyses or moves.

    `game` is required unless the agent determines it, as runs do. Raises UserError for an invalid
    spec, and if the network is missing or damaged.
    """
    require_type("agent", spec, str, AGENT_EXAMPLE)
    (agent,) = parse_agents([spec], game_from_name(game), game_example=GAME_OPTION_EXAMPLE)
    return LoadedAgent(agent)


def analyse(position: Position, agent: str | Agent, *, seed: int = 0) -> Analysis:
    """Analyse a position with an agent, such as ``"mcts:1000"`` or ``"runs/demo"``.

    For several analyses, `load_agent` is faster. Raises UserError for an invalid argument, a
    finished game, or an agent for another game.
    """
    require_position(position)
    require_type("agent", agent, (str, Agent), 'an agent, such as "mcts:1000"')
    parsed = parse_agent(agent, position.game) if isinstance(agent, str) else agent
    with LoadedAgent(parsed) as loaded:
        return loaded.analyse(position, seed=seed)
