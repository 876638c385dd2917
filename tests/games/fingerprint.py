"""Results of all rules functions along random games."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from zerolab.core import streams
from zerolab.core.compiled import kernel
from zerolab.rules import compiled_rules, encoding, rules
from zerolab.rules.catalogue import parse_game
from zerolab.rules.compiled_rules import perft
from zerolab.rules.rules import MAX_PLIES
from zerolab.testing.random_games import random_games


@kernel
def _fill_random(game: Any, state: Any, keys: Any, out: Any, moves: Any, draws: Any) -> None:
    for i in range(keys.shape[0]):
        draws[i, 0] = rules.random_action(game, state, streams.random_bits(keys[i], 0))
        draws[i, 1] = rules.playout(game, state, keys[i], out, moves)
        draws[i, 2] = streams.gamma(keys[i], 0.3)


def fingerprint(name: str) -> list[Any]:
    """Return numbers that reveal differences between compiled and plain rules."""
    game = parse_game(name)
    numbers: list[Any] = [[*count] for count in perft(game, 2)]
    played = random_games(game)[0]
    for sample in played:
        numbers.append([sample.outcome, sample.history, sample.state.tobytes().hex()])
        numbers.append(compiled_rules.encode(game, sample.state).tobytes().hex())
        for symmetry in range(encoding.symmetry_count(game)):
            numbers.append(compiled_rules.transform(game, sample.state, symmetry).tobytes().hex())
    for sample in played[: len(played) // 2 : 2]:
        zeros = np.zeros(2, np.int64)
        keys = streams.stream_keys(7, 1, np.arange(2), zeros, streams.PLAYOUT)
        draws = np.empty((2, 3))
        moves = np.zeros(1 + MAX_PLIES, np.int32)
        _fill_random(game, sample.state, keys, sample.state.copy(), moves, draws)
        numbers.append(moves.tolist())
        numbers.append(draws.tobytes().hex())
    return json.loads(json.dumps(numbers))  # type: ignore[no-any-return]
