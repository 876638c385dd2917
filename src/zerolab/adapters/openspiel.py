"""Adapters for OpenSpiel: agents as bots, and its tree search as the ``openspiel_mcts:N`` agent.

Games are replayed without converting actions, because OpenSpiel numbers actions identically
[OpenSpiel]. The ``openspiel`` extra installs the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.agent import AGENT_KINDS, Actions, Agent, AgentKind, Slots
from zerolab.agents.analysis import replay_and_analyse
from zerolab.agents.baselines import parse_playout_count
from zerolab.agents.network_players import prepare_for_one_game
from zerolab.core.errors import MissingExtraError, UserError, checked_whole_number, require_type
from zerolab.rules.catalogue import game_name
from zerolab.rules.position import Position
from zerolab.rules.rules import Game

_NAME = "openspiel_mcts"
_EXPLORATION = 2.0
_MEGABYTES = 100  # memory limit of the search tree for one move


def openspiel_name(game: Game) -> str:
    """Return OpenSpiel's name for a game; raise UserError if OpenSpiel does not have the game."""
    name, _, _ = game_name(game).partition(":")
    rows, columns, *others = game
    if name == "connect_four":
        return f"connect_four(rows={rows},columns={columns},x_in_row={others[0]})"
    if name == "gobang":
        return f"mnk(m={columns},n={rows},k={others[0]})"
    if name == "hex":
        return f"hex(num_rows={rows},num_cols={columns})"
    if name == "othello" and (rows, columns) == (8, 8):
        return "othello"
    raise UserError(
        f"OpenSpiel does not have {game_name(game)}: expected connect_four, gobang, hex or"
        " othello:8x8"
    )


def openspiel_bot(spec: str, game: Game | str, seed: int = 0) -> Any:
    """Return a `pyspiel.Bot` that plays like the agent `spec`, such as ``"runs/demo"``.

    `game` is a name, such as ``"connect_four:6x7"``, or a parsed game. The bot's moves depend only
    on the seed and the moves played so far. Raises UserError for an invalid spec or a game that
    OpenSpiel does not have, and MissingExtraError if OpenSpiel is not installed.
    """
    from zerolab.agents.specs import parse_agent  # noqa: PLC0415  that module imports this one

    require_type("spec", spec, str, 'an agent, such as "mcts:100"')
    seed = checked_whole_number("seed", seed)
    game = Position.start(game).game
    pyspiel = _pyspiel()
    expected = pyspiel.load_game(openspiel_name(game))
    agent = parse_agent(spec, game)
    player = prepare_for_one_game(agent.new_player())

    class OpenSpielBot(pyspiel.Bot):  # type: ignore[misc,name-defined]
        """Bot that replays the moves of a state and plays the agent's move."""

        def __init__(self) -> None:
            pyspiel.Bot.__init__(self)

        def step(self, state: Any) -> int:
            if _game_key(state.get_game()) != _game_key(expected):
                raise UserError(f"the bot plays {expected}: cannot move in {state.get_game()}")
            position = Position.start(game)
            for action in state.history():
                position = position.play(action)
            (analysis,) = replay_and_analyse(player, [position], seed)
            return analysis.chosen_move.action

        def restart_at(self, state: Any) -> None:
            """Do nothing, because every step replays the moves of its state."""

    return OpenSpielBot()


def _game_key(game: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and parameters, which may be omitted from the text if they are defaults."""
    return game.get_type().short_name, game.get_parameters()


class OpenSpielMctsPlayer:
    """Player that searches with OpenSpiel's tree search, with a random playout per simulation."""

    def __init__(self, game: Game, name: str, simulations: int) -> None:
        self.name = name
        self._pyspiel = _pyspiel()
        self._game = self._pyspiel.load_game(openspiel_name(game))
        self._simulations = simulations
        self._states: list[Any] = []

    def start(self, games: int) -> None:
        self._states = [self._game.new_initial_state() for _ in range(games)]

    def reset(self, slots: Slots) -> None:
        for slot in slots.tolist():
            self._states[slot] = self._game.new_initial_state()

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        pairs = zip(slots.tolist(), keys.tolist(), strict=True)
        return np.array([self._choose(self._states[slot], key) for slot, key in pairs], np.int64)

    def _choose(self, state: Any, key: int) -> int:
        seed = key >> 33
        evaluator = self._pyspiel.RandomRolloutEvaluator(1, seed)
        bot = self._pyspiel.MCTSBot(
            self._game,
            evaluator,
            _EXPLORATION,
            self._simulations,
            _MEGABYTES,
            True,
            seed,
            False,
        )
        return int(bot.step(state))

    def advance(self, slots: Slots, actions: Actions) -> None:
        for slot, action in zip(slots.tolist(), actions.tolist(), strict=True):
            self._states[slot].apply_action(action)


class _SpielMcts(AgentKind):
    """OpenSpiel's tree search with N random playouts per move."""

    spec_form = f"{_NAME}:N"

    def new_agent(self, argument: str, game: Game) -> Agent:
        simulations = parse_playout_count(_NAME, argument)
        _pyspiel()
        openspiel_name(game)
        name = f"{_NAME}:{simulations}"
        return Agent(
            name, lambda: OpenSpielMctsPlayer(game, name, simulations), game=game, identity=name
        )


def _pyspiel() -> Any:
    """Return the `pyspiel` module; raise MissingExtraError if OpenSpiel is not installed."""
    try:
        import pyspiel  # noqa: PLC0415  slow and optional
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_package("OpenSpiel", "open-spiel", "openspiel") from error
    return pyspiel


AGENT_KINDS.add(_NAME, _SpielMcts())
