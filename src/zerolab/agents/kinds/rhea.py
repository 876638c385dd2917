"""``rhea:N``: rolling horizon evolution with N playouts per move, without a network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zerolab.agents.interface import AGENT_KINDS, Access, Actions, Agent, Slots, StatelessPlayer
from zerolab.agents.kinds.playouts import parse_playouts
from zerolab.agents.options import describe, parse_settings, split_options
from zerolab.rules import interface as rules
from zerolab.rules.interface import Game
from zerolab.search.rhea import RheaSettings, rhea_actions

_PLAYOUTS_PER_POLL = 50_000


class RheaPlayer(StatelessPlayer):
    """Plays the first action of the best plan; every move begins with new plans [Wang2021b, Ch. 5].

    It is an `AsyncPlayer` so that it can be stopped: a kernel that evolves plans cannot.
    """

    def __init__(self, game: Game, name: str, settings: RheaSettings) -> None:
        self.name = name
        self._game = game
        self._settings = settings
        self.start(0)

    def start(self, games: int) -> None:
        """See `Player.start`."""
        self._slots = np.empty(0, np.int64)
        self._states = np.empty((0, rules.words(self._game)), np.uint64)
        self._keys = np.empty(0, np.uint64)

    def choose(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> Actions:
        """See `Player.choose`."""
        return rhea_actions(self._game, self._settings, states, keys)

    def submit(self, slots: Slots, states: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
        """See `AsyncPlayer.submit`."""
        self._slots = np.concatenate([self._slots, slots])
        self._states = np.concatenate([self._states, states])
        self._keys = np.concatenate([self._keys, keys])

    def poll(self) -> tuple[Slots, Actions]:
        """See `AsyncPlayer.poll`: some moves, as many as take a fraction of a second."""
        count = max(1, _PLAYOUTS_PER_POLL // self._settings.playouts)
        slots, self._slots = self._slots[:count], self._slots[count:]
        states, self._states = self._states[:count], self._states[count:]
        keys, self._keys = self._keys[:count], self._keys[count:]
        return slots, self.choose(slots, states, keys)


class _Rhea:
    form = "rhea:N"
    access: Access = "nothing"

    def game(self, argument: str) -> None:
        """See `AgentKind.game`."""

    def agent(self, argument: str, game: Game) -> Agent:
        """See `AgentKind.agent`."""
        head, text = split_options(argument)
        base = _unchecked(parse_playouts("rhea", head))
        options = parse_settings(RheaSettings, text, base)
        # Playouts given as an option have one spelling too.
        name = f"rhea:{options.playouts}{describe(options, _unchecked(options.playouts))}"
        return Agent(
            name,
            lambda: RheaPlayer(game, name, options),
            settings=options,
            game=game,
            identity=name,
        )


def _unchecked(playouts: int) -> RheaSettings:
    """Return the defaults with a budget that may only suffice for another population."""
    return RheaSettings.model_construct(playouts=playouts)


AGENT_KINDS.add("rhea", _Rhea())
