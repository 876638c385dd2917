"""PettingZoo environments for all games (requires the ``pettingzoo`` extra)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerolab.core.errors import MissingExtraError, UserError, checked_whole_number, quoted
from zerolab.rules.position import Position

try:
    from gymnasium import spaces
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ModuleNotFoundError as error:
    raise MissingExtraError.for_package(
        "a PettingZoo environment", "pettingzoo", "pettingzoo"
    ) from error

RENDER_MODES = ("ansi",)


def env(game: str, render_mode: str | None = None) -> AECEnv:
    """Return the environment of a game, such as ``"othello:6x6"``, with PettingZoo's checks.

    An illegal action loses the game. Raises UserError for an unknown game or render mode.
    """
    terminating = wrappers.TerminateIllegalWrapper(GameEnv(game, render_mode), illegal_reward=-1)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(terminating))


class GameEnv(AECEnv):  # type: ignore[misc]
    """Environment of a game with two players who take turns.

    An observation has the planes of the position, float32[planes, rows, columns], and the mask of
    legal actions, int8[actions], all 0 for the waiting player. Both players see the position from
    the point of view of the player to move, whose pieces are 1 in the first plane. The final reward
    is 1 for a win, 0 for a draw and -1 for a loss. Raises UserError for an unknown game or render
    mode, and in `step` for an illegal action.
    """

    def __init__(self, game: str, render_mode: str | None = None) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise UserError(f'render_mode = {quoted(render_mode)}: expected None or "ansi"')
        super().__init__()
        self._start = Position.start(game)
        self.metadata = {
            "name": f"zerolab/{game}", "render_modes": list(RENDER_MODES),
            "is_parallelizable": False,
        }  # fmt: skip
        self.render_mode = render_mode
        self.position = self._start
        """Current position."""
        self.possible_agents = ["player_0", "player_1"]
        actions = len(self._start.legal_mask)
        planes = spaces.Box(-1.0, 1.0, self._start.planes().shape, np.float32)
        mask = spaces.Box(0, 1, (actions,), np.int8)
        both = spaces.Dict({"observation": planes, "action_mask": mask})
        self.observation_spaces = dict.fromkeys(self.possible_agents, both)
        self.action_spaces = {name: spaces.Discrete(actions) for name in self.possible_agents}
        self.reset()

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game; nothing is random, so `seed` has no effect."""
        self.position = self._start
        self.agents = list(self.possible_agents)
        self.rewards: dict[str, float] = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {name: {} for name in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> dict[str, Any]:
        is_to_move = agent == self.agent_selection
        mask = self.position.legal_mask if is_to_move else np.zeros_like(self.position.legal_mask)
        return {"observation": self.position.planes(), "action_mask": mask.astype(np.int8)}

    def step(self, action: int | None) -> None:
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[self.agent_selection] = 0.0
        self.position = self.position.play(checked_whole_number("action", action))
        result = self.position.first_player_outcome
        if result is not None:
            scores = zip(self.possible_agents, (result, -result), strict=True)
            self.rewards = {name: float(score) for name, score in scores}
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.possible_agents[0 if self.position.first_to_move else 1]
        self._accumulate_rewards()

    def render(self) -> str | None:
        """Return the board as text if `render_mode` is ``ansi``."""
        return self.position.render() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Do nothing, because no window is open."""
