"""RHEA as an asynchronous player, which can be stopped between moves."""

from __future__ import annotations

import numpy as np

from search.plans import some_keys, some_states
from zerolab.agents.agent import AsyncPlayer
from zerolab.agents.baselines import RheaPlayer
from zerolab.rules.catalogue import parse_game
from zerolab.search.rhea import RheaSettings


def test_submitted_moves_are_decided_in_turn():
    name = "connect_four:5x5"
    player = RheaPlayer(parse_game(name), "rhea", RheaSettings(playouts=20_000))
    assert isinstance(player, AsyncPlayer)
    states, keys = some_states(name, 5), some_keys(5)
    slots = np.array([4, 0, 3, 7, 1])
    player.start(8)
    player.submit(slots[:2], states[:2], keys[:2])
    player.submit(slots[2:], states[2:], keys[2:])
    turns = []
    while not turns or turns[-1][0].size:
        turns.append(player.step())
    assert [len(decided) for decided, _ in turns] == [2, 2, 1, 0]
    assert np.concatenate([decided for decided, _ in turns]).tolist() == slots.tolist()
    actions = np.concatenate([chosen for _, chosen in turns])
    assert actions.tolist() == player.choose(slots, states, keys).tolist()
