"""Analyses of positions, by agents that can stay loaded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import overload

from zerolab.agents.agent import Agent, ProgramPlayer
from zerolab.agents.analysis import Analysis, MoveAnalysis, replay_and_analyse, require_analysable
from zerolab.agents.network_players import prepare_for_one_game
from zerolab.agents.specs import parse_agent, parse_agents
from zerolab.api.positions import (
    AGENT,
    GAME_EXAMPLE,
    game_of,
    require_position,
)
from zerolab.core.errors import UserError, checked_whole_number, quoted, require_type
from zerolab.play.engine import slots_within_memory
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position

__all__ = ["Analysis", "LoadedAgent", "MoveAnalysis", "analyse", "load_agent"]


class LoadedAgent:
    """An agent that stays loaded, with its network and its compiled search.

    `name` is its canonical spec, and `game` is the name of the game that it plays. It can be used
    from several threads, which take turns. In a ``with`` statement, an external program is
    terminated at the end.
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
        """Return the analysis of a position, or a list with that of each position in a list.

        Positions in a list are searched together, which is faster with a network. The
        analysis of a position is the one of `zerolab.analyse` with the same seed. Raises UserError
        for finished games, positions of other games, and if the agent forfeits.
        """
        number = checked_whole_number("seed", seed, 0)
        if isinstance(positions, Position):
            return self._analyse([positions], number)[0]
        require_type("positions", positions, Sequence, "a zerolab.Position or a list of them")
        return self._analyse(list(positions), number)

    def move(self, position: Position, *, seed: int = 0) -> str:
        """Return the name of the move that the agent plays; errors are those of `analyse`."""
        require_position(position)
        return self.analyse(position, seed=seed).best.name

    def close(self) -> None:
        """Terminate the agent's external program, if any; the next analysis starts it again."""
        with self._lock:
            if isinstance(self._player, ProgramPlayer):
                self._player.close()

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
        size = min(slots_within_memory([self._agent], 1), self._agent.max_games_per_player)
        with self._lock, self._one_core():
            return [
                analysis
                for first in range(0, len(positions), size)
                for analysis in replay_and_analyse(
                    self._player, positions[first : first + size], seed
                )
            ]

    def _one_core(self) -> AbstractContextManager[None]:
        """Limit a network to one core, as in games; small batches are no faster on several."""
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
    require_type("agent", spec, str, AGENT)
    (agent,) = parse_agents([spec], game_of(game), game_example=GAME_EXAMPLE)
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
