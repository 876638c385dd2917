"""All images of a position become one, and what is known of its actions turns with it."""

from __future__ import annotations

import numpy as np
import pytest

from zerolab.replay.window import canonical
from zerolab.rules import encoding, python, rules
from zerolab.rules.position import Position


def some_positions(name):
    random = np.random.default_rng(3)
    found = []
    for _ in range(6):
        position = Position.start(name)
        while position.outcome is None and len(found) % 9 != 8:
            found.append(position)
            position = position.play(int(random.choice(position.legal_actions)))
    return found


@pytest.mark.parametrize("name", ["othello:4x6", "connect_four:5x5", "gobang:4x4:3"])
def test_every_image_becomes_the_same_row(name):
    positions = some_positions(name)
    game, actions = positions[0].game, rules.actions(positions[0].game)
    count = encoding.symmetries(game)
    _, moved = python.symmetry_tables(game)
    known = np.random.default_rng(1).random((len(positions), actions)).astype(np.float16)
    images = [
        {
            "states": np.array([python.transform(game, each.state, s) for each in positions]),
            "policies": np.take_along_axis(known, np.argsort(moved[[s] * len(known)]), axis=1),
            "values": np.arange(len(positions), dtype=np.float32),
            "empty": np.empty((len(positions), 0), np.float16),
        }
        for s in range(count)
    ]
    rows = [canonical(game, each) for each in images]
    for row, image in zip(rows, images, strict=True):
        assert (row["states"] == rows[0]["states"]).all()
        assert row["values"] is image["values"]
        assert row["empty"].shape == image["empty"].shape
    asymmetric = [
        len({python.transform(game, each.state, s).tobytes() for s in range(count)}) == count
        for each in positions
    ]
    assert sum(asymmetric) > 3
    for row in rows:
        assert (row["policies"] == rows[0]["policies"])[asymmetric].all()


@pytest.mark.parametrize("name", ["othello:4x6", "connect_four:5x5", "gobang:4x4:3"])
def test_playing_on_an_image_leads_to_an_image(name):
    positions = some_positions(name)
    game = positions[0].game
    played = [int(position.legal_actions[-1]) for position in positions]
    moves = np.zeros((len(positions), rules.actions(game)), np.float16)
    moves[np.arange(len(played)), played] = 1
    states = np.array([position.state for position in positions])
    row = canonical(game, {"states": states, "moves": moves})
    after = np.array([python.apply(game, s, a) for s, a in zip(states, played, strict=True)])
    turned = row["moves"].argmax(axis=1)
    after_image = np.array(
        [python.apply(game, s, int(a)) for s, a in zip(row["states"], turned, strict=True)]
    )
    one, other = (canonical(game, {"states": each})["states"] for each in (after, after_image))
    assert (one == other).all()
